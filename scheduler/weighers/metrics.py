# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the metrics that hosts report."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from scheduler.hosts.metrics import (
    parse_ratios,
    warn_of_missing,
    weighted_sum,
    weighted_sum_of_known,
)
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class MetricsWeigher(BaseHostWeigher):
    """Prefer the hosts with the higher sum of metrics, each times its ratio.

    A host without one of them comes last where they are required, and otherwise weighs
    weight_of_unavailable; a metric whose ratio is 0 may be missing then.
    """

    aggregate_key = "metrics_weight_multiplier"
    weight_setting: Sequence[str] = ()
    required = True
    weight_of_unavailable = -10000.0
    options = (
        ("multiplier", "metrics", "weight_multiplier"),
        ("weight_setting", "metrics", "weight_setting"),
        ("required", "metrics", "required"),
        ("weight_of_unavailable", "metrics", "weight_of_unavailable"),
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._settings = parse_ratios(self.weight_setting)
        self._ratios = tuple(each for each in self._settings.ratios if each[1] or self.required)

    def applies(self, spec: RequestSpec) -> bool:
        return bool(self.weight_setting)

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        self._settings.warn(hosts.warn, "[metrics] weight_setting")
        raw = self._of_each(hosts, weighted_sum)
        missing = np.isnan(raw)
        if not missing.any():
            return raw
        if self.required:
            warn_of_missing(hosts, self._ratios)
            return raw
        # Where the weight does not count, missing metrics do no harm.
        idle = np.asarray(self.multipliers(hosts, np.arange(hosts.size))) == 0
        instead = np.where(
            idle, self._of_each(hosts, weighted_sum_of_known), self.weight_of_unavailable
        )
        return np.where(missing, instead, raw)

    def _of_each(self, hosts: HostTable, sums: Callable[..., float]) -> Weights:
        return hosts.memo("metrics", (sums, self._ratios), partial(sums, self._ratios), float)
