# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of MetricsFilter and MetricsWeigher."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="Weight of the sum of metrics in weight_setting. A positive weight prefers hosts"
        " with a larger sum, a negative weight hosts with a smaller sum; 0 disables the"
        " weight. The metadata key metrics_weight_multiplier of an aggregate overrides it"
        " for the hosts of the aggregate; where several aggregates do so, the smallest value"
        " is used.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Metrics to add up, each with its ratio, as in"
        " cpu.idle.percent=1.0,cpu.iowait.percent=-2.0",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="Whether a host that lacks one of the metrics is put last, with a warning. If not,"
        " the weight of such a host is weight_of_unavailable. Enable MetricsFilter to refuse"
        " such hosts.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="Weight of a host that lacks one of the metrics, if required is disabled.",
    ),
]
