# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for server groups whose members belong together."""

import numpy as np

from inventory.objects.instance_group import AFFINITY
from scheduler.base_plugin import MEMBERS
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.limits import GROUP, GroupLimit
from scheduler.hosts.row_index import group_counts, group_with


class ServerGroupAffinityFilter(BaseHostFilter):
    """Keep the hosts that members of the instance's affinity group are on; any for the first."""

    reads = (MEMBERS,)
    row_local = True

    def applies(self, spec: RequestSpec) -> bool:
        return group_with(AFFINITY, spec) is not None

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        group = spec.instance_group
        mask = hosts.present
        if group is not None and group.hosts:
            mask = np.asarray(group_counts(hosts, group).named > 0, np.bool_)
        # Also for the first member: two of them may be scheduled at the same time.
        hosts.limits.make(GROUP, mask, lambda _: GroupLimit())
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        group = spec_obj.instance_group
        return f"the affinity group is on {', '.join(sorted({*group.hosts} if group else ()))}"
