# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of what hosts measure about themselves, for MetricsFilter and MetricsWeigher."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        mutable=True,
        default=1.0,
        help="""
Weight of the sum of metrics that weight_setting describes. Positive prefers more of it, negative
less, 0 leaves it out. The metadata key metrics_weight_multiplier on an aggregate overrides it for
that aggregate's hosts; the smallest wins where several do.
""",
    ),
    cfg.ListOpt(
        "weight_setting",
        mutable=True,
        default=[],
        help="""
Metrics to add up and their ratios, as name=ratio each: cpu.idle.percent=1.0,cpu.iowait.percent=-2.0
""",
    ),
    cfg.BoolOpt(
        "required",
        mutable=True,
        default=True,
        help="""
Whether a host without one of the metrics counts as a mistake: it is put last, with a warning. If
not, its weight is weight_of_unavailable. Enable MetricsFilter to refuse such hosts altogether.
""",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        mutable=True,
        default=-10000.0,
        help="Weight of a host that lacks one of the metrics, where they are not required.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="metrics")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("metrics", OPTS)]
