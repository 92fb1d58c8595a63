# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for free vCPUs."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class CPUWeigher(BaseHostWeigher):
    """Prefer the hosts with more free vCPUs, over-commit included."""

    minval = 0.0
    multiplier = 1.0
    aggregate_key = "cpu_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "cpu_weight_multiplier"),)
    reads = ("vcpus_total", "cpu_allocation_ratio", "vcpus_used")

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return np.asarray(hosts.vcpus_total * hosts.cpu_allocation_ratio - hosts.vcpus_used)
