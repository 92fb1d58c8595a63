# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for local disk."""

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


class DiskFilter(BaseHostFilter):
    """Keep the hosts with enough free disk for root, ephemeral and swap, over-commit included."""

    reads: ClassVar[tuple[str, ...]] = (
        "total_usable_disk_gb",
        "free_disk_mb",
        "disk_allocation_ratio",
    )

    def question(self, spec: RequestSpec) -> Hashable | None:
        return spec.disk_mb

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total = hosts.total_usable_disk_gb * 1024
        used = total - hosts.free_disk_mb
        passes, most = room(total, used, self.ratios(hosts), spec.disk_mb)
        hosts.limits.disk_gb = np.where(passes, most / 1024, np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return shortage(self._held(host_state), spec_obj.disk_mb, "MB of disk")

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        return lack(self._held(host_state), spec_obj.disk_mb, "disk_mb")

    def ratios(self, hosts: HostTable) -> Weights:
        """Return for each row by what its disk is multiplied, NaN where it is not known."""
        return hosts.disk_allocation_ratio

    def _held(self, host_state: HostState) -> Held:
        ratio = self.ratios(host_state.table)[host_state.row]
        total = host_state.total_usable_disk_gb * 1024
        used = total - host_state.free_disk_mb
        return Held(total, used, ratio)
