# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the number of instances."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class NumInstancesWeigher(BaseHostWeigher):
    """Prefer the hosts with more instances, or with fewer where the multiplier is negative."""

    multiplier = 0.0
    aggregate_key = "num_instances_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "num_instances_weight_multiplier"),)
    reads = ("num_instances",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.num_instances.astype(np.float64)
