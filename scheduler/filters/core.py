# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs."""

from typing import Any, ClassVar

import numpy as np

from scheduler.filters import HostState, HostTable, Mask, RequestSpec
from scheduler.filters._bounds import OvercommitFilter


class CoreFilter(OvercommitFilter):
    """Keep the hosts with enough free vCPUs, over-commit included.

    A host that reports no CPUs at all passes, without a limit: its count is considered broken.
    """

    resource, unit, ratio = "vcpus", ("vCPU", "vCPUs"), "cpu_allocation_ratio"
    reads: ClassVar[tuple[str, ...]] = ("vcpus_total", "vcpus_used", "cpu_allocation_ratio")
    row_local = True

    def amounts(self, hosts: HostTable | HostState) -> tuple[Any, Any]:
        return hosts.vcpus_total, hosts.vcpus_used

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes, most = self.room(hosts, spec)
        # Nova sets it for hosts that are refused, too, unlike the limits of memory and disk.
        most[~(most > 0)] = np.nan
        hosts.limits.vcpu = most
        passes |= hosts.vcpus_total == 0
        return passes
