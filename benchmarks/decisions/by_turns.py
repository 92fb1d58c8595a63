# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One case, decided by all who take part in it, by turns."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.comparable import Wish
from benchmarks.decisions.cases import Case
from benchmarks.decisions.sides import Nova, Numpy, Ours, Turn
from benchmarks.figures import FLOOR, NOVA, OURS, Figure

# A turn of ours or of numpy is the mean of as many decisions as place so many instances.
_INSTANCES_IN_A_TURN = 20
Sides = tuple[Ours, Nova | None, Numpy]


def by_turns(case: Case, wish: Wish, sides: Sides, turns: int) -> Iterator[Figure]:
    """Yield what the case costs each of them; the first turn is to warm up."""
    ours, nova, numpy = sides
    instances, times = case.instances, max(1, _INSTANCES_IN_A_TURN // case.instances)
    warm, measured = case.turns_of_nova(turns)
    mine: list[Turn] = []
    its: list[Turn] = []
    bare: list[Turn] = []
    if nova is not None and case.with_nova:
        nova.set(case.settings)
    for turn in range(turns + 1):
        mine.append(ours.decide(wish, instances, times))
        if case.with_numpy:
            bare.append(numpy.decide(wish, instances, times))
        if nova is not None and case.with_nova and turn < warm + measured:
            its.append(nova.decide(wish, instances))
    facts = {"same_hosts": _same(mine, its)}
    yield _figure(OURS, case, mine[1:], facts)
    if its:
        yield _figure(NOVA, case, its[warm:], facts)
    if bare:
        yield _figure(FLOOR, case, bare[1:], {"same_hosts": _same(mine, bare)})


def _figure(who: str, case: Case, turns: Sequence[Turn], facts: dict[str, Any]) -> Figure:
    return Figure("decide", who, "ms", [each.ms for each in turns], case.to_dict(), facts)


def _same(mine: Sequence[Turn], others: Sequence[Turn]) -> bool | None:
    """Return whether all have chosen the same hosts in all turns; None where nobody else did."""
    if not others:
        return None
    return all(each.hosts == mine[0].hosts for each in (*mine, *others))
