# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of MetricsFilter and MetricsWeigher."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="Weight of the sum of metrics in weight_setting. Positive prefers more of it,"
        " negative less, 0 disables it. The metadata key metrics_weight_multiplier of an aggregate"
        " overrides it for the aggregate's hosts; the smallest wins where several do.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Metrics to add up and their ratios, as name=ratio each:"
        " cpu.idle.percent=1.0,cpu.iowait.percent=-2.0",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="Whether a host without one of the metrics is put last, with a warning. If not, its"
        " weight is weight_of_unavailable. Enable MetricsFilter to refuse such hosts.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="Weight of a host that lacks one of the metrics, where they are not required.",
    ),
]
