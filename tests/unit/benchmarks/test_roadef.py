# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the format and the objective of the ROADEF/EURO challenge 2012, and of its instances."""

from random import Random

import pytest

from benchmarks.planning import reassignment, roadef
from benchmarks.planning.reassignment import SIZES, assignment_of, balanced, fleet_of, make
from benchmarks.planning.roadef import (
    Balance,
    Machine,
    Model,
    Objective,
    Process,
    Resource,
    Service,
    Weights,
    lower_bound,
    objective,
    read_assignment,
    read_model,
    violations,
    written_model,
)

FILE = """\
2
1 10
0 1
3
0 0 10 100 6 50 0 2 3
0 1 8 80 5 40 2 0 4
1 1 12 60 4 30 3 4 0
2
2 0
1 1 0
4
0 4 30 7
0 3 20 1
1 5 40 5
1 1 10 9
1
0 1 10
2
3 10 2
"""
MODEL = read_model(FILE)
BEFORE = read_assignment("0 1 0 1\n")
KEPT = {"capacity": 0, "transient": 0, "conflict": 0, "spread": 0, "dependency": 0}
SMALL = [
    each._replace(machines=8, processes=60, services=40, dependencies=20) for each in SIZES[1:4]
]


def test_a_file_is_read():
    assert MODEL.resources == [Resource(True, 10), Resource(False, 1)]
    assert MODEL.machines[2] == Machine(1, 1, (12, 60), (4, 30), (3, 4, 0))
    assert MODEL.services == [Service(2, ()), Service(1, (0,))]
    assert MODEL.processes[2] == Process(1, (5, 40), 5)
    assert (MODEL.balances, MODEL.weights) == ([Balance(0, 1, 10, 2)], Weights(3, 10, 2))
    assert BEFORE == [0, 1, 0, 1]


def test_what_is_written_is_read_again():
    assert written_model(MODEL) == FILE
    assert read_model(FILE.replace("\n", " ")) == MODEL


@pytest.mark.parametrize(
    ("text", "why"), [(FILE[:-4], "ends before"), (FILE + "1", "goes on after"), ("", "ends")]
)
def test_another_file_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        read_model(text)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # Machine 0 has 3 and 20 above its safety. Machine 2 has 12 free of one, 60 of the other.
        (BEFORE, Objective(30 + 20, 2 * (10 * 12 - 60), 0, 0, 0)),
        # Process 2 goes to machine 2, which is 1 and 10 above its safety then, with 7 and 20 free.
        ([0, 1, 2, 1], Objective(10 + 10, 2 * (10 * 7 - 20), 3 * 5, 10, 2 * 3)),
        # One of each service moves. Machine 2 is 4 and 30 above its safety, with 4 and none free.
        ([0, 2, 2, 1], Objective(40 + 30, 2 * (10 * 4), 3 * (1 + 5), 10, 2 * (4 + 3))),
        # Both of service 1 move. Machine 2 is 2 and 20 above its safety, with 6 and 10 free.
        ([0, 1, 2, 2], Objective(20 + 20, 2 * (10 * 6 - 10), 3 * (5 + 9), 20, 2 * (3 + 4))),
    ],
)
def test_the_objective_is_as_computed_by_hand(after, expected):
    assert objective(MODEL, BEFORE, after) == expected
    assert objective(MODEL, BEFORE, after).total == sum(expected)


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        (BEFORE, {}),
        # No process of service 0 is near machine 2.
        ([0, 1, 2, 1], {"dependency": 1}),
        # What process 1 takes on machine 1 until it has left is too much beside process 2.
        ([0, 2, 1, 1], {"transient": 1, "conflict": 1}),
        ([1, 1, 1, 1], {"capacity": 2, "conflict": 2, "spread": 1}),
    ],
)
def test_broken_rules_are_counted(after, broken):
    assert violations(MODEL, BEFORE, after) == KEPT | broken


def test_the_lower_bound_is_that_of_one_machine_with_all_room():
    # 17 and 140 are free in all; 13 and 100 are in use, with safety for 15 and 120.
    assert lower_bound(MODEL) == 2 * (10 * 17 - 140)
    tight = [each._replace(safety=(4, 30)) for each in MODEL.machines]
    model = Model(MODEL.resources, tight, *(getattr(MODEL, each) for each in _LATER))
    assert lower_bound(model) == 10 * 1 + 1 * 10 + 60


_LATER = ("services", "processes", "balances", "weights")


@pytest.mark.parametrize("size", [SIZES[0], *SMALL])
def test_an_instance_has_its_size_and_keeps_its_rules(size):
    model, assignment = make(size, 1)
    found = (model.processes, model.machines, model.resources, model.services, model.balances)
    assert [len(each) for each in found] == [*size[1:5], size.balances]
    assert violations(model, assignment, assignment) == KEPT
    assert read_model(written_model(model)) == model
    assert make(size, 1) == (model, assignment) != make(size, 2)
    assert sum(len(each.needs) for each in model.services) == size.dependencies
    chance = Random(1)
    for _ in range(20):
        other = [chance.randrange(size.machines) for _ in assignment]
        assert lower_bound(model) <= objective(model, assignment, other).total


@pytest.mark.parametrize("size", [SIZES[0], *SMALL])
def test_balance_keeps_what_maps_and_gets_nearer_to_the_bound(size):
    model, before = make(size, 1)
    fleet = fleet_of(model, before)
    assert assignment_of(fleet) == before
    plan = balanced(fleet, model, lambda: True)
    after = assignment_of(fleet)
    moved = {each.uuid for each in plan.moves}
    assert {str(number) for number, each in enumerate(after) if each != before[number]} <= moved
    assert violations(model, before, after)["conflict"] == 0
    for one, use in zip(model.machines, roadef.used(model, after), strict=True):
        assert all(amount <= has for amount, has in zip(use[:3], one.capacity[:3], strict=True))
    of = reassignment.RESOURCES.index(plan.result["of"])
    costs = [roadef.load_costs(model, roadef.used(model, each))[of] for each in (before, after)]
    assert costs[1] < costs[0]


def test_a_resource_that_does_not_map_is_counted():
    machine = Machine(0, 0, (100, 100, 100, 10), (50, 50, 50, 10), (0, 1))
    processes = [Process(0, (30, 30, 30, 1), 1), Process(1, (30, 30, 30, 1), 1)]
    model = Model(
        [Resource(False, 1)] * 4,
        [machine, machine],
        [Service(1, ())] * 3,
        [*processes, Process(2, (1, 1, 1, 10), 1)],
        [],
        Weights(1, 1, 1),
    )
    fleet = fleet_of(model, [0, 0, 1])
    balanced(fleet, model, lambda: True)
    after = assignment_of(fleet)
    assert sorted(after) == [0, 1, 1]
    assert violations(model, [0, 0, 1], after) == KEPT | {"capacity": 1}
