# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of balance on instances of the ROADEF/EURO challenge 2012, of the published sizes.

The instances are made here, by a seed, so their costs are not those of the published ones. The
first three resources are taken for vCPUs, memory and disk, services for groups of anti-affinity.
What does not map is left out of the plan, and counted after it.
"""

from collections.abc import Iterator, Sequence
from operator import ge, sub
from random import Random
from typing import NamedTuple

from benchmarks.figures import OURS, Case, Figure, find
from benchmarks.planning import roadef
from benchmarks.planning.fleets import anti_affinity, default_plan, place
from benchmarks.planning.goals import MARGIN, timed
from benchmarks.planning.roadef import Balance, Machine, Model, Process, Resource, Service, Weights
from scheduler.objects.flavor_and_image import Flavor
from scheduler.operators.planning.balancing import RESOURCES, balance, resource_load
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Budget, KeepGoing, MovePlan
from scheduler.operators.simulation.fleet import HostKind, make_hosts

SECONDS, MOVES, BEFORE, AFTER, LEAST, BROKEN = (
    f"balance of ROADEF instances{each}"
    for each in (
        "", ", moves", ", objective before", ", objective after", ", its lower bound",
        ", broken by what is left out",
    )
)  # fmt: skip
# About what machines have of each resource, and how much of all is in use.
CAPACITIES, IN_USE = (40_000, 60_000, 100_000), 0.6
# How much more one machine is liked than another; the next is tried where not all have room.
PREFERENCES = (2.0, 1.0, 0.5, 0.2, 0.0)
# The share of the capacity above which use is penalised.
SAFETY = 0.5
# How often it is tried to draw services of which one can depend on the other, for each wanted.
TRIES = 200


class Size(NamedTuple):
    """What a published instance has how many of."""

    name: str
    processes: int
    machines: int
    resources: int
    services: int
    neighborhoods: int
    locations: int
    dependencies: int
    balances: int


# Those of set A, as published.
SIZES = (
    Size("a1_1", 100, 4, 2, 79, 1, 4, 0, 1),
    Size("a1_2", 1000, 100, 4, 980, 2, 4, 40, 0),
    Size("a1_3", 1000, 100, 3, 216, 5, 25, 342, 0),
    Size("a1_4", 1000, 50, 3, 142, 50, 50, 297, 1),
    Size("a1_5", 1000, 12, 4, 981, 2, 4, 32, 1),
    Size("a2_1", 1000, 100, 3, 1000, 1, 1, 0, 0),
    Size("a2_2", 1000, 100, 12, 170, 5, 25, 0, 0),
    Size("a2_3", 1000, 100, 12, 129, 5, 25, 577, 0),
    Size("a2_4", 1000, 50, 12, 180, 5, 25, 397, 1),
    Size("a2_5", 1000, 50, 12, 153, 5, 25, 506, 0),
)


def make(size: Size, seed: int) -> tuple[Model, list[int]]:
    """Return an instance and an assignment that keeps all of its rules; some machines are full."""
    chance = Random(seed)
    resources = [Resource(number % 4 == 3, 10) for number in range(size.resources)]
    machines = [_machine(size, number, chance) for number in range(size.machines)]
    owners = _services_of_processes(size, chance)
    processes = _processes(owners, machines, chance)
    balances = [Balance(0, 1, 1, 10)] * size.balances
    services = [Service(1, ())] * size.services
    model = Model(resources, machines, services, processes, balances, Weights(1, 10, 100))
    assignment = _assigned(model, chance)
    return _ruled(model, assignment, size.dependencies, chance), assignment


def _machine(size: Size, number: int, chance: Random) -> Machine:
    scale = chance.choice(CAPACITIES)
    capacity = tuple(int(scale * chance.uniform(0.8, 1.2)) for _ in range(size.resources))
    return Machine(
        number % size.neighborhoods,
        number % size.locations,
        capacity,
        tuple(int(SAFETY * each) for each in capacity),
        tuple(0 if other == number else chance.randint(1, 5) for other in range(size.machines)),
    )


def _services_of_processes(size: Size, chance: Random) -> list[int]:
    """Return the service of each process: each has one, some have more, none more than half."""
    owners = [*range(size.services)]
    counts = [1] * size.services
    most = max(2, size.machines // 2)
    while len(owners) < size.processes:
        service = chance.randrange(size.services)
        if counts[service] < most:
            counts[service] += 1
            owners.append(service)
    return owners


def _processes(owners: Sequence[int], machines: Sequence[Machine], chance: Random) -> list[Process]:
    """Return processes of as many sizes, which take IN_USE of each resource together."""
    whole = [sum(each) for each in zip(*(one.capacity for one in machines), strict=True)]
    sizes = [chance.lognormvariate(0, 0.6) for _ in owners]
    shares = [[size * chance.lognormvariate(0, 0.4) for _ in whole] for size in sizes]
    sums = [sum(each) for each in zip(*shares, strict=True)]
    return [
        Process(
            service,
            tuple(
                int(IN_USE * has * share / all_of_it)
                for has, share, all_of_it in zip(whole, each, sums, strict=True)
            ),
            chance.randint(1, 100),
        )
        for service, each in zip(owners, shares, strict=True)
    ]


def _assigned(model: Model, chance: Random) -> list[int]:
    """Return machines that have room for all resources; some are filled before others."""
    for preference in PREFERENCES:
        liked = [chance.random() ** preference for _ in model.machines]
        found = _filled(model, liked, chance)
        if found is not None:
            return found
    raise ValueError("the machines have no room for all processes")


def _filled(model: Model, liked: Sequence[float], chance: Random) -> list[int] | None:
    """Return a machine with room for each process, or None: the largest processes come first."""
    free = [[*one.capacity] for one in model.machines]
    taken: list[set[int]] = [set() for _ in model.services]
    found = [0] * len(model.processes)
    for number in sorted(
        range(len(found)), key=lambda each: -max(model.processes[each].requirement)
    ):
        service, requirement, _ = model.processes[number]
        possible = [
            one
            for one, has in enumerate(free)
            if one not in taken[service] and all(map(ge, has, requirement))
        ]
        if not possible:
            return None
        machine = chance.choices(possible, [liked[each] for each in possible])[0]
        found[number] = machine
        taken[service].add(machine)
        free[machine] = [*map(sub, free[machine], requirement)]
    return found


def _ruled(model: Model, assignment: Sequence[int], dependencies: int, chance: Random) -> Model:
    """Return a model with rules of spread and dependency, all of which an assignment keeps."""
    machines = roadef.machines_of(model, assignment)
    needs: list[list[int]] = [[] for _ in machines]
    for _ in range(TRIES * dependencies):
        if sum(map(len, needs)) == dependencies:
            break
        one, other = chance.sample(range(len(machines)), 2)
        if other not in needs[one] and roadef.is_near(model, machines[one], machines[other]):
            needs[one].append(other)
    spreads = [len({model.machines[each].location for each in some}) for some in machines]
    services = [
        Service(chance.randint(1, spread), tuple(some))
        for spread, some in zip(spreads, needs, strict=True)
    ]
    return Model(
        model.resources, model.machines, services, model.processes, model.balances, model.weights
    )


def fleet_of(model: Model, assignment: Sequence[int]) -> Fleet:
    """Return a fleet of the machines, in their order, with instance N for process N."""
    rooms = [_three(one.capacity) for one in model.machines]
    hosts = make_hosts([HostKind(1, *each) for each in rooms])
    rows = [*hosts.rows()]
    members: list[list[str]] = [[] for _ in model.services]
    for number, process in enumerate(model.processes):
        members[process.service].append(str(number))
    groups = [
        anti_affinity(f"service-{number}", some) if len(some) > 1 else None
        for number, some in enumerate(members)
    ]
    residents = [
        place(
            hosts,
            rows[machine],
            str(number),
            Flavor(*_three(process.requirement)),
            groups[process.service],
        )
        for number, (process, machine) in enumerate(zip(model.processes, assignment, strict=True))
    ]
    return Fleet(hosts, residents, default_plan())


def _three(amounts: Sequence[int]) -> tuple[int, int, int]:
    """Return amounts of vCPUs, memory and disk; there is none of what the model does not have."""
    vcpus, memory, disk = (*amounts, 0, 0, 0)[:3]
    return vcpus, memory, disk


def assignment_of(fleet: Fleet) -> list[int]:
    """Return the machines of all processes on a fleet that fleet_of() has made."""
    machines = {row: number for number, row in enumerate(fleet.hosts.rows())}
    return [machines[fleet.residents[str(each)].row] for each in range(len(fleet.residents))]


def balanced(fleet: Fleet, model: Model, keep_going: KeepGoing) -> MovePlan:
    """Plan to balance the resource whose load costs most, of those that map."""
    costs = roadef.load_costs(model, roadef.used(model, assignment_of(fleet)))[: len(RESOURCES)]
    load = resource_load(fleet, RESOURCES[costs.index(max(costs))])
    return balance(fleet, load, MARGIN, Budget(), keep_going)


def figures(sizes: Sequence[Size], seconds: float, seed: int = 1) -> Iterator[Figure]:
    """Yield what balance takes on an instance of each size, and the objective before and after."""
    for size in sizes:
        model, before = make(size, seed)
        # As if it had come from a file.
        yield from _figures(size, roadef.read_model(roadef.written_model(model)), before, seconds)


def _figures(size: Size, model: Model, before: Sequence[int], seconds: float) -> Iterator[Figure]:
    fleet = fleet_of(model, before)
    taken, plan = timed(fleet, lambda one, keep_going: balanced(one, model, keep_going), seconds)
    after = assignment_of(fleet)
    now, then = (roadef.objective(model, before, each) for each in (after, before))
    broken = roadef.violations(model, before, after)
    left_out = {"resources left out": max(0, size.resources - len(RESOURCES))}
    names = ("processes", "machines", "resources")
    case = {"instance": size.name, **{name: getattr(size, name) for name in names}}
    yield Figure(SECONDS, OURS, "s", [taken], case, plan.result)
    yield Figure(MOVES, OURS, "", [len(plan.moves)], case)
    yield Figure(BEFORE, OURS, "", [then.total], case, then._asdict())
    yield Figure(AFTER, OURS, "", [now.total], case, now._asdict())
    yield Figure(LEAST, OURS, "", [roadef.lower_bound(model)], case)
    yield Figure(BROKEN, OURS, "", [sum(broken.values())], case, broken | left_out)


def report(found: Sequence[Figure]) -> list[str]:
    """Return a line for each instance."""
    lines = [
        f"{'instance':8} {'processes':>9} {'machines':>8} {'resources':>9} {'s':>6} {'moves':>6}"
        f" {'objective before':>17} {'after':>14} {'bound':>14}  broken by what is left out"
    ]
    for each in found:
        if each.what != BROKEN:
            continue
        case = each.case
        broken = [f"{name} {number}" for name, number in each.facts.items() if number]
        taken, moves, before, after, least = (
            _median(found, what, case) for what in (SECONDS, MOVES, BEFORE, AFTER, LEAST)
        )
        lines.append(
            f"{case['instance']:8} {case['processes']:9} {case['machines']:8}"
            f" {case['resources']:9} {taken:6.1f} {moves:6.0f} {before:17,.0f} {after:14,.0f}"
            f" {least:14,.0f}  {', '.join(broken) or 'nothing'}"
        )
    return lines


def _median(figures: Sequence[Figure], what: str, case: Case) -> float:
    found = find(figures, what, **case)
    assert found is not None
    return found.median
