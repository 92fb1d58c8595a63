# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Compare a plan with the fleet as it is now: which moves are done, and which are possible."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import EVACUATION, PlannedMove

DONE, POSSIBLE, IMPOSSIBLE = "done", "possible", "impossible"
# The instance is not there any more, or is on a host that the plan does not know it on.
GONE, ELSEWHERE = "gone", "elsewhere"


@dataclass(frozen=True, slots=True)
class CheckedMove:
    move: PlannedMove
    state: str
    why: str = ""


def check(fleet: Fleet, moves: Sequence[PlannedMove]) -> list[CheckedMove]:
    """Return the state of each move of a plan; what is possible is done on the fleet.

    So a move is possible if it is after all that precede it and are possible.
    """
    # The plan was asked for them.
    evacuated = {each.source for each in moves if each.kind == EVACUATION}
    fleet.allow_evacuation(row for row in fleet.hosts.rows() if fleet.place(row) in evacuated)
    done = _done(fleet, moves)
    found: list[CheckedMove] = []
    turn = None
    for number, move in enumerate(moves):
        if turn not in (None, move.turn):
            fleet.end_step()
        turn = move.turn
        found.append(CheckedMove(move, DONE) if number in done else _checked(fleet, move))
    return found


def is_host_back(fleet: Fleet, move: PlannedMove) -> bool:
    """Return whether a host that was to be evacuated is up again.

    check() does not see it where a claim makes it look as if the instance had moved.
    """
    row = fleet.hosts.row_of(*move.source)
    return move.kind == EVACUATION and row is not None and not fleet.down[row]


def _done(fleet: Fleet, moves: Sequence[PlannedMove]) -> set[int]:
    """Return the numbers of the moves that led an instance to where it is."""
    by_uuid: dict[str, list[int]] = {}
    for number, move in enumerate(moves):
        by_uuid.setdefault(move.uuid, []).append(number)
    found: set[int] = set()
    for uuid, numbers in by_uuid.items():
        resident = fleet.residents.get(uuid)
        place = fleet.place(resident.row) if resident else None
        here = [at for at, number in enumerate(numbers) if moves[number].target == place]
        found.update(numbers[: here[-1] + 1] if here else ())
    return found


def _checked(fleet: Fleet, move: PlannedMove) -> CheckedMove:
    resident = fleet.residents.get(move.uuid)
    if resident is None:
        return CheckedMove(move, GONE, "the instance is not on any host")
    place = fleet.place(resident.row)
    if place != move.source:
        return CheckedMove(move, ELSEWHERE, f"the instance is on {place.host}")
    row = fleet.hosts.row_of(*move.target)
    if row is None:
        return CheckedMove(move, IMPOSSIBLE, f"no host {move.target.host} has reported")
    if resident.fixed is not None:
        return CheckedMove(move, IMPOSSIBLE, f"the instance {resident.fixed}")
    kind = fleet.kind_of_move(resident)
    if kind != move.kind:
        why = f"the instance can be moved by {kind} now, not by {move.kind}"
        return CheckedMove(move, IMPOSSIBLE, why)
    refusal = fleet.refusal_at(fleet.request(resident), row)
    if refusal is not None:
        return CheckedMove(move, IMPOSSIBLE, f"{refusal.filter}: {refusal.reason}")
    fleet.move(resident, row, move.reason)
    return CheckedMove(move, POSSIBLE)
