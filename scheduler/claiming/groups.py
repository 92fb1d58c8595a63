# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request says about its server group, brought up to date."""

from collections import Counter
from collections.abc import Callable, Collection

from scheduler.objects.instance_group import APART, POLICIES, TOGETHER
from scheduler.objects.request_spec import RequestSpec

# How many members each host has, for (group, members, all but these, alternates count as well).
Members = Callable[[str, Collection[str], Collection[str], bool], Counter[str]]


def with_members(spec: RequestSpec, uuids: Collection[str], members: Members) -> RequestSpec:
    """Return a request with the hosts on which other members of its group are, or will be.

    Callers know those of a moment ago, and not what was claimed since. Who must be together goes
    where the others are; with other policies, soft ones too, a host has at least as many as either
    knows.
    """
    group = spec.instance_group
    if group is None or group.uuid is None or group.policy not in POLICIES:
        return spec
    there = members(group.uuid, group.members, uuids, group.policy == APART)
    if not there:
        return spec
    hosts = there if group.policy == TOGETHER else Counter(group.hosts) | there
    found = spec.for_instance(spec.instance_uuid)
    found.instance_group = group.with_hosts()
    found.instance_group.hosts = sorted(hosts.elements())
    return found
