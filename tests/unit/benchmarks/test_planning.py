# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.planning: its fleets, its goals, and the exact solver beside us."""

from itertools import product
from random import Random

import numpy as np
import pytest

from benchmarks.figures import BOUND, EXACT, OURS, find
from benchmarks.limits import LIMITS
from benchmarks.planning import __main__ as planning
from benchmarks.planning import exact, goals, reassignment
from benchmarks.planning.exact import Problem, problem_of, solve
from benchmarks.planning.fleets import DISK_GB, MEMORY_MB, VCPUS, a_fleet
from benchmarks.planning.goals import EMPTIED, MOVES, SECONDS, Extent
from scheduler.operators.planning.repairing import broken_rules
from tests import fleets
from tests.fleets import Guest

# Consolidation uses all of its time, others as little as they need.
SECONDS_OF = {each: 0.5 if each == "consolidate" else 60.0 for each in goals.GOALS}
TINY = planning.Plan((Extent(24, 100, SECONDS_OF),), (3,), 2, 1.0, reassignment.SIZES[:1], 1.0)


# Fleets.


def test_a_fleet_keeps_all_rules_and_is_the_same_again():
    fleet, again = a_fleet(8, 60, 1), a_fleet(8, 60, 1)
    assert broken_rules(fleet, fleet.residents.values()) == {}
    assert fleets.places(fleet) == fleets.places(again) != fleets.places(a_fleet(8, 60, 2))
    grouped = [each for each in fleet.residents.values() if each.spec.instance_group]
    assert [each.uuid for each in grouped[3:]] == [f"instance-{each:05}" for each in (30, 31, 32)]
    assert len({each.row for each in grouped[3:]}) == 3


# Goals.


def test_each_goal_is_planned_on_a_fleet_that_needs_it():
    found = list(goals.figures(TINY.extents[0]))
    moves = {each.case["goal"]: each for each in found if each.what == MOVES}
    assert moves.keys() == goals.GOALS.keys()
    assert all(each.median > 0 for each in moves.values())
    facts = {goal: each.facts for goal, each in moves.items()}
    assert facts["repair"]["broken"] == moves["repair"].median
    assert facts["balance"]["before"] > facts["balance"]["after"]
    assert facts["make-room"]["wanted"] == goals.NUMBER
    assert facts["drain"]["steps"] == 1
    ours, bound = (find(found, EMPTIED, who) for who in (OURS, BOUND))
    assert 0 < ours.median <= bound.median


def test_each_limit_of_plans_is_measured_by_the_whole_run():
    cases = [{**each.case, "goal": goal} for each in planning.WHOLE.extents for goal in each.goals]
    sought = [each for each in LIMITS if each.what in (SECONDS, EMPTIED)]
    assert len(sought) == 5
    for limit in sought:
        assert any(limit.case.items() <= each.items() for each in cases)


# The exact solver.


def brute_force(problem, any_move):
    """Return the most hosts that can be emptied, and by how few moves."""
    room, sizes = np.array(problem.room), np.array(problem.sizes)
    hosts, best = range(len(room)), (0, 0)
    for places in product(hosts, repeat=len(sizes)):
        used = np.array([sizes[np.array(places) == host].sum(axis=0) for host in hosts])
        empty = {*hosts} - {*places}
        pairs = zip(places, problem.sources, strict=True)
        moved = [source for place, source in pairs if place != source]
        is_allowed = any_move or all(source in empty for source in moved)
        is_apart = all(len({places[one] for one in each}) == len(each) for each in problem.apart)
        if is_allowed and is_apart and (used <= room).all():
            best = max(best, (len(empty), -len(moved)))
    return best[0], -best[1]


def a_problem(seed):
    chance = Random(seed)
    room = [(8, 8, 8), (6, 10, 8), (8, 6, 10), (9, 9, 9)]
    sizes = [[chance.randint(1, 4) for _ in range(3)] for _ in range(5)]
    return Problem(room, sizes, [number % 4 for number in range(5)], [range(2 + seed % 2)])


@pytest.mark.parametrize("any_move", [False, True])
def test_the_solver_finds_what_brute_force_does(any_move):
    found = set()
    for seed in range(8):
        problem = a_problem(seed)
        *answer, is_proven = solve(problem, any_move, 20.0)
        assert tuple(answer) == brute_force(problem, any_move)
        assert is_proven
        found.add(tuple(answer))
    assert len(found) > 1


def test_a_problem_has_what_fleets_have():
    guests = [Guest("a", "h1", 2), Guest("b", "h3", 4, vcpus=3), Guest("c", "h3")]
    hosts = {"h1": 8, "h2": 8, "h3": 16}
    found = problem_of(fleets.a_fleet(hosts, guests, {"anti-affinity": ["a", "c"]}))
    assert [each[1] for each in found.room] == [8 * 1024, 16 * 1024]
    assert found.sizes == [(1, 2048, 0), (3, 4096, 0), (1, 1024, 0)]
    assert (found.sources, found.apart) == ([0, 1, 1], [[0, 2]])
    assert problem_of(a_fleet(1, 1, 1)).room == [[VCPUS, MEMORY_MB, 1024 * DISK_GB]]


def test_we_do_not_empty_more_hosts_than_the_solver():
    found = list(exact.figures([4], 2, 1.0))
    for kind in exact.KINDS:
        ours, best = (find(found, exact.EMPTIED, who, moves=kind) for who in (OURS, EXACT))
        assert best.facts == {"proven": 2, "runs": 2}
        assert all(one <= most for one, most in zip(ours.turns, best.turns, strict=True))


# The program.
