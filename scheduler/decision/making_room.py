# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Let standbys of others make room for an instance that finds no other host.

Members of a server group that keep apart keep apart from standbys of each other, too, and so do
instances from those that the hint different_host names. Where that leaves no host, the standby of
the other one is found anew on a host that the new one does not need. One that is not required is
given up if there is no such host.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from inventory.objects.instance_group import ANTI_AFFINITY
from inventory.objects.standby import Protection
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.standby_room import StandbyRoom
from scheduler.decision.types import Decision, MovedStandby, OtherStandby
from scheduler.hosts.row_index import group_with
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
    if not cleared:
        return request
    spec = request.spec.for_instance(request.spec.instance_uuid)
    spec.kept_apart = spec.kept_apart.difference(cleared)
    if group := group_with(ANTI_AFFINITY, spec):
        there, most = Counter(group.hosts), group.most_per_host
        there.update({host: min(0, most - 1 - there[host]) for host in cleared})
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
        self._group = group_with(ANTI_AFFINITY, request.spec)
        hosts = self._group.hosts if self._group else ()
        self._on, self._chosen = Counter([*hosts, *chosen]), chosen
        self._own = room.own_hosts()

    def excess(self, host: str) -> int:
        """Return how many members are too many on a host."""
        return self._on[host] - self._group.most_per_host if self._group else 0

    def without(self, other: OtherStandby) -> RequestSpec | None:
        """Return the request to evacuate another instance, as if its standby were not there.

        None for one of another group, whose members are not known.
        """
        spec, group = other.spec.for_instance(other.member), self._group
        if other.by_hint:
            spec.ignore_hosts = [*self._chosen]
        own = spec.instance_group.uuid if spec.instance_group else None
        if other.by_hint and own and (group is None or own != group.uuid):
            return None
        if group is not None and (own or not other.by_hint):
            on = self._on - Counter([other.host])
            spec.instance_group = replace(group, hosts=[*sorted(on.elements()), *self._own])
        return spec.at_least(other.size)

    def move(self, each: MovedStandby) -> None:
        self._on -= Counter([each.before.host])
        if each.after.host is not None:
            self._on[each.after.host.host] += 1


def _clear(
    room: StandbyRoom, request: Request, plan: Plan, host: str, members: _Members
) -> list[MovedStandby] | None:
    """Move as many standbys from a host as are too many there; None if they cannot."""
    found: list[MovedStandby] = []
    stuck: list[MovedStandby] = []
    # All of those that a hint names have to go, and perhaps some of members.
    here = [each for each in request.others if each.host == host]
    for other in sorted(here, key=lambda each: not each.by_hint):
        if not other.by_hint and members.excess(host) <= 0:
            break
        spec = members.without(other)
        planned = room.elsewhere(other, spec, request, plan) if spec is not None else None
        if planned is not None and planned.host is not None:
            found.append(MovedStandby(other, planned))
            members.move(found[-1])
        elif planned is not None and not other.is_required:
            stuck.append(MovedStandby(other, planned))
        elif other.by_hint:
            return None
    for each in stuck:
        if each.before.by_hint or members.excess(host) > 0:
            room.give_up(each.before)
            found.append(each)
            members.move(each)
    return None if members.excess(host) > 0 else found
