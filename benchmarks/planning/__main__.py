# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of moves: how long they take, how good they are, and whether an exact solver would pay.

Fleets are alike hosts with the filters of a scheduler without configuration; a tenth of the
instances is in groups of anti-affinity. Nothing is moved.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import program
from benchmarks.figures import Figure
from benchmarks.planning import exact, goals, reassignment
from benchmarks.planning.goals import Extent
from benchmarks.planning.reassignment import SIZES, Size


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: goals on fleets, small fleets beside CP-SAT, instances of the challenge.

    small are numbers of hosts, each seeds times; searches end after so many seconds.
    """

    extents: Sequence[Extent]
    small: Sequence[int]
    seeds: int
    exact_seconds: float
    sizes: Sequence[Size]
    roadef_seconds: float


def _goals(consolidate: float, others: float) -> Mapping[str, float]:
    return {each: consolidate if each == "consolidate" else others for each in goals.GOALS}


# Consolidation uses the time that it has, so it gets less than it may take at most.
WHOLE = Plan(
    (
        Extent(1_000, 10_000, _goals(50.0, 60.0)),
        Extent(5_000, 30_000, {"drain": 60.0, "consolidate": 150.0}),
    ),
    (8, 20, 40), 2, 10.0, SIZES, 20.0,
)  # fmt: skip
QUICK = Plan((Extent(50, 400, _goals(1.0, 2.0)),), (5,), 1, 1.0, SIZES[:1], 2.0)


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return what plans take, and what they come to."""
    plan = QUICK if asked.quick else WHOLE
    found = [each for extent in plan.extents for each in goals.figures(extent)]
    found += exact.figures(plan.small, plan.seeds, plan.exact_seconds)
    found += reassignment.figures(plan.sizes, plan.roadef_seconds)
    return found


def report(found: Sequence[Figure]) -> str:
    """Return one table for each of the three."""
    goal_lines, exact_lines = goals.report(found), exact.report(found)
    return "\n".join([*goal_lines, "", *exact_lines, "", *reassignment.report(found)])


def main() -> None:
    program.run(program.parser(__doc__), measure, report)


if __name__ == "__main__":
    main()
