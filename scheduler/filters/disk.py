# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for local disk."""

from typing import Any, ClassVar

import numpy as np

from scheduler.filters import HostState, HostTable, Mask, RequestSpec
from scheduler.filters._bounds import OvercommitFilter


class DiskFilter(OvercommitFilter):
    """Keep the hosts with enough free disk for root, ephemeral and swap, over-commit included."""

    resource, unit, ratio = "disk_mb", ("MB of disk",) * 2, "disk_allocation_ratio"
    reads: ClassVar[tuple[str, ...]] = (
        "total_usable_disk_gb",
        "free_disk_mb",
        "disk_allocation_ratio",
    )
    row_local = True

    def amounts(self, hosts: HostTable | HostState) -> tuple[Any, Any]:
        total = hosts.total_usable_disk_gb * 1024
        return total, total - hosts.free_disk_mb

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes, most = self.room(hosts, spec)
        most[~passes] = np.nan
        hosts.limits.disk_gb = most / 1024
        return passes
