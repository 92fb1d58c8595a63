# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan how to empty hosts, some at a time: the first are back when the next ones are emptied."""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.hosts.columns import Mask
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.held_standbys import holders
from scheduler.operators.planning.room import RoomSearch, pending_move
from scheduler.operators.planning.types import KeepGoing, MovePlan, Resident, Unplanned
from scheduler.operators.planning.unplanned import explain_unplanned


def drain(
    fleet: Fleet, hosts: Sequence[str], at_most: int | None, keep_going: KeepGoing
) -> MovePlan:
    """Return the moves that empty hosts, at_most of them at a time, all at once by default.

    Instances go to hosts that are not to be emptied or have been already, where these have room:
    then each moves once. Where no host has room, others make some. The largest instances go first:
    they fit on the fewest hosts. Of the hosts that are down only these are evacuated.
    """
    fleet.allow_evacuation(np.flatnonzero(_mask(fleet, hosts)).tolist())
    unplanned: list[Unplanned] = []
    stages: list[list[str]] = []
    search = RoomSearch(fleet, keep_going)
    for stage in _stages(fleet, hosts, at_most):
        if not keep_going():
            break
        stages.append(stage)
        done = [name for each in stages for name in each]
        fleet.avoided = _mask(fleet, hosts) & ~_mask(fleet, done)
        emptied = _mask(fleet, stage)
        with fleet.closing(np.flatnonzero(emptied)):
            left = [*_emptied(fleet, emptied, search)]
            unplanned += explain_unplanned(fleet, left, len(unplanned))
            fleet.end_stage()
    result = {
        "stages": stages,
        "held": holders(fleet.hosts, np.flatnonzero(_mask(fleet, hosts)).tolist()),
        "reached": sum(map(len, stages)) == len(hosts),
    }
    return MovePlan("drain", fleet.moves, unplanned, result)


def _stages(fleet: Fleet, hosts: Sequence[str], at_most: int | None) -> Iterator[list[str]]:
    """Yield the hosts to be emptied at the same time, first those with the least to move."""
    size = at_most or len(hosts)

    def memory(name: str) -> tuple[int, str]:
        rows = fleet.hosts.rows_of_host(name)
        return sum(each.spec.memory_mb for row in rows for each in fleet.on(row)), name

    order = sorted(hosts, key=memory) if size < len(hosts) else sorted(hosts)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _mask(fleet: Fleet, names: Sequence[str]) -> Mask:
    mask = np.zeros(fleet.hosts.size, np.bool_)
    mask[fleet.hosts.names.rows_of_each(names)] = True
    return mask


def _emptied(fleet: Fleet, rows: Mask, search: RoomSearch) -> Iterator[Resident]:
    """Move the residents of these rows; yield those that no host takes."""
    leaving = [each for row in np.flatnonzero(rows).tolist() for each in fleet.on(row)]
    for each in sorted(leaving, key=lambda each: each.size_order):
        reason = f"{fleet.place(each.row).host} is to be emptied"
        if each.fixed is not None or not search.place([pending_move(fleet, each, reason)]):
            yield each
