# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the metrics that hosts report."""

from collections.abc import Sequence
from typing import Any

from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.metrics import parse_ratios, reported_metrics

OPTION = "[metrics] weight_setting"


class MetricsFilter(BaseHostFilter):
    """Keep the hosts that report all metrics that MetricsWeigher adds up; all without a setting."""

    weight_setting: Sequence[str] = ()
    options = (("weight_setting", "metrics", "weight_setting"),)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._settings = parse_ratios(self.weight_setting)
        self._wanted = tuple(dict.fromkeys(name for name, _ in self._settings.ratios))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        self._settings.warn(hosts.warn, OPTION)

        def complete(metrics: Any) -> bool:
            return not self._missing(metrics)

        return hosts.memo("metrics", ("metrics", self._wanted), complete, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"reports no {', '.join(self._missing(host_state.metrics))} among its metrics"

    def _missing(self, metrics: Any) -> list[str]:
        present = {name for name, _ in reported_metrics(metrics)}
        return [name for name in self._wanted if name not in present]
