# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory of hosts that take one instance each."""

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class ExactRamFilter(BaseHostFilter):
    """Keep the hosts whose free memory is exactly what is requested, as bare metal needs it.

    The limit is what the host has, so that only one of several simultaneous claims can succeed.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes = np.asarray(hosts.free_ram_mb == spec.memory_mb, np.bool_)
        hosts.limits.memory_mb = np.where(passes, hosts.total_usable_ram_mb, np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"needs exactly {spec_obj.memory_mb} MB of memory, {host_state.free_ram_mb} are free"
