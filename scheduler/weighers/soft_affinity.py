# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for server groups whose members would rather share a host."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.asking import MEMBERS
from scheduler.decision.group_members import group_with, members
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class ServerGroupSoftAffinityWeigher(BaseHostWeigher):
    """Prefer the hosts with more members of the instance's soft-affinity group."""

    multiplier = 1.0
    reads = (MEMBERS,)
    aggregate_key = "soft_affinity_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "soft_affinity_weight_multiplier"),)

    def applies(self, spec: RequestSpec) -> bool:
        return group_with("soft-affinity", spec) is not None

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        group = group_with("soft-affinity", spec)
        return np.zeros(hosts.size) if group is None else members(hosts, group).astype(np.float64)
