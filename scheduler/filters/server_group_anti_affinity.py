# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for server groups whose members must not share a host."""

from inventory.objects.instance_group import ANTI_AFFINITY
from scheduler.base_plugin import MEMBERS
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.limits import GROUP, GroupLimit
from scheduler.hosts.row_index import group_counts, group_with


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Keep the hosts with fewer members of the anti-affinity group than may share a host.

    A host in the group's own list has at least one member, even if no agent has reported it yet.
    The present host of the instance passes, so that it may stay there.
    """

    reads = (MEMBERS,)
    row_local = True

    def applies(self, spec: RequestSpec) -> bool:
        return group_with(ANTI_AFFINITY, spec) is not None

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        group = spec.instance_group
        if group is None:
            return hosts.present
        limit = GroupLimit(group.most_per_host)
        mask = group_counts(hosts, group).members < group.most_per_host
        if spec.instance_uuid:
            mask[list(hosts.instances.rows_of(spec.instance_uuid))] = True
        hosts.limits.make(GROUP, mask, lambda _: limit)
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        group = spec_obj.instance_group
        if group is None:
            return super().reason(host_state, spec_obj)
        count = group_counts(host_state.table, group).members[host_state.row]
        return f"has {count} of the anti-affinity group, {group.most_per_host} allowed"
