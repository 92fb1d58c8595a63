# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs of hosts that take one instance each."""

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class ExactCoreFilter(BaseHostFilter):
    """Keep the hosts whose free CPUs are exactly the vCPUs requested, as bare metal needs it.

    A host that reports no CPUs is refused. The limit is what the host has, so that only one of
    several simultaneous claims can succeed.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total = hosts.vcpus_total
        passes = (total > 0) & (total - hosts.vcpus_used == spec.vcpus)
        hosts.limits.vcpu = np.where(passes, total, np.nan)
        return np.asarray(passes, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total = host_state.vcpus_total
        if total <= 0:
            return f"needs exactly {spec_obj.vcpus} vCPUs, the host reports {total} CPUs"
        free = total - host_state.vcpus_used
        return f"needs exactly {spec_obj.vcpus} vCPUs, {free} are free of {total}"
