# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The format and the objective of the ROADEF/EURO challenge 2012 (machine reassignment by Google).

https://www.roadef.org/challenge/2012/files/problem_definition_v1.pdf
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Amounts = tuple[int, ...]
# The machine of each process, both by their numbers.
Assignment = Sequence[int]


class Resource(NamedTuple):
    """A transient one is in use on both machines of a process that moves."""

    is_transient: bool
    load_weight: int


class Machine(NamedTuple):
    """What it has of each resource, above which use is penalised, and costs of moves from it."""

    neighborhood: int
    location: int
    capacity: Amounts
    safety: Amounts
    move_costs: Amounts


class Service(NamedTuple):
    """In how many locations its processes are at least, and near which services each of them is."""

    spread: int
    needs: Amounts


class Process(NamedTuple):
    """What it takes of each resource; no two of a service share a machine."""

    service: int
    requirement: Amounts
    move_cost: int


class Balance(NamedTuple):
    """For each unit that is free of the first resource, so many of the second should be."""

    first: int
    second: int
    target: int
    weight: int


class Weights(NamedTuple):
    """How much moves count in the objective."""

    process: int
    service: int
    machine: int


@dataclass(frozen=True, slots=True)
class Model:
    """An instance of the problem, without the assignment that it begins with."""

    resources: Sequence[Resource]
    machines: Sequence[Machine]
    services: Sequence[Service]
    processes: Sequence[Process]
    balances: Sequence[Balance]
    weights: Weights


class Objective(NamedTuple):
    """The parts of what is to be as small as possible, weighted."""

    load: int
    balance: int
    process_moves: int
    service_moves: int
    machine_moves: int

    @property
    def total(self) -> int:
        return sum(self)


def read_model(text: str) -> Model:
    """Return the model of a file; raise ValueError for one that is too short or too long."""
    numbers = _Numbers(text)
    resources = [Resource(bool(numbers.one()), numbers.one()) for _ in numbers.each()]
    count, machines = numbers.one(), []
    for _ in range(count):
        places = numbers.one(), numbers.one()
        amounts = [numbers.some(each) for each in (len(resources), len(resources), count)]
        machines.append(Machine(*places, *amounts))
    services = [_service(numbers) for _ in numbers.each()]
    processes = [
        Process(numbers.one(), numbers.some(len(resources)), numbers.one()) for _ in numbers.each()
    ]
    balances = [Balance(*numbers.some(4)) for _ in numbers.each()]
    model = Model(resources, machines, services, processes, balances, Weights(*numbers.some(3)))
    numbers.end()
    return model


def _service(numbers: "_Numbers") -> Service:
    spread, needed = numbers.some(2)
    return Service(spread, numbers.some(needed))


def read_assignment(text: str) -> list[int]:
    """Return the assignment of a file."""
    return [int(each) for each in text.split()]


class _Numbers:
    """The numbers of a file, one after the other: how they stand in lines does not matter."""

    def __init__(self, text: str) -> None:
        self._left = map(int, text.split())

    def one(self) -> int:
        found = next(self._left, None)
        if found is None:
            raise ValueError("the file ends before the model does")
        return found

    def some(self, count: int) -> Amounts:
        return tuple(self.one() for _ in range(count))

    def each(self) -> Iterable[int]:
        """Return a range of as many as the next number says."""
        return range(self.one())

    def end(self) -> None:
        if next(self._left, None) is not None:
            raise ValueError("the file goes on after the end of the model")


def written_model(model: Model) -> str:
    """Return a model as read_model() reads it."""
    return "".join(f"{' '.join(map(str, each))}\n" for each in _lines(model))


def _lines(model: Model) -> Iterator[Sequence[int]]:
    yield (len(model.resources),)
    yield from ((int(each.is_transient), each.load_weight) for each in model.resources)
    yield (len(model.machines),)
    for one in model.machines:
        yield one.neighborhood, one.location, *one.capacity, *one.safety, *one.move_costs
    yield (len(model.services),)
    yield from ((each.spread, len(each.needs), *each.needs) for each in model.services)
    yield (len(model.processes),)
    yield from ((each.service, *each.requirement, each.move_cost) for each in model.processes)
    yield (len(model.balances),)
    for balance in model.balances:
        yield balance[:3]
        yield (balance.weight,)
    yield model.weights


