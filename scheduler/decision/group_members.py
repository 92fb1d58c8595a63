# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The members of a server group, and how many of them are on each host."""

from collections.abc import Sequence

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.membership import Counts, Membership
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.request_spec import RequestSpec


def group_with(policy: str, spec: RequestSpec) -> InstanceGroup | None:
    """Return the group of the instance when it has this policy."""
    group = spec.instance_group
    return group if group is not None and group.policy == policy else None


def members(hosts: HostTable, group: InstanceGroup) -> Counts:
    """Return for each row how many members of a group it has."""
    return membership(hosts, group).members


def membership(hosts: HostTable, group: InstanceGroup) -> Membership:
    """Return the members of a group by row, as a decision that is being made has counted them."""
    return counted(hosts, group) if hosts.membership is None else hosts.membership


def counted(hosts: HostTable, group: InstanceGroup) -> Membership:
    """Count the members of a group on each row.

    A host that the group's own list names has at least as many as the list says, also when no
    agent has reported them yet: callers up to Newton send nothing else.
    """
    there = hosts.residents.rows_of_each({*group.members})
    named = np.bincount(_array(hosts.names.rows_of_each(group.hosts)), minlength=hosts.size)
    count = np.bincount(_array(there), minlength=hosts.size)
    return Membership(np.maximum(count, named), named)


def _array(rows: Sequence[int]) -> Counts:
    return np.array(rows, np.int64)
