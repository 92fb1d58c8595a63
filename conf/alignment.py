# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of AlignmentWeigher, which Nova has not."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        mutable=True,
        default=0.0,
        help="""
Weight of how well the free vCPUs, memory and disk of a host are shaped for what the instance needs.

Positive prefers hosts with much left of what is needed most. It packs well where several resources
run short at about the same time, and badly where only one does. 0, the default, leaves it out. The
metadata key alignment_weight_multiplier on an aggregate overrides it for that aggregate's hosts;
the smallest wins where several do.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="alignment")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("alignment", OPTS)]
