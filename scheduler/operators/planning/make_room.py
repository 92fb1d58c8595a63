# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the fewest moves after which a number of instances of a flavor fit."""

import numpy as np

from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import give_back_promises
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.held_standbys import holders
from scheduler.operators.planning.room import PendingPlacement, RoomSearch
from scheduler.operators.planning.types import KeepGoing, MovePlan

# No uuid, so no instance has such a name.
_NAME = "new instance {}"


def make_room(fleet: Fleet, spec: RequestSpec, number: int, keep_going: KeepGoing) -> MovePlan:
    """Return the moves after which number more instances fit, or as many of them as can."""
    search, names = RoomSearch(fleet, keep_going), [_NAME.format(each) for each in range(number)]
    spec = spec.for_instance(None)
    if spec.instance_group is not None:
        spec.instance_group.members += names
    placements = [_pending(fleet, spec.for_instance(each)) for each in names]
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


def _pending(fleet: Fleet, spec: RequestSpec) -> PendingPlacement:
    return PendingPlacement(spec, lambda row: fleet.add(spec, row), "makes room for the flavor")
