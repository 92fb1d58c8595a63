# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the moves after which no instance breaks a rule any more, and none is on a failed host."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.make_room import room_for_standbys
from scheduler.operators.planning.room import RoomSearch, pending_move
from scheduler.operators.planning.types import KeepGoing, MovePlan, PlannedMove, Resident
from scheduler.operators.planning.unplanned import explain_unplanned

# How often all instances are looked at: what moves may make room for those that were stuck.
PASSES = 3
# How many sets of instances of a host are tried to find the smallest one that has to leave.
MAX_SETS = 500


def repair(
    fleet: Fleet, keep_going: KeepGoing, standbys: Mapping[str, RequestSpec] | None = None
) -> MovePlan:
    """Return the moves of all instances that have to leave their hosts.

    They are followed by those that make room for missing standbys, see room_for_standbys().

    What is on hosts that are down is evacuated. On the others the smallest sets of instances leave
    without which the filters allow all that stay. An instance whose move would make others break a
    rule stays where it is.
    """
    fleet.allow_evacuation(np.flatnonzero(fleet.down).tolist())
    run = _Repair(fleet, keep_going)
    for _ in range(PASSES):
        if not run.moves_some():
            break
    else:
        run.note_stuck()
    fleet.end_step()
    unplanned = explain_unplanned(fleet, run.stuck.values())
    room = room_for_standbys(fleet, standbys or {}, keep_going)
    fleet.end_step()
    result = {"broken": len(run.broken), "room_for_standbys": room, "reached": keep_going()}
    return MovePlan("repair", fleet.moves, unplanned, result)


class _Repair:
    def __init__(self, fleet: Fleet, keep_going: KeepGoing) -> None:
        self._fleet, self._keep_going = fleet, keep_going
        self._search = RoomSearch(fleet, keep_going)
        # All that had to leave, and those of them that still have to.
        self.broken: dict[str, str] = {}
        self.stuck: dict[str, Resident] = {}
        self._known = fleet.residents.keys()

    def moves_some(self) -> bool:
        """Move the instances that have to leave now; return whether any has moved."""
        before = len(self._fleet.moves)
        for each, why in self.note_stuck():
            if self._has_to_leave(each):
                self._move(each, why)
        return len(self._fleet.moves) > before

    def note_stuck(self) -> list[tuple[Resident, str]]:
        """Note the instances that have to leave as things are; return them, and why."""
        leaving = [*_leaving(self._fleet, self._keep_going)]
        self.stuck = {each.uuid: each for each, _ in leaving}
        self.broken = {each.uuid: why for each, why in leaving} | self.broken
        return leaving

    def _has_to_leave(self, resident: Resident) -> bool:
        """Return whether an instance still has to: what was in its way may have moved since."""
        is_down = bool(self._fleet.down[resident.row])
        return is_down or self._fleet.refusal_here(resident) is not None

    def _move(self, resident: Resident, why: str) -> None:
        fleet = self._fleet
        mark, before = fleet.mark(), len(fleet.moves)
        if resident.fixed is not None or not self._search.place(
            [pending_move(fleet, resident, why)]
        ):
            return
        if not self._breaks(fleet.moves[before:]) <= self.broken.keys() - {resident.uuid}:
            fleet.roll_back(mark)

    def _breaks(self, moves: Iterable[PlannedMove]) -> set[str]:
        """Return which of the moved instances and of the members of their groups break a rule."""
        fleet = self._fleet
        uuids = {each.uuid for each in moves}
        groups = (fleet.residents[uuid].spec.instance_group for uuid in [*uuids])
        uuids.update(*(each.members for each in groups if each))
        mark = fleet.mark()
        fleet.end_step()
        found = broken_rules(fleet, [fleet.residents[each] for each in uuids & self._known])
        fleet.roll_back(mark)
        return {*found}


def broken_rules(fleet: Fleet, residents: Iterable[Resident]) -> dict[str, str]:
    """Return by uuid the rule that an instance breaks where it is, with figures."""
    found = {}
    for each in residents:
        refusal = fleet.refusal_here(each)
        if refusal is not None:
            found[each.uuid] = f"{refusal.filter}: {refusal.reason}"
    return found


def _leaving(fleet: Fleet, keep_going: KeepGoing) -> Iterator[tuple[Resident, str]]:
    """Yield the instances that have to leave, the largest first, and why."""
    found: list[tuple[Resident, str]] = []
    for row in sorted(fleet.hosts.rows()):
        here = fleet.on(row)
        if fleet.down[row]:
            found += [(each, f"{fleet.place(row).host} is down") for each in here]
        elif here and keep_going():
            found += _misplaced(fleet, here)
    yield from sorted(found, key=lambda each: each[0].size_order)


def _misplaced(fleet: Fleet, here: Sequence[Resident]) -> list[tuple[Resident, str]]:
    """Return the smallest set of a host's instances without which all others may stay there."""
    broken = broken_rules(fleet, here)
    if not broken:
        return []
    residents = [each for each in here if each.uuid in broken]
    # Some break a rule whoever else is there.
    alone = [each for each in residents if _breaks_alone(fleet, each, here)]
    others = sorted(
        (each for each in residents if each not in alone and each.fixed is None),
        key=lambda each: (each.spec.memory_mb, each.uuid),
    )
    tried = (
        [*alone, *some]
        for number in range(len(others) + 1)
        for some in combinations(others, number)
    )
    leaving = next(
        (some for some in islice(tried, MAX_SETS) if _is_mended(fleet, some, residents)), None
    )
    if leaving is None:
        leaving = _mended_by_greed(fleet, alone, others, residents)
    return [(each, broken[each.uuid]) for each in leaving]


def _breaks_alone(fleet: Fleet, resident: Resident, here: Sequence[Resident]) -> bool:
    others = [each for each in here if each is not resident and each.fixed is None]
    return fleet.refusal_here(resident, without=others) is not None


def _is_mended(fleet: Fleet, leaving: Sequence[Resident], broken: Sequence[Resident]) -> bool:
    staying = (each for each in broken if each not in leaving)
    return all(fleet.refusal_here(each, without=leaving) is None for each in staying)


def _mended_by_greed(
    fleet: Fleet, alone: Sequence[Resident], others: Sequence[Resident], broken: Sequence[Resident]
) -> list[Resident]:
    """Return a set that need not be the smallest: none of it could stay, the largest first."""
    leaving = [*alone, *others]
    for each in sorted(others, key=lambda each: each.size_order):
        fewer = [one for one in leaving if one is not each]
        if _is_mended(fleet, fewer, broken):
            leaving = fewer
    return leaving
