# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.scaling import Weights
from scheduler.filters import BaseHostFilter
from scheduler.filters.overcommit import Held, lack, room, shortage
from scheduler.objects.request_spec import RequestSpec


class RamFilter(BaseHostFilter):
    """Keep the hosts with enough free memory, over-commit included."""

    reads: ClassVar[tuple[str, ...]] = (
        "total_usable_ram_mb",
        "free_ram_mb",
        "ram_allocation_ratio",
    )

    def question(self, spec: RequestSpec) -> Hashable | None:
        return spec.memory_mb

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total = hosts.total_usable_ram_mb
        used = total - hosts.free_ram_mb
        passes, most = room(total, used, self.ratios(hosts), spec.memory_mb)
        hosts.limits.memory_mb = np.where(passes, most, np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return shortage(self._held(host_state), spec_obj.memory_mb, "MB of memory")

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        return lack(self._held(host_state), spec_obj.memory_mb, "memory_mb")

    def ratios(self, hosts: HostTable) -> Weights:
        """Return for each row by what its memory is multiplied, NaN where it is not known."""
        return hosts.ram_allocation_ratio

    def _held(self, host_state: HostState) -> Held:
        ratio = self.ratios(host_state.table)[host_state.row]
        total = host_state.total_usable_ram_mb
        used = total - host_state.free_ram_mb
        return Held(total, used, ratio)