def used(model: Model, assignment: Assignment) -> list[list[int]]:
    """Return by machine what is in use of each resource."""
    found = [[0] * len(model.resources) for _ in model.machines]
    for process, machine in zip(model.processes, assignment, strict=True):
        for resource, amount in enumerate(process.requirement):
            found[machine][resource] += amount
    return found


def objective(model: Model, before: Assignment, after: Assignment) -> Objective:
    """Return what an assignment costs that is reached from another one."""
    found = used(model, after)
    moved = _moved(model, before, after)
    services = Counter(process.service for process, _, _ in moved)
    weights = model.weights
    return Objective(
        sum(load_costs(model, found)),
        sum(
            each.weight
            * sum(
                _imbalance(each, one, use) for one, use in zip(model.machines, found, strict=True)
            )
            for each in model.balances
        ),
        weights.process * sum(process.move_cost for process, _, _ in moved),
        weights.service * max(services.values(), default=0),
        weights.machine * sum(model.machines[old].move_costs[new] for _, old, new in moved),
    )


def load_costs(model: Model, found: Sequence[Sequence[int]]) -> list[int]:
    """Return by resource what it costs that so much is in use on each machine, weighted."""
    return [
        each.load_weight
        * sum(
            max(0, use[resource] - one.safety[resource])
            for one, use in zip(model.machines, found, strict=True)
        )
        for resource, each in enumerate(model.resources)
    ]


def lower_bound(model: Model) -> int:
    """Return what every assignment costs at least: that of one machine with all others' room."""
    whole = [
        sum(process.requirement[resource] for process in model.processes)
        for resource in range(len(model.resources))
    ]
    safety, capacity = (
        [sum(each) for each in zip(*(getattr(one, name) for one in model.machines), strict=True)]
        for name in ("safety", "capacity")
    )
    load = sum(
        each.load_weight * max(0, whole[resource] - safety[resource])
        for resource, each in enumerate(model.resources)
    )
    one = Machine(0, 0, tuple(capacity), tuple(safety), (0,))
    return load + sum(each.weight * _imbalance(each, one, whole) for each in model.balances)


def violations(model: Model, before: Assignment, after: Assignment) -> dict[str, int]:
    """Return how often each rule is broken by an assignment that is reached from another one.

    capacity counts machines and resources, transient those of which too much is in use only while
    processes move; conflict, spread and dependency count services.
    """
    found = used(model, after)
    moving = [[*each] for each in found]
    for process, old, _ in _moved(model, before, after):
        for resource, each in enumerate(model.resources):
            if each.is_transient:
                moving[old][resource] += process.requirement[resource]
    capacity = _above(model, found)
    machines = machines_of(model, after)
    broken = [[*_broken_rules(model, machines, number)] for number in range(len(machines))]
    return {
        "capacity": capacity,
        "transient": _above(model, moving) - capacity,
        **{rule: sum(rule in each for each in broken) for rule in _RULES},
    }


_RULES = ("conflict", "spread", "dependency")


def _above(model: Model, found: Sequence[Sequence[int]]) -> int:
    return sum(
        amount > has
        for one, use in zip(model.machines, found, strict=True)
        for amount, has in zip(use, one.capacity, strict=True)
    )


def _broken_rules(model: Model, machines: Sequence[Sequence[int]], number: int) -> Iterator[str]:
    service, mine = model.services[number], machines[number]
    if len({*mine}) < len(mine):
        yield "conflict"
    if len({model.machines[each].location for each in mine}) < service.spread:
        yield "spread"
    if not all(is_near(model, mine, machines[needed]) for needed in service.needs):
        yield "dependency"


def machines_of(model: Model, assignment: Assignment) -> list[list[int]]:
    """Return by service the machines of its processes."""
    found: list[list[int]] = [[] for _ in model.services]
    for process, machine in zip(model.processes, assignment, strict=True):
        found[process.service].append(machine)
    return found


def is_near(model: Model, some: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether in the neighborhood of each of some machines there is one of the others."""
    near, there = ({model.machines[one].neighborhood for one in each} for each in (some, others))
    return near <= there


def _moved(model: Model, before: Assignment, after: Assignment) -> list[tuple[Process, int, int]]:
    trios = zip(model.processes, before, after, strict=True)
    return [(process, old, new) for process, old, new in trios if old != new]


def _imbalance(balance: Balance, machine: Machine, use: Sequence[int]) -> int:
    free = [has - amount for has, amount in zip(machine.capacity, use, strict=True)]
    return max(0, balance.target * free[balance.first] - free[balance.second])
