# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the fewest moves after which a number of instances of a flavor fit, or missing standbys."""

from collections.abc import Mapping

import numpy as np

from scheduler.hosts.failure_domains import domains_of, in_any
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import give_back_promises
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.held_standbys import holders
from scheduler.operators.planning.room import PendingPlacement, RoomSearch
from scheduler.operators.planning.types import KeepGoing, MovePlan

# No uuid, so no instance has such a name.
_NAME, _STANDBY = "new instance {}", "standby of {}"


def make_room(fleet: Fleet, spec: RequestSpec, number: int, keep_going: KeepGoing) -> MovePlan:
    """Return the moves after which number more instances fit, or as many of them as can."""
    search, names = RoomSearch(fleet, keep_going), [_NAME.format(each) for each in range(number)]
    spec = spec.for_instance(None)
    if spec.instance_group is not None:
        spec.instance_group.members += names
    why = "makes room for the flavor"
    placements = [_pending(fleet, spec.for_instance(each), why) for each in names]
    if not search.place(placements):
        # Not all of them: then as many as can be, one after the other.
        all(search.place([each]) for each in placements)
    rows = [row for each in names for row in fleet.hosts.instances.rows_of(each)]
    hosts = [fleet.place(row).host for row in rows]
    result = {
        "fit": len(hosts),
        "wanted": number,
        "hosts": hosts,
        "held": _in_the_way(fleet, spec) if len(hosts) < number else [],
        "reached": len(hosts) >= number,
    }
    return MovePlan("make-room", fleet.moves, (), result)


def _in_the_way(fleet: Fleet, spec: RequestSpec) -> list[dict[str, str]]:
    """Return the hosts that would take one more but for what they hold, and for what they do."""
    without = fleet.hosts.working_copy()
    give_back_promises(without)
    # None takes it as it is.
    _, mask = fleet.passing(spec, without)
    return holders(fleet.hosts, np.flatnonzero(mask).tolist())


def room_for_standbys(
    fleet: Fleet, specs: Mapping[str, RequestSpec], keep_going: KeepGoing
) -> list[str]:
    """Plan the moves after which standbys fit; return the uuids of the instances with room then.

    specs are the requests to evacuate the instances, by their uuids; these stay where they are.
    Each standby gets room of its own, though those of different failure domains share theirs.
    """
    search, found = RoomSearch(fleet, keep_going), list[str]()
    waiting = [each for uuid in specs if (each := fleet.residents.get(uuid)) is not None]
    for each in waiting:
        # In another failure domain the room might be of no use to it.
        each.fixed = each.fixed or "waits for its standby"
    for each in waiting:
        name = _STANDBY.format(each.uuid)
        wanted = specs[each.uuid].for_instance(name)
        domains = domains_of(fleet.hosts, each.row)
        rows = np.flatnonzero(in_any(fleet.hosts, domains)).tolist()
        wanted.ignore_hosts = sorted({fleet.place(row).host for row in rows})
        if search.place([_pending(fleet, wanted, f"makes room for the {name}")]):
            found.append(each.uuid)
    return found


def _pending(fleet: Fleet, spec: RequestSpec, why: str) -> PendingPlacement:
    return PendingPlacement(spec, lambda row: fleet.add(spec, row), why)
