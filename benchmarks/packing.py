# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How full fleets get under several weighers before the first instance is refused.

Every run begins with empty hosts that are all alike and decides for one instance after the other,
of a flavor drawn at random, with the real pipeline. No instance ever leaves.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher
from scheduler.weighers.alignment import AlignmentWeigher
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.ram import RAMWeigher

VCPUS, RAM_GB = 64, 256
FILTERS = (RamFilter(), CoreFilter(), DiskFilter())
STRATEGIES: dict[str, Sequence[BaseHostWeigher]] = {
    "spread": (RAMWeigher(), CPUWeigher(), DiskWeigher()),
    "stack by RAM": (RAMWeigher(multiplier=-1.0),),
    "alignment": (AlignmentWeigher(multiplier=1.0),),
    "alignment + stack": (AlignmentWeigher(multiplier=1.0), RAMWeigher(multiplier=-1.0)),
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """A kind of fleet: its flavors as (vCPUs, GB of memory), and the local disk of each host in GB.

    With local disk every instance takes 20 GB of it, otherwise none.
    """

    name: str
    flavors: Sequence[tuple[int, int]]
    disk_gb: int = 0

    def hosts(self, size: int) -> HostTable:
        """Return that many empty hosts."""
        hosts = HostTable()
        for number in range(size):
            row = hosts.add(f"h{number}", f"h{number}")
            for name, value in (
                ("vcpus_total", VCPUS),
                ("total_usable_ram_mb", RAM_GB * 1024),
                ("free_ram_mb", RAM_GB * 1024),
                ("total_usable_disk_gb", self.disk_gb),
                ("free_disk_mb", self.disk_gb * 1024),
                ("cpu_allocation_ratio", 1.0),
                ("ram_allocation_ratio", 1.0),
                ("disk_allocation_ratio", 1.0),
            ):
                hosts.set(row, name, value)
        return hosts

    def requests(self, seed: int) -> Iterator[Request]:
        """Yield requests for one instance each, without end; the same seed gives the same ones."""
        chance = Random(seed)
        root_gb = 20 if self.disk_gb else 0
        while True:
            vcpus, ram_gb = chance.choice(self.flavors)
            yield Request(RequestSpec(Flavor(vcpus, ram_gb * 1024, root_gb)), [None])


# As much memory for each vCPU as the hosts have is 4 GB.
_EITHER_WAY = ((16, 16), (8, 8), (4, 4), (4, 64), (2, 32), (1, 16))
FLEETS = (
    Fleet("CPU and RAM bind", _EITHER_WAY),
    Fleet("RAM alone binds", ((1, 4), (1, 8), (2, 16), (4, 32), (8, 64))),
    Fleet("CPU and RAM bind, disk is ample", _EITHER_WAY, disk_gb=8000),
)


@dataclass(frozen=True, slots=True)
class Packed:
    """Shares of all vCPUs and memory in use when the first instance was refused.

    still_empty is the share of hosts without an instance at half load, which is when half of the
    vCPUs or of the memory is in use.
    """

    vcpus: float
    ram: float
    still_empty: float


def filled(fleet: Fleet, weighers: Sequence[BaseHostWeigher], size: int, seed: int) -> Packed:
    """Place instances on a fleet until one is refused."""
    hosts = fleet.hosts(size)
    plan = Plan(filters=FILTERS, weighers=weighers)
    requests, still_empty = fleet.requests(seed), None
    while True:
        placed = decide(hosts, next(requests), plan).placements
        vcpus = int(hosts.vcpus_used.sum()) / (VCPUS * size)
        ram = 1 - int(hosts.free_ram_mb.sum()) / (RAM_GB * 1024 * size)
        if still_empty is None and (max(vcpus, ram) >= 0.5 or not placed):
            still_empty = np.count_nonzero(hosts.num_instances == 0) / size
        if not placed:
            return Packed(vcpus, ram, still_empty or 0.0)


def measured(size: int, seeds: Iterable[int]) -> Iterator[tuple[str, str, list[Packed]]]:
    """Yield fleet, strategy and what came out for each seed."""
    seeds = list(seeds)
    for fleet in FLEETS:
        for name, weighers in STRATEGIES.items():
            yield fleet.name, name, [filled(fleet, weighers, size, seed) for seed in seeds]


def line(fleet: str, strategy: str, runs: Sequence[Packed]) -> str:
    """Return a line of the table: per cents, the median and in brackets the extremes."""
    columns = (
        [each.vcpus for each in runs],
        [each.ram for each in runs],
        [each.still_empty for each in runs],
    )
    return f"{fleet:32} {strategy:18}" + "".join(
        f" {100 * median(each):5.1f} ({100 * min(each):4.1f} to {100 * max(each):4.1f})"
        for each in columns
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100, metavar="N")
    parser.add_argument("--seeds", type=int, default=12, metavar="N")
    asked = parser.parse_args()
    print(f"{asked.hosts} hosts of {VCPUS} vCPUs and {RAM_GB} GB, {asked.seeds} runs of each, %")
    titles = ("vCPUs in use", "memory in use", "empty at half load")
    print(f"{'fleet':32} {'weighers':18}" + "".join(f" {title:20}" for title in titles).rstrip())
    for each in measured(asked.hosts, range(asked.seeds)):
        print(line(*each), flush=True)


if __name__ == "__main__":
    main()
