# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for free vCPUs."""

import numpy as np

from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class CPUWeigher(BaseHostWeigher):
    """Prefer the hosts with more free vCPUs, over-commit included."""

    minval = 0.0
    aggregate_key = "cpu_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "cpu_weight_multiplier"),)
    reads = ("vcpus_total", "cpu_allocation_ratio", "vcpus_used")
    row_local = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return np.asarray(hosts.vcpus_total * hosts.cpu_allocation_ratio - hosts.vcpus_used)
