# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for local disk."""

import numpy as np

from inventory.fits import fits, limit
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class DiskFilter(BaseHostFilter):
    """Keep the hosts with enough free disk for root, ephemeral and swap, over-commit included."""

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total, ratio = hosts.total_usable_disk_gb * 1024, hosts.disk_allocation_ratio
        passes = fits(total, total - hosts.free_disk_mb, ratio, spec.disk_mb)
        hosts.limits.disk_gb = np.where(passes, limit(total, ratio) / 1024, np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, ratio = host_state.total_usable_disk_gb * 1024, host_state.disk_allocation_ratio
        if spec_obj.disk_mb > total:
            return f"needs {spec_obj.disk_mb} MB of disk, the host has only {total}"
        room = limit(total, ratio or 0.0) - total + host_state.free_disk_mb
        return f"needs {spec_obj.disk_mb} MB of disk, {room:g} left of {total} x {ratio}"
