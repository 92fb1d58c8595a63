# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances a fleet admits that all run again after any one rack has died.

The fleets are those of benchmarks.packing, in racks of which each has hosts of all generations. A
fleet gets instances, one after the other and drawn at random, until one is refused; in some fleets
instances leave meanwhile. All policies place them by the weigher for the flavor mix. Then the death
of each rack in turn is tried. Times are not taken.

The percentage that is kept free is the smallest whole one, of each resource of all hosts, with
which the instances of all runs survive: nobody can know it before.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count
from pathlib import Path
from random import Random

import numpy as np

from benchmarks import program
from benchmarks.document import replace as replace_file
from benchmarks.failover import page
from benchmarks.failover.policies import (
    Admitted,
    Numbers,
    OwnStandbys,
    SharedStandbys,
    Slots,
    SpareHosts,
    Unguarded,
    survives,
)
from benchmarks.figures import OURS, Figure
from benchmarks.packing.__main__ import STRATEGIES
from benchmarks.packing.fleets import FLEETS, Fleet
from benchmarks.packing.placers import CONCERNED

POLICIES: dict[str, type[Unguarded]] = {
    page.SHARED: SharedStandbys,
    page.SPARE: SpareHosts,
    page.SLOTS: Slots,
    page.OWN: OwnStandbys,
}
RACKS = 20


@dataclass(frozen=True, slots=True)
class Extent:
    """What is measured: which fleets, of how many hosts, how often."""

    fleets: Sequence[Fleet]
    hosts: int
    seeds: int


WHOLE = Extent(FLEETS, 200, 3)
QUICK = Extent((FLEETS[0],), 100, 1)


def measured(extent: Extent) -> list[Figure]:
    """Return what came out, each fleet and policy in a process of its own."""
    with ProcessPoolExecutor(cpu_count()) as pool:
        jobs = [
            pool.submit(work, fleet, extent, *more)
            for fleet in extent.fleets
            for work, *more in ((_percentage,), *((_policy, name) for name in POLICIES))
        ]
        return [each.result() for each in jobs]


def _policy(fleet: Fleet, extent: Extent, name: str) -> Figure:
    runs = [fill(fleet, extent.hosts, seed, POLICIES[name]) for seed in range(extent.seeds)]
    return _figure(fleet, extent, name, runs)


def _percentage(fleet: Fleet, extent: Extent) -> Figure:
    histories = [by_percentage(fleet, extent.hosts, seed) for seed in range(extent.seeds)]
    for percent in range(100):
        runs = [each[percent] for each in histories]
        if all(survives_any_death(fleet, extent.hosts, each) for each in runs):
            break
    return _figure(fleet, extent, page.PERCENTAGE, runs, percent)


def _figure(
    fleet: Fleet, extent: Extent, name: str, runs: Sequence[Sequence[Admitted]], kept: int = 0
) -> Figure:
    if not all(survives_any_death(fleet, extent.hosts, each) for each in runs):
        raise AssertionError(f"{fleet.name}, {name}: a rack would not be survived")
    facts = {"hosts": extent.hosts, "racks": RACKS, "per cent kept free": kept}
    case = {"fleet": fleet.name, "policy": name}
    return Figure(page.ADMITTED, OURS, "", [len(each) for each in runs], case, facts)


def fill(
    fleet: Fleet,
    hosts: int,
    seed: int,
    make: type[Unguarded],
    notice: Callable[[Sequence[Admitted], Numbers], None] = lambda *_: None,
) -> list[Admitted]:
    """Return the instances that run when the first one is refused.

    Before each of them notice is told which run, and what they use with the next one.
    """
    policy = make({**CONCERNED, **STRATEGIES["flavor mix"]})
    policy.start(fleet.hosts(hosts), racks_of(hosts), fleet.flavors)
    chance, running, used = Random(seed), list[Admitted](), np.zeros(3, np.int64)
    for size in fleet.requests(seed):
        used += size
        notice(running, used)
        if (found := policy.admit(size)) is None:
            break
        running.append(found)
        if chance.random() < fleet.leaving:
            left = running.pop(chance.randrange(len(running)))
            policy.end(left)
            used -= left.size
    return running


def by_percentage(fleet: Fleet, hosts: int, seed: int) -> list[list[Admitted]]:
    """Return the instances that run when the first one is refused, by the per cent kept free."""
    whole = np.sum(fleet.hosts(hosts), axis=0).clip(1)
    found: list[list[Admitted]] = []

    def notice(running: Sequence[Admitted], used: Numbers) -> None:
        # From the largest per cent on, of which the list has the first.
        while len(found) < 100 and (100 * used > (1 + len(found)) * whole).any():
            found.append([*running])

    last = fill(fleet, hosts, seed, Unguarded, notice)
    return [*[last] * (100 - len(found)), *reversed(found)]


def racks_of(hosts: int) -> list[int]:
    """Return the rack of each host: neighbors are together."""
    return [number * RACKS // hosts for number in range(hosts)]


def survives_any_death(fleet: Fleet, hosts: int, running: Sequence[Admitted]) -> bool:
    """Return whether all instances run again, whichever rack dies."""
    capacity: Numbers = np.array(fleet.hosts(hosts), np.int64)
    racks = np.array(racks_of(hosts))
    return all(survives(capacity, racks, running, rack) for rack in range(RACKS))


def report(figures: Sequence[Figure]) -> str:
    """Return medians as lines."""
    return "\n".join(_lines(figures))


def _lines(figures: Sequence[Figure]) -> Iterator[str]:
    for fleet in dict.fromkeys(each.case["fleet"] for each in figures):
        yield fleet
        rows = [each for each in figures if each.case["fleet"] == fleet]
        for each in sorted(rows, key=lambda each: -each.median):
            yield f"  {each.case['policy']:34} {each.median:7,.0f}"


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--seeds", type=int, metavar="N", help=f"Not {WHOLE.seeds} runs of each.")
    options.add_argument(
        "--page", type=Path, metavar="DIR", help="Write failover.rst and failover.svg there too."
    )
    program.run(options, _measured, report)


def _measured(asked: argparse.Namespace) -> list[Figure]:
    extent = QUICK if asked.quick else WHOLE
    found = measured(replace(extent, seeds=asked.seeds or extent.seeds))
    if asked.page:
        replace_file(asked.page / "failover.rst", page.table(found))
        replace_file(asked.page / "failover.svg", page.chart(found))
    return found


if __name__ == "__main__":
    main()
