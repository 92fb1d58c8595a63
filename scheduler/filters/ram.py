# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory."""

import numpy as np

from inventory.fits import fits, limit
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class RamFilter(BaseHostFilter):
    """Keep the hosts with enough free memory, over-commit included."""

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total, ratio = hosts.total_usable_ram_mb, hosts.ram_allocation_ratio
        passes = fits(total, total - hosts.free_ram_mb, ratio, spec.memory_mb)
        hosts.limits.memory_mb = np.where(passes, limit(total, ratio), np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, ratio = host_state.total_usable_ram_mb, host_state.ram_allocation_ratio
        if spec_obj.memory_mb > total:
            return f"needs {spec_obj.memory_mb} MB of memory, the host has only {total}"
        room = limit(total, ratio or 0.0) - total + host_state.free_ram_mb
        return f"needs {spec_obj.memory_mb} MB of memory, {room:g} left of {total} x {ratio}"
