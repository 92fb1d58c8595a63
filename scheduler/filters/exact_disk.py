# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for local disk of hosts that take one instance each."""

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class ExactDiskFilter(BaseHostFilter):
    """Keep the hosts whose free disk is exactly root, ephemeral and swap, as bare metal needs it.

    The limit is what the host has, so that only one of several simultaneous claims can succeed.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes = np.asarray(hosts.free_disk_mb == spec.disk_mb, np.bool_)
        hosts.limits.disk_gb = np.where(passes, hosts.total_usable_disk_gb, np.nan)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"needs exactly {spec_obj.disk_mb} MB of disk, {host_state.free_disk_mb} are free"
