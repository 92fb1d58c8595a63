# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs."""

import numpy as np

from scheduler.filters import HostTable, Mask, RequestSpec
from scheduler.filters._bounds import OvercommitFilter
from scheduler.hosts.resources import VCPUS


class CoreFilter(OvercommitFilter):
    """Keep the hosts with enough free vCPUs, over-commit included.

    A host that reports no CPUs at all passes, without a limit: its count is considered broken.
    """

    kind, reads = VCPUS, VCPUS.columns
    row_local = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes, most = self.room(hosts, spec)
        # Nova sets it for hosts that are refused, too, unlike the limits of memory and disk.
        most[~(most > 0)] = np.nan
        hosts.limits.vcpu = most
        passes |= hosts.vcpus_total == 0
        return passes
