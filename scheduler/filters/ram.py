# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory."""

from typing import Any, ClassVar

import numpy as np

from scheduler.filters import HostState, HostTable, Mask, RequestSpec
from scheduler.filters._bounds import OvercommitFilter


class RamFilter(OvercommitFilter):
    """Keep the hosts with enough free memory, over-commit included."""

    resource, unit, ratio = "memory_mb", ("MB of memory",) * 2, "ram_allocation_ratio"
    reads: ClassVar[tuple[str, ...]] = (
        "total_usable_ram_mb",
        "free_ram_mb",
        "ram_allocation_ratio",
    )
    row_local = True

    def amounts(self, hosts: HostTable | HostState) -> tuple[Any, Any]:
        return hosts.total_usable_ram_mb, hosts.total_usable_ram_mb - hosts.free_ram_mb

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes, most = self.room(hosts, spec)
        most[~passes] = np.nan
        hosts.limits.memory_mb = most
        return passes
