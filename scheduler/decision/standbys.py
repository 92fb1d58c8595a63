# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decide about protected instances: where each goes, and where it would go if that place died.

The standby of an instance is on a host of another failure domain that passes the same filters. What
its host already holds for other domains it shares, so it is put where it adds least. An instance
whose place has died goes where its standby is, if the host still passes.

Reserved places may have standbys, too. An instance in such a place has that of the place.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from inventory.objects.standby import NONE, REQUIRED, OwnStandby, Protection
from scheduler.decision import making_room, pipeline
from scheduler.decision.evacuations import lost_standby, to_standby
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.standby_room import NO_STANDBY, StandbyRoom
from scheduler.decision.types import Decision, Placement, Step
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# Tenants may read these: how the refusal of a request for want of a standby begins, and how it ends
# if it is that of another member.
FOUND = "A place was found, but"
NOT_MOVED = "the standby of an instance from which it has to be apart could not make room"


def decide(hosts: HostTable, request: Request, plan: Plan, protection: Protection) -> Decision:
    """Return pipeline.decide() with a standby for each instance, or the refusal if one lacks it.

    An instance that has lost its place is placed in any case. Where standbys of other members of
    its server group leave no host, these are found anew elsewhere.
    """
    if not request.others:
        return _decide(hosts, request, plan, protection)
    refused = _decide(hosts.working_copy(), request, plan, protection)
    if refused.placements:
        return _decide(hosts, request, plan, protection)
    cleared = making_room.clearable(hosts, request, plan, protection)
    found = _decide(hosts, request, plan, protection, cleared) if cleared else refused
    return found if found.placements else refused


def _decide(
    hosts: HostTable,
    request: Request,
    plan: Plan,
    protection: Protection,
    cleared: Collection[str] = (),
) -> Decision:
    """Decide; standbys of others move from those of the hosts to be cleared that are chosen."""
    allowing = making_room.allowing(request, cleared)
    lost = lost_standby(hosts, request, plan, protection)
    decision = to_standby(hosts, allowing, plan, lost) if lost else None
    if decision is None:
        if lost and lost.place:
            # Only an instance that goes to the standby of its place takes the place along.
            lost = None
        decision = pipeline.decide(hosts, allowing, plan)
    protected = {each.uuid for each in request.places if each.protected}
    is_concerned = (
        protection.mode != NONE
        or lost
        or cleared
        or any(each.place in protected for each in decision.placements)
    )
    if not decision.placements or not is_concerned:
        return decision
    room = StandbyRoom(hosts, protection)
    moved = making_room.moved(room, request, plan, decision, cleared)
    if moved is None:
        return pipeline.refused(hosts, request, (), f"{FOUND} {NOT_MOVED}.")
    decision = replace(decision, moved=tuple(moved))
    return _with_standbys(room, request, plan, protection, decision, lost)


def _with_standbys(
    room: StandbyRoom,
    request: Request,
    plan: Plan,
    protection: Protection,
    decision: Decision,
    lost: OwnStandby | None,
) -> Decision:
    """Return a decision with a standby for each instance, or the refusal if one lacks it."""
    reserved = {each.uuid: each for each in request.places if each.protected}
    # Where members of the server group are going to be if their hosts die.
    held = [each.after.host.host for each in decision.moved if each.after.host]
    placements: list[Placement] = []
    for index, each in enumerate(decision.placements):
        chosen = [other.chosen.host for other in decision.placements if other is not each]
        spec = evacuation_spec(request.spec, each.instance_uuid, [*chosen, *held])
        place, row = reserved.get(each.place or ""), each.chosen.row
        steps: Sequence[Step] = ()
        planned = room.of_place(place, spec, row, request, plan) if place else None
        if planned is None:
            if protection.mode == NONE and not (lost or place):
                placements.append(each)
                continue
            spec = spec.at_least(lost.size) if lost and lost.place else spec
            planned, steps = room.find(spec, row, request, plan)
            planned.place = lost.place if lost else None
            planned.evacuates = lost.place_node_id if lost else None
        if planned.host is not None:
            held.append(planned.host.host)
        elif protection.mode == REQUIRED and lost is None:
            reason = f"{FOUND} the instance {planned.reason}."
            if planned.reason == NO_STANDBY:
                reason = f"{FOUND} {NO_STANDBY}."
            return pipeline.refused(room.hosts, request, steps, reason, index)
        placements.append(replace(each, standby=planned))
    return replace(decision, placements=tuple(placements))


def evacuation_spec(
    spec: RequestSpec, uuid: str | None, group_hosts: Sequence[str] = ()
) -> RequestSpec:
    """Return the request to evacuate one instance, from wherever it is: what names hosts is gone.

    group_hosts are those of further members of its server group.
    """
    found = spec.for_instance(uuid, group_hosts)
    found.ignore_hosts = found.force_hosts = found.force_nodes = found.retry = None
    found.offered_nodes, found.refused_nodes = None, set()
    if found.requested_destination is not None:
        found.requested_destination = replace(found.requested_destination, host=None, node=None)
    return found
