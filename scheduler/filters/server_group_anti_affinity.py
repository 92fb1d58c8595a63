# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for server groups whose members must not share a host."""

from collections.abc import Hashable

from scheduler.decision.asking import MEMBERS
from scheduler.decision.group_members import members
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.limits import GROUP, GroupLimit
from scheduler.filters import BaseHostFilter
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.request_spec import RequestSpec


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Keep the hosts with fewer members of the anti-affinity group than may share a host.

    A host that the group's own list names holds at least one member, also when no agent has
    reported it yet. The host on which the instance is already passes, so that it may stay there.
    """

    reads = (MEMBERS,)

    def applies(self, spec: RequestSpec) -> bool:
        group = spec.instance_group
        return group is not None and "anti-affinity" in group.policies

    def question(self, spec: RequestSpec) -> Hashable | None:
        return None if spec.instance_group is None else self._most(spec.instance_group)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        group = spec.instance_group
        if group is None:
            return hosts.present
        mask = members(hosts, group) < self._most(group)
        if spec.instance_uuid:
            mask[list(hosts.residents.rows_of(spec.instance_uuid))] = True
        limit = GroupLimit(self._most(group))
        hosts.limits.make(GROUP, mask, lambda _: limit)
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        group = spec_obj.instance_group
        if group is None:
            return super().reason(host_state, spec_obj)
        count = members(host_state.table, group)[host_state.row]
        return f"has {count} of the anti-affinity group, {self._most(group)} allowed"

    def _most(self, group: InstanceGroup) -> int:
        return int(group.rules.get("max_server_per_host") or 1)
