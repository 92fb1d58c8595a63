# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Let standbys of other members of a server group make room for one that finds no other host.

Members keep apart from standbys of each other, too. Where that leaves no host, a standby of another
member is found anew on a host that the new one does not need. One that is not required is given up
if there is no such host.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from inventory.objects.standby import Protection
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.standby_room import StandbyRoom
from scheduler.decision.types import Decision, MovedStandby, OtherStandby
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec


def clearable(hosts: HostTable, request: Request, plan: Plan, protection: Protection) -> list[str]:
    """Return the hosts from which standbys of others can move, so that they take one member."""
    found = []
    for host in sorted({each.host for each in request.others}):
        room = StandbyRoom(hosts.working_copy(), protection)
        if _clear(room, request, plan, host, _Members(room, request, [host])) is not None:
            found.append(host)
    return found


def allowing(request: Request, cleared: Collection[str]) -> Request:
    """Return a request that one more member may go to each of these hosts."""
    group = request.spec.instance_group
    if not cleared or group is None:
        return request
    there = Counter(group.hosts)
    there.update({host: group.most_per_host - 1 - there[host] for host in cleared})
    spec = request.spec.for_instance(request.spec.instance_uuid)
    spec.instance_group = replace(group, hosts=sorted(there.elements()))
    return replace(request, spec=spec)


def moved(
    room: StandbyRoom, request: Request, plan: Plan, decision: Decision, cleared: Collection[str]
) -> list[MovedStandby] | None:
    """Move standbys of others from those of the hosts that are chosen; None if they cannot."""
    if not cleared:
        return []
    chosen = [each.chosen.host for each in decision.placements]
    members = _Members(room, request, chosen)
    found: list[MovedStandby] = []
    for host in sorted({*chosen} & {*cleared}):
        here = _clear(room, request, plan, host, members)
        if here is None:
            return None
        found += here
    return found


class _Members:
    """How many members of the group of a request each host has, or is going to have.

    Standbys of the instances themselves keep apart only from those of others.
    """

    def __init__(self, room: StandbyRoom, request: Request, chosen: Sequence[str]) -> None:
        group = request.spec.instance_group
        assert group is not None
        self._group = group
        self._on = Counter([*group.hosts, *chosen])
        self._own = room.own_hosts()

    def excess(self, host: str) -> int:
        """Return how many members are too many on a host."""
        return self._on[host] - self._group.most_per_host

    def without(self, other: OtherStandby) -> RequestSpec:
        """Return the request to evacuate another member, as if its standby were not there."""
        spec = other.spec.for_instance(other.member)
        on = self._on - Counter([other.host])
        spec.instance_group = replace(self._group, hosts=[*sorted(on.elements()), *self._own])
        return spec.at_least(other.size)

    def move(self, each: MovedStandby) -> None:
        self._on -= Counter([each.before.host])
        if each.after.host is not None:
            self._on[each.after.host.host] += 1


def _clear(
    room: StandbyRoom, request: Request, plan: Plan, host: str, members: _Members
) -> list[MovedStandby] | None:
    """Move as many standbys from a host as members are too many there; None if they cannot."""
    found: list[MovedStandby] = []
    stuck: list[MovedStandby] = []
    for other in [each for each in request.others if each.host == host]:
        if members.excess(host) <= 0:
            break
        planned = room.elsewhere(other, members.without(other), request, plan)
        if planned is None:
            continue
        each = MovedStandby(other, planned)
        if planned.host is not None:
            found.append(each)
            members.move(each)
        elif not other.is_required:
            stuck.append(each)
    for each in stuck[: max(0, members.excess(host))]:
        room.give_up(each.before)
        found.append(each)
        members.move(each)
    return None if members.excess(host) > 0 else found
