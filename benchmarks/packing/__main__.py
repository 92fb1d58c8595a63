# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How well fleets are filled, by our weighers and by Nova's defaults.

Each fleet is filled with the same instances, one after the other and drawn at random, until one is
refused. Then instances leave at random until the load is 75 %, half of those that stay are replaced
by others, and the fleet is filled again. Times are not taken.

Load is the larger of the shares of all vCPUs and of all RAM that are in use. The largest instance
is the RAM of the largest one with 4 GB for each vCPU that would fit somewhere, the largest flavor
that of the one with the most RAM among those that are asked for.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from benchmarks import program
from benchmarks.figures import NOVA, OURS, Figure
from benchmarks.nova import a_peer, refuse_absence
from benchmarks.packing.fleets import FLEETS, Fleet
from benchmarks.packing.placers import CONCERNED, Novas, Ours, Placer, Settings
from benchmarks.packing.report import report
from benchmarks.packing.runs import Run, run

_RAM = ("filter_scheduler", "ram_weight_multiplier")
_OTHERS = {
    ("filter_scheduler", "cpu_weight_multiplier"): 0.0,
    ("filter_scheduler", "disk_weight_multiplier"): 0.0,
}
_ALIGNED = {**_OTHERS, ("alignment", "weight_multiplier"): 1.0}
STACK: Settings = {**_OTHERS, _RAM: -1.0}
STRATEGIES: dict[str, Settings] = {
    "spread": {},
    "stack": STACK,
    "alignment": {**_ALIGNED, _RAM: 0.0},
    "alignment + stack": {**_ALIGNED, _RAM: -1.0},
}
NOVAS: dict[str, Settings] = {"defaults": {}, "stack": STACK}
# Which of ours is the same as one of Nova's.
SAME = {"defaults": "spread", "stack": "stack"}
Runs = dict[tuple[str, str, str], list[Run]]


@dataclass(frozen=True, slots=True)
class Extent:
    """What is measured: which fleets, of how many hosts, how often, and how Nova is configured."""

    fleets: Sequence[Fleet]
    hosts: int
    seeds: int
    novas: Mapping[str, Settings]

    def runs(self, who: str, strategy: str, placer: Placer) -> Runs:
        """Return all runs of one of them."""
        return {
            (fleet.name, who, strategy): [
                run(fleet, self.hosts, seed, placer) for seed in range(self.seeds)
            ]
            for fleet in self.fleets
        }


WHOLE = Extent(FLEETS, 20, 8, NOVAS)
# To begin takes Nova seconds, so it does that once.
QUICK = Extent((FLEETS[0], FLEETS[-1]), 10, 2, {"defaults": {}})


def measured(extent: Extent) -> list[Figure]:
    """Return what came out. Nova works in its own processes while we work in this one."""
    with ThreadPoolExecutor(len(extent.novas)) as beside:
        novas = [beside.submit(_by_nova, extent, strategy) for strategy in extent.novas]
        runs: Runs = {}
        for strategy, settings in STRATEGIES.items():
            runs |= extent.runs(OURS, strategy, Ours({**CONCERNED, **settings}))
        for each in novas:
            runs |= each.result()
    return list(_figures(runs, extent.hosts))


def _by_nova(extent: Extent, strategy: str) -> Runs:
    with a_peer("benchmarks.peer.packing") as peer:
        return extent.runs(NOVA, strategy, Novas(peer, extent.novas[strategy]))


def _figures(runs: Runs, hosts: int) -> Iterator[Figure]:
    for (fleet, who, strategy), turns in runs.items():
        case = {"fleet": fleet, "strategy": strategy}
        facts = {"hosts": hosts, "runs": len(turns)}
        if who == NOVA:
            ours = runs[fleet, OURS, SAME[strategy]]
            same = [nova.chosen == each.chosen for nova, each in zip(turns, ours, strict=True)]
            facts["runs in which we choose the same hosts"] = sum(same)
        for what, unit in dict.fromkeys(key for each in turns for key in each.found):
            found = [each.found[what, unit] for each in turns if (what, unit) in each.found]
            yield Figure(what, who, unit, found, case, facts)


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--hosts", type=int, metavar="N", help=f"Not {WHOLE.hosts} of a fleet.")
    options.add_argument("--seeds", type=int, metavar="N", help=f"Not {WHOLE.seeds} runs of each.")
    program.run(options, _measured, report)


def _measured(asked: argparse.Namespace) -> list[Figure]:
    refuse_absence()
    extent = QUICK if asked.quick else WHOLE
    hosts, seeds = asked.hosts or extent.hosts, asked.seeds or extent.seeds
    return measured(replace(extent, hosts=hosts, seeds=seeds))


if __name__ == "__main__":
    main()
