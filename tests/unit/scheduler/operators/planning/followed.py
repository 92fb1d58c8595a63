# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Follow a plan with the scheduler's own decisions, and find the fewest moves by trying all."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from random import Random

from inventory.objects.instance_group import AFFINITY
from scheduler.decision import pipeline
from scheduler.decision.pipeline import Request
from scheduler.objects.request_spec import Destination
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.repairing import broken_rules
from scheduler.operators.planning.types import PlannedMove
from tests.fleets import places


def follow(fleet: Fleet, moves: Sequence[PlannedMove], seed: int = 0) -> None:
    """Make the moves of a plan on the fleet that it was made for, each asked of the scheduler.

    Those of one step come in any order, and all of them hold both of their hosts until its end. No
    instance may break a rule after a move that it kept before the plan.
    """
    before = _broken(fleet)
    for _, listed in groupby(moves, key=lambda each: each.turn):
        step = [*listed]
        Random(seed).shuffle(step)
        for each in step:
            _ask(fleet, each)
            assert {*broken_rules(fleet, fleet.residents.values())} <= before
        fleet.end_step()
        assert {*broken_rules(fleet, fleet.residents.values())} <= before


def _broken(fleet: Fleet) -> set[str]:
    """Return the instances that break a rule; affinity is one of all members together."""
    found = {*broken_rules(fleet, fleet.residents.values())}
    groups = (fleet.residents[uuid].spec.instance_group for uuid in [*found])
    return found.union(*(each.members for each in groups if each and each.policy == AFFINITY))


def _ask(fleet: Fleet, move: PlannedMove) -> None:
    resident = fleet.residents[move.uuid]
    assert fleet.place(resident.row) == move.source
    spec = fleet.request(resident)
    spec.requested_destination = Destination(host=move.target.host, node=move.target.node)
    decision = pipeline.decide(fleet.hosts.working_copy(), Request(spec, [move.uuid]), fleet.plan)
    assert decision.shortage is None, (move, decision.shortage)
    (placement,) = decision.placements
    assert (placement.chosen.host, placement.chosen.nodename) == move.target
    fleet.move(resident, placement.chosen.row, move.reason)


def fewest(fleet: Fleet, reached: Callable[[Fleet], bool], most: int = 4) -> int | None:
    """Return the fewest moves, one after the other, that reach a condition, or None."""
    seen = {_state(fleet)}
    queue: deque[list[tuple[str, int]]] = deque([[]])
    while queue:
        path = queue.popleft()
        mark = fleet.mark()
        for uuid, row in path:
            fleet.move(fleet.residents[uuid], row, "tried")
            fleet.end_step()
        if reached(fleet):
            fleet.roll_back(mark)
            return len(path)
        for uuid, row in _possible(fleet) if len(path) < most else ():
            again = fleet.mark()
            fleet.move(fleet.residents[uuid], row, "tried")
            fleet.end_step()
            if _state(fleet) not in seen:
                seen.add(_state(fleet))
                queue.append([*path, (uuid, row)])
            fleet.roll_back(again)
        fleet.roll_back(mark)
    return None


def _state(fleet: Fleet) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(places(fleet).items()))


def _possible(fleet: Fleet) -> Iterator[tuple[str, int]]:
    for uuid, resident in fleet.residents.items():
        if resident.fixed is None:
            mask = fleet.passing(fleet.request(resident))[1]
            yield from ((uuid, row) for row in fleet.hosts.rows() if mask[row])
