# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for what hosts measure about themselves."""

from collections.abc import Sequence
from typing import Any

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.metric_sums import reported
from scheduler.decision.name_ratios import name_ratios
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec

OPTION = "[metrics] weight_setting"


class MetricsFilter(BaseHostFilter):
    """Keep the hosts that report all metrics which the weigher for metrics is to add up.

    Further metrics do not matter, and a host without any has none. Where no metric is named every
    host passes.
    """

    weight_setting: Sequence[str] = ()
    options = (("weight_setting", "metrics", "weight_setting"),)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._settings = name_ratios(self.weight_setting)
        self._wanted = tuple(dict.fromkeys(name for name, _ in self._settings.ratios))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        self._settings.warn(hosts.warn, OPTION)

        def complete(metrics: Any) -> bool:
            return not self._missing(metrics)

        return hosts.derived("metrics", ("metrics", self._wanted), complete, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"reports no {', '.join(self._missing(host_state.metrics))} among its metrics"

    def _missing(self, metrics: Any) -> list[str]:
        present = {name for name, _ in reported(metrics)}
        return [name for name in self._wanted if name not in present]
