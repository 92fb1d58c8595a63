# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters for hosts that have exactly what is requested, as bare metal needs it.

The limit is what the host has, so that only one of several simultaneous claims can succeed.
"""

from typing import ClassVar

import numpy as np

from inventory.errors import counted
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.resources import DISK, MEMORY, ResourceKind


class _ExactFilter(BaseHostFilter):
    kind: ClassVar[ResourceKind]

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total, used = self.kind.amounts(hosts)
        passes = total - used == getattr(spec, self.kind.name)
        most = np.where(passes, getattr(hosts, self.kind.total), np.nan)
        setattr(hosts.limits, self.kind.limit, most)
        return np.asarray(passes, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        needs = counted(getattr(spec_obj, self.kind.name), *self.kind.words)
        total, used = self.kind.amounts(host_state)
        return f"needs exactly {needs}, {total - used} are free"


class ExactDiskFilter(_ExactFilter):
    """Keep the hosts whose free disk is exactly root, ephemeral and swap."""

    kind = DISK


class ExactRamFilter(_ExactFilter):
    """Keep the hosts whose free memory is exactly what is requested."""

    kind = MEMORY


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
