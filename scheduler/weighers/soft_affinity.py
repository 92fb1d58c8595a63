# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for server groups whose members preferably share a host."""

from scheduler.base_plugin import MEMBERS
from scheduler.weighers._soft_groups import SoftGroupWeigher


class ServerGroupSoftAffinityWeigher(SoftGroupWeigher):
    """Prefer the hosts with more members of the instance's soft-affinity group."""

    policy = "soft-affinity"
    aggregate_key = "soft_affinity_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "soft_affinity_weight_multiplier"),)
    reads = (MEMBERS,)
    row_local = True
