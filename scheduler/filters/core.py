# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs."""

import numpy as np

from inventory.fits import fits, limit
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class CoreFilter(BaseHostFilter):
    """Keep the hosts with enough free vCPUs, over-commit included.

    A host that reports no CPUs at all passes, without a limit: its count is taken for broken.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total, ratio = hosts.vcpus_total, hosts.cpu_allocation_ratio
        most = limit(total, ratio)
        hosts.limits.vcpu = np.where(most > 0, most, np.nan)
        broken = np.asarray(total == 0, np.bool_)
        return broken | fits(total, hosts.vcpus_used, ratio, spec.vcpus)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, ratio = host_state.vcpus_total, host_state.cpu_allocation_ratio
        if spec_obj.vcpus > total:
            return f"needs {spec_obj.vcpus} vCPUs, the host has only {total} CPUs"
        room = limit(total, ratio or 0.0) - host_state.vcpus_used
        return f"needs {spec_obj.vcpus} vCPUs, {room:g} left of {total} x {ratio}"
