# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for server groups whose members preferably do not share a host."""

from scheduler.base_plugin import MEMBERS
from scheduler.weighers._soft_groups import SoftGroupWeigher


class ServerGroupSoftAntiAffinityWeigher(SoftGroupWeigher):
    """Prefer the hosts with fewer members of the instance's soft-anti-affinity group."""

    policy = "soft-anti-affinity"
    direction = -1.0
    aggregate_key = "soft_anti_affinity_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "soft_anti_affinity_weight_multiplier"),)
    reads = (MEMBERS,)
    row_local = True
