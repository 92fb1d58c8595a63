# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How well fleets are filled, by our weighers and by Nova's.

Each fleet is filled with the same instances, one after the other and drawn at random, until one is
refused; in some fleets instances leave meanwhile. Then instances leave at random until the load is
75 %, half of those that stay are replaced by others, and the fleet is filled again. Times are not
taken.

Load is the largest of the shares of all vCPUs, RAM and disk that are in use. The largest instance
is the RAM of the largest one with 4 GB for each vCPU that would fit somewhere, the largest flavor
that of the one with the most RAM among those that are asked for.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count
from pathlib import Path

from benchmarks import program
from benchmarks.document import replace as replace_file
from benchmarks.figures import NOVA, OURS, Figure
from benchmarks.nova import a_peer, refuse_absence
from benchmarks.packing import page
from benchmarks.packing.fleets import FLEETS, Fleet
from benchmarks.packing.placers import CONCERNED, Novas, Ours, Placer, Settings
from benchmarks.packing.report import report
from benchmarks.packing.runs import Run, run

_RAM = ("filter_scheduler", "ram_weight_multiplier")
_OTHERS = {
    ("filter_scheduler", "cpu_weight_multiplier"): 0.0,
    ("filter_scheduler", "disk_weight_multiplier"): 0.0,
}
_MIXED = {**_OTHERS, ("flavor_mix", "weight_multiplier"): 1.0, _RAM: 0.0}
_ALIGNED = {**_OTHERS, ("alignment", "weight_multiplier"): 1.0}
STACK: Settings = {**_OTHERS, _RAM: -1.0}
STRATEGIES: dict[str, Settings] = {
    "spread": {},
    "stack": STACK,
    "alignment": {**_ALIGNED, _RAM: 0.0},
    "alignment + stack": {**_ALIGNED, _RAM: -1.0},
    "flavor mix": _MIXED,
}
NOVAS: dict[str, Settings] = {"defaults": {}, "stack": STACK}
# Which of ours is the same as one of Nova's.
SAME = {"defaults": "spread", "stack": "stack"}
Runs = dict[tuple[str, str, str], list[Run]]


@dataclass(frozen=True, slots=True)
class Extent:
    """What is measured: which fleets, of how many hosts, how often, and how Nova is configured.

    Nova, which takes much longer, has the first nova_seeds of the runs.
    """

    fleets: Sequence[Fleet]
    hosts: int
    seeds: int
    novas: Mapping[str, Settings]
    nova_seeds: int


WHOLE = Extent(FLEETS, 20, 8, NOVAS, 8)
# To begin takes Nova seconds, so it does that once.
QUICK = Extent((FLEETS[0], FLEETS[5]), 10, 2, {"defaults": {}}, 2)


def measured(extent: Extent) -> list[Figure]:
    """Return what came out. Both of us work in processes of our own."""
    runs: Runs = {}
    with ProcessPoolExecutor(cpu_count()) as pool, ThreadPoolExecutor(len(extent.novas)) as beside:
        jobs = [(fleet, strategy) for fleet in extent.fleets for strategy in STRATEGIES]
        ours = [pool.submit(_by_us, extent, *each) for each in jobs]
        novas = [beside.submit(_by_nova, extent, strategy) for strategy in extent.novas]
        for (fleet, strategy), each in zip(jobs, ours, strict=True):
            runs[fleet.name, OURS, strategy] = each.result()
        for found in novas:
            runs |= found.result()
    return list(_figures(runs, extent.hosts))


def _by_us(extent: Extent, fleet: Fleet, strategy: str) -> list[Run]:
    placer = Ours({**CONCERNED, **STRATEGIES[strategy]})
    return _runs(fleet, extent.hosts, extent.seeds, placer)


def _by_nova(extent: Extent, strategy: str) -> Runs:
    with a_peer("benchmarks.peer.packing") as peer:
        placer = Novas(peer, extent.novas[strategy])
        return {
            (fleet.name, NOVA, strategy): _runs(fleet, extent.hosts, extent.nova_seeds, placer)
            for fleet in extent.fleets
        }


def _runs(fleet: Fleet, hosts: int, seeds: int, placer: Placer) -> list[Run]:
    return [run(fleet, hosts, seed, placer) for seed in range(seeds)]


def _figures(runs: Runs, hosts: int) -> Iterator[Figure]:
    for (fleet, who, strategy), turns in runs.items():
        case = {"fleet": fleet, "strategy": strategy}
        facts = {"hosts": hosts, "runs": len(turns)}
        if who == NOVA:
            ours = runs[fleet, OURS, SAME[strategy]]
            same = [nova.chosen == each.chosen for nova, each in zip(turns, ours, strict=False)]
            facts["runs in which we choose the same hosts"] = sum(same)
        for what, unit in dict.fromkeys(key for each in turns for key in each.found):
            found = [each.found[what, unit] for each in turns if (what, unit) in each.found]
            yield Figure(what, who, unit, found, case, facts)


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--hosts", type=int, metavar="N", help=f"Not {WHOLE.hosts} of a fleet.")
    options.add_argument("--seeds", type=int, metavar="N", help=f"Not {WHOLE.seeds} runs of each.")
    options.add_argument(
        "--nova-seeds", type=int, metavar="N", help="Not as many runs of Nova, which takes longer."
    )
    options.add_argument(
        "--page", type=Path, metavar="DIR", help="Write packing.rst and packing.svg there as well."
    )
    program.run(options, _measured, report)


def _measured(asked: argparse.Namespace) -> list[Figure]:
    refuse_absence()
    extent = QUICK if asked.quick else WHOLE
    hosts, seeds = asked.hosts or extent.hosts, asked.seeds or extent.seeds
    novas = min(asked.nova_seeds or seeds, seeds)
    found = measured(replace(extent, hosts=hosts, seeds=seeds, nova_seeds=novas))
    if asked.page:
        replace_file(asked.page / "packing.rst", page.table(found))
        replace_file(asked.page / "packing.svg", page.chart(found))
    return found


if __name__ == "__main__":
    main()
