# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The members of a server group, and how many of them are on each host."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from scheduler.decision.host_table import HostTable
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.request_spec import RequestSpec


def group_with(policy: str, spec: RequestSpec) -> InstanceGroup | None:
    """Return the group of the instance when it has this policy."""
    group = spec.instance_group
    return group if group is not None and group.policy == policy else None


def members(hosts: HostTable, group: InstanceGroup) -> npt.NDArray[np.int64]:
    """Return for each row how many members of a group it has.

    A host that the group's own list names has at least as many as the list says, also when no
    agent has reported them yet: it is named once for each instance of this request that was placed
    there, and callers up to Newton send nothing else.
    """
    there = [row for uuid in set(group.members) for row in hosts.residents.rows_of(uuid)]
    count = np.bincount(np.array(there, np.int64), minlength=hosts.size)
    named = Counter(group.hosts).items()
    least = {row: times for host, times in named for row in hosts.rows_of_host(host)}
    rows = list(least)
    count[rows] = np.maximum(count[rows], list(least.values()))
    return count
