# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters for hosts that have exactly what is requested, as bare metal needs it.

The limit is what the host has, so that only one of several simultaneous claims can succeed.
"""

from typing import ClassVar

import numpy as np

from inventory.errors import counted
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec


class _ExactFilter(BaseHostFilter):
    # The attribute of a request that names the amount, and its unit.
    resource: ClassVar[str]
    unit: ClassVar[str]
    # The columns of the free and of the total amount, and the limit that is the latter.
    free: ClassVar[str]
    total: ClassVar[str]
    limit: ClassVar[str]

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes = np.asarray(getattr(hosts, self.free) == getattr(spec, self.resource), np.bool_)
        setattr(hosts.limits, self.limit, np.where(passes, getattr(hosts, self.total), np.nan))
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        needed, free = getattr(spec_obj, self.resource), getattr(host_state, self.free)
        return f"needs exactly {needed} {self.unit}, {free} are free"


class ExactDiskFilter(_ExactFilter):
    """Keep the hosts whose free disk is exactly root, ephemeral and swap."""

    resource, unit = "disk_mb", "MB of disk"
    free, total, limit = "free_disk_mb", "total_usable_disk_gb", "disk_gb"


class ExactRamFilter(_ExactFilter):
    """Keep the hosts whose free memory is exactly what is requested."""

    resource, unit = "memory_mb", "MB of memory"
    free, total, limit = "free_ram_mb", "total_usable_ram_mb", "memory_mb"


class ExactCoreFilter(BaseHostFilter):
    """Keep the hosts whose free CPUs are exactly the vCPUs requested, and that report any."""

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total = hosts.vcpus_total
        passes = (total > 0) & (total - hosts.vcpus_used == spec.vcpus)
        hosts.limits.vcpu = np.where(passes, total, np.nan)
        return np.asarray(passes, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, needs = host_state.vcpus_total, f"needs exactly {counted(spec_obj.vcpus, 'vCPU')}"
        if total <= 0:
            return f"{needs}, the host reports {total} CPUs"
        free = total - host_state.vcpus_used
        return f"{needs}, {free} free of {total}"
