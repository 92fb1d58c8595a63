# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""After how many days requests find no host any more, if a fleet goes on growing as it did."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.decision.pipeline import allowed, filter_hosts
from scheduler.hosts.flavor_mix import Size
from scheduler.hosts.host_state import Consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.capacity import Simulator, fill
from scheduler.operators.occupancy import reported, use

# How many times a fleet is looked at; at first more often, since ranges are relative.
STEPS = 60
# What a rate that was never seen may be: half an instance in the time that was looked at.
_UNSEEN = 0.5
# How many possible futures are played, and how many at either end are left out of a range.
RUNS, _OUTSIDE = 20, 2


@dataclass(frozen=True, slots=True)
class SizeGrowth:
    """How many instances of a size have come, in how many days, and have left, in how many.

    spec asks for one of them.
    """

    spec: RequestSpec
    come: int
    come_days: float
    left: int
    left_days: float

    @property
    def a_day(self) -> float:
        """Instances more a day, on average."""
        return self.come / self.come_days - self.left / self.left_days

    def draw(self, chance: np.random.Generator) -> float:
        """Return instances more a day, as far from the average as the counts leave open.

        Rates of events that come at random have a gamma distribution once they were counted.
        """
        coming = chance.gamma(self.come + _UNSEEN) / self.come_days
        leaving = chance.gamma(self.left + _UNSEEN) / self.left_days
        return float(coming - leaving)


class _Fleet:
    """A fleet that grows, and on which rows it has instances of each size."""

    def __init__(
        self, hosts: HostTable, rows: Mapping[Size, list[int]], chance: np.random.Generator
    ) -> None:
        self.hosts = hosts
        self.chance = chance
        self._rows = {size: [*each] for size, each in rows.items()}
        self._io_ops = hosts.num_io_ops.copy()

    def add(self, spec: RequestSpec, count: int, simulator: Simulator) -> None:
        """Place count instances, as far as there is room."""
        there = self._rows.setdefault(_size(spec), [])
        while count:
            rows = fill(self.hosts, spec, simulator, count).rows
            # They come one by one: all are built before the next.
            self.hosts.fill("num_io_ops", self._io_ops)
            there.extend(rows.elements())
            count = count - rows.total() if rows else 0

    def remove(self, spec: RequestSpec, count: int) -> None:
        """Remove count instances, wherever they are, as far as there are any."""
        there = self._rows.get(_size(spec), [])
        taken = Consumption(spec.vcpus, spec.memory_mb, spec.disk_mb)
        for _ in range(min(count, len(there))):
            index = int(self.chance.integers(len(there)))
            there[index], row = there[-1], there[index]
            there.pop()
            use(self.hosts, row, taken, -1)


def rows_by_size(hosts: HostTable) -> dict[Size, list[int]]:
    found: dict[Size, list[int]] = {}
    for row in hosts.rows():
        for instance in hosts.instances.on(row).values():
            takes = reported(instance)
            found.setdefault((takes.vcpus, takes.memory_mb, takes.disk_mb), []).append(row)
    return found


def play(
    hosts: HostTable,
    growth: Sequence[SizeGrowth],
    asked: Sequence[RequestSpec],
    simulator: Simulator,
    days: float,
) -> list[list[float]]:
    """Return for each possible future after how many days each request finds no host any more.

    The simulator's progress is called with the number of each before it is played. Futures that it
    may not play to the end are not among them.
    """
    there, runs = rows_by_size(hosts), []
    quiet = replace(simulator, progress=lambda _: None)
    for seed in range(RUNS):
        simulator.progress(seed)
        run = forecast(hosts.working_copy(), growth, asked, quiet, days, seed, there)
        if not simulator.may_go_on():
            break
        runs.append(run)
    return runs


def ranges_of(runs: Sequence[Sequence[float]]) -> Iterator[tuple[float | None, float | None]]:
    """Yield between which days each request finds no host any more, None for later than all days.

    Few futures leave nothing out of the range.
    """
    outside = _OUTSIDE if len(runs) == RUNS else 0
    for found in zip(*runs, strict=True):
        ends = sorted(found)[outside], sorted(found)[-1 - outside]
        earliest, latest = (None if math.isinf(end) else round(end, 3) for end in ends)
        yield earliest, latest


def forecast(
    hosts: HostTable,
    growth: Sequence[SizeGrowth],
    asked: Sequence[RequestSpec],
    simulator: Simulator,
    days: float,
    seed: int,
    there: Mapping[Size, list[int]],
) -> list[float]:
    """Return after how many days each request finds no host, infinite if it does for all days.

    hosts is a working copy, on which instances are placed and removed; there has the rows
    of its instances by their sizes. One seed gives one possible future, which ends early where the
    simulator may not go on.
    """
    chance = np.random.default_rng(seed)
    fleet = _Fleet(hosts, there, chance)
    rates = [each.draw(chance) for each in growth]
    grown = [0] * len(growth)
    found = [math.inf] * len(asked)
    for step in range(STEPS + 1):
        if not simulator.may_go_on():
            break
        passed = days * (step / STEPS) ** 2
        for index, (each, rate) in enumerate(zip(growth, rates, strict=True)):
            more = round(rate * passed) - grown[index]
            grown[index] += more
            if more > 0:
                fleet.add(each.spec, more, simulator)
            elif more < 0:
                fleet.remove(each.spec, -more)
        for index, spec in enumerate(asked):
            if found[index] == math.inf and not has_host(hosts, spec, simulator):
                found[index] = passed
        if math.inf not in found:
            break
    return found


def has_host(hosts: HostTable, spec: RequestSpec, simulator: Simulator) -> bool:
    """Return whether some host passes all filters for a request."""
    candidates, _ = allowed(hosts, spec, simulator.plan)
    left, _ = filter_hosts(hosts, spec, simulator.plan.filters, candidates)
    return bool(left.any())


def _size(spec: RequestSpec) -> Size:
    return spec.vcpus, spec.memory_mb, spec.disk_mb
