# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that Nova's schedulers share with its compute services."""

from oslo_config import cfg

OPTS = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        mutable=True,
        default=False,
        help="""
Fill one NUMA cell of a host after the other instead of taking the emptiest first.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="compute")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("compute", OPTS)]
