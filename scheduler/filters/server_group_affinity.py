# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for server groups whose members belong together."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.asking import MEMBERS
from scheduler.decision.group_members import membership
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.limits import GROUP, GroupLimit
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class ServerGroupAffinityFilter(BaseHostFilter):
    """Keep the hosts that members of the instance's affinity group are on; any for the first."""

    reads = (MEMBERS,)

    def applies(self, spec: RequestSpec) -> bool:
        group = spec.instance_group
        return group is not None and "affinity" in group.policies

    def question(self, spec: RequestSpec) -> Hashable | None:
        # Where the first one goes decides about all others.
        return "named" if spec.instance_group and spec.instance_group.hosts else None

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        group = spec.instance_group
        mask = hosts.present
        if group is not None and group.hosts:
            mask = np.asarray(membership(hosts, group).named > 0, np.bool_)
        # Also for the first member: two of them may look for a host at the same time.
        hosts.limits.make(GROUP, mask, lambda _: GroupLimit())
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        members = ", ".join(sorted(set(spec_obj.instance_group.hosts)))  # type: ignore[union-attr]
        return f"the affinity group is on {members}"
