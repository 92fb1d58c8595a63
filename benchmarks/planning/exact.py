# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Consolidation of small fleets beside OR-tools CP-SAT: would an exact solver pay?

It knows vCPUs, memory, disk and anti-affinity, no other filter, and not the order of moves. It
empties as many hosts as possible and of such plans finds one with the fewest moves, twice: with
moves off emptied hosts only, as we have them, and with any moves.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from benchmarks.figures import EXACT, OURS, Case, Figure, find
from benchmarks.planning.fleets import a_fleet
from benchmarks.planning.goals import GOALS, timed
from scheduler.hosts.resources import resources
from scheduler.operators.planning.fleet import Fleet

SECONDS, EMPTIED, MOVES = (
    f"consolidation of small fleets{each}" for each in ("", ", hosts emptied", ", moves")
)
# What may move, by the words of it in a case.
KINDS = {"off emptied hosts": False, "any": True}
INSTANCES_PER_HOST = 8
# The processors of the machine that figures are for.
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """Hosts and instances by their numbers, in vCPUs, MB of memory and MB of disk.

    room and sizes have three columns, sources the host of each instance, apart sets of instances
    of which no two may share a host.
    """

    room: Sequence[Sequence[int]]
    sizes: Sequence[Sequence[int]]
    sources: Sequence[int]
    apart: Sequence[Sequence[int]] = ()


class Answer(NamedTuple):
    """How many hosts are emptied by how many moves, and whether it is proven to be the best."""

    emptied: int
    moves: int
    is_proven: bool


def problem_of(fleet: Fleet) -> Problem:
    """Return the hosts that have instances, and these, all of which have to be movable."""
    rows = sorted(fleet.hosts.instances.occupied())
    residents = [*fleet.residents.values()]
    numbers = {each.uuid: number for number, each in enumerate(residents)}
    groups = {}
    for each in residents:
        group = each.spec.instance_group
        if group is not None:
            groups[group.uuid] = [numbers[uuid] for uuid in group.members if uuid in numbers]
    limits = np.array([each.limit[rows] for each in resources(fleet.hosts)]).T
    return Problem(
        limits.astype(int).tolist(),
        [(each.spec.vcpus, each.spec.memory_mb, each.spec.disk_mb) for each in residents],
        [rows.index(each.row) for each in residents],
        [*groups.values()],
    )


def solve(problem: Problem, any_move: bool, seconds: float, seed: int = 0) -> Answer:
    """Return the best plan that is found in so many seconds; without any_move, others stay."""
    model = cp_model.CpModel()
    hosts, sources = range(len(problem.room)), problem.sources
    empty = [model.new_bool_var("") for _ in hosts]
    on = [[model.new_bool_var("") for _ in hosts] for _ in sources]
    _add_rules(model, problem, empty, on)
    stays = [each[source] for each, source in zip(on, sources, strict=True)]
    for each, source in zip(stays, sources, strict=True):
        model.add_hint(each, True)
        if not any_move:
            model.add(each == 1 - empty[source])
    # One more empty host is worth more than all moves.
    model.maximize((len(sources) + 1) * sum(empty) + sum(stays))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        # All stay where they are: that is possible, though it has not come to it.
        return Answer(0, 0, False)
    emptied, stayed = (sum(map(solver.value, each)) for each in (empty, stays))
    return Answer(emptied, len(sources) - stayed, status == cp_model.OPTIMAL)


def _add_rules(
    model: cp_model.CpModel,
    problem: Problem,
    empty: Sequence[cp_model.IntVar],
    on: Sequence[Sequence[cp_model.IntVar]],
) -> None:
    """Add that each instance is on one host, which is not empty and has room for it."""
    for each in on:
        model.add_exactly_one(each)
    for host, room in enumerate(problem.room):
        for each in on:
            model.add_implication(each[host], ~empty[host])
        for resource, limit in enumerate(room):
            sizes = [each[resource] for each in problem.sizes]
            used = sum(size * each[host] for size, each in zip(sizes, on, strict=True))
            model.add(used <= limit)
        for group in problem.apart:
            model.add_at_most_one(on[one][host] for one in group)


def figures(hosts: Sequence[int], seeds: int, seconds: float) -> Iterator[Figure]:
    """Yield what both find on fleets of so many hosts, each with so many seeds."""
    for size in hosts:
        ours: list[tuple[float, Answer]] = []
        exact: dict[str, list[tuple[float, Answer]]] = {kind: [] for kind in KINDS}
        for seed in range(seeds):
            fleet = a_fleet(size, INSTANCES_PER_HOST * size, seed)
            problem = problem_of(fleet)
            for kind, any_move in KINDS.items():
                exact[kind].append(_timed(problem, any_move, seconds))
            taken, plan = timed(fleet, GOALS["consolidate"], seconds)
            ours.append((taken, Answer(len(plan.result["emptied"]), len(plan.moves), False)))
        case = {"hosts": size, "instances": INSTANCES_PER_HOST * size}
        for kind, turns in exact.items():
            facts = {"proven": sum(each.is_proven for _, each in turns), "runs": seeds}
            yield from _figures(OURS, {**case, "moves": kind}, ours, {})
            yield from _figures(EXACT, {**case, "moves": kind}, turns, facts)


def _timed(problem: Problem, any_move: bool, seconds: float) -> tuple[float, Answer]:
    began = time.monotonic()
    found = solve(problem, any_move, seconds)
    return time.monotonic() - began, found


def _figures(
    who: str, case: Case, turns: Sequence[tuple[float, Answer]], facts: Mapping[str, int]
) -> Iterator[Figure]:
    yield Figure(SECONDS, who, "s", [taken for taken, _ in turns], case, facts)
    yield Figure(EMPTIED, who, "", [each.emptied for _, each in turns], case, facts)
    yield Figure(MOVES, who, "", [each.moves for _, each in turns], case, facts)


def report(found: Sequence[Figure]) -> list[str]:
    """Return one table: by fleet and kind of moves, what both find, as sums of all runs."""
    lines = [
        f"{'hosts':>6} {'instances':>9}  {'moves':18} {'runs':>4}  emptied: ours CP-SAT"
        "  moves: ours CP-SAT  seconds: ours CP-SAT  proven"
    ]
    for each in found:
        if each.what != SECONDS or each.who != EXACT:
            continue
        case = each.case
        (emptied, most), (moves, least), (ours, theirs) = (
            [sum(_found(found, what, who, case).turns) for who in (OURS, EXACT)]
            for what in (EMPTIED, MOVES, SECONDS)
        )
        lines.append(
            f"{case['hosts']:6} {case['instances']:9}  {case['moves']:18} {each.facts['runs']:4}"
            f"  {emptied:13} {most:6}  {moves:11} {least:6}  {ours:13.2f} {theirs:6.1f}"
            f"  {each.facts['proven']:6}"
        )
    return lines


def _found(figures: Sequence[Figure], what: str, who: str, case: Case) -> Figure:
    found = find(figures, what, who, **case)
    assert found is not None
    return found
