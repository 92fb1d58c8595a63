# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long it takes at most to say whether a guest with NUMA cells and PCI devices fits a host.

Hosts in use and guests are drawn at random. Then parts of the slowest that fits, and of the slowest
that does not, are drawn again, as long as that makes them slower. Times are those of the processor.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from random import Random

from benchmarks import program
from benchmarks.figures import OURS, Figure, in_words
from inventory.numa.cells import Ratios
from inventory.numa.fit import GuestRequest, HostResources, fits
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from inventory.objects.pci_and_network import InstancePCIRequest, PciDevicePool
from inventory.pci_pools import PciPools

FIT = "fit, the slowest found"
CORES = 32
# Cells of hosts and of guests.
SIZES = ((2, 2), (8, 4), (16, 8))
DRAWN, DRAWN_QUICKLY = 400, 40
TURNS = 7
PRODUCTS = ("gpu", "nic", "nvme")
POLICIES = ("legacy", "preferred", "required", "socket")
Case = tuple[HostResources, GuestRequest]
# What is drawn is drawn from these: one for each cell, one for the order of pools, one for a guest.
Seeds = Sequence[int]


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return the time of the slowest cases of each size, of those that fit and of the others."""
    number = DRAWN_QUICKLY if asked.quick else DRAWN
    return [figure for sizes in SIZES for figure in _slowest(Random(number), *sizes, number)]


def _slowest(random: Random, cells: int, guests: int, number: int) -> Iterator[Figure]:
    slowest: dict[bool, tuple[float, Seeds]] = {}
    for turn in range(2 * number):
        seeds = [random.getrandbits(32) for _ in range(cells + 2)]
        if turn >= number:
            _, known = slowest[random.choice([*slowest])]
            seeds = [random.choices(pair, (4, 1))[0] for pair in zip(known, seeds, strict=True)]
        fitting, took = _timed(_drawn(seeds, guests))
        slowest[fitting] = max((took, seeds), slowest.get(fitting, (0.0, seeds)))
    for fitting, (_, seeds) in sorted(slowest.items()):
        turns = [_timed(_drawn(seeds, guests))[1] for _ in range(TURNS)]
        case = {"cells": cells, "cells of the guest": guests, "fits": fitting}
        yield Figure(FIT, OURS, "ms", turns, case)


def _timed(case: Case) -> tuple[bool, float]:
    """Return the faster of two times: the other one may be that of a disturbance."""
    times = []
    for _ in range(2):
        began = time.process_time()
        fitting = fits(*case)
        times.append((time.process_time() - began) * 1000)
    return fitting, min(times)


def _drawn(seeds: Seeds, guests: int) -> Case:
    *of_cells, of_order, of_guest = map(Random, seeds)
    pools = [pool for number, random in enumerate(of_cells) for pool in _pools(random, number)]
    of_order.shuffle(pools)
    cells = NUMATopology([_cell(random, number) for number, random in enumerate(of_cells)])
    return HostResources(cells, Ratios(4.0, 1.0), PciPools(pools)), _guest(of_guest, guests)


def _cell(random: Random, number: int) -> NUMACell:
    """Return a host cell of cores with two threads each, some of which are in use."""
    first = 2 * CORES * number
    cores = [{first + core, first + CORES + core} for core in range(CORES)]
    busy = random.random()
    cpus = set(range(first, first + 2 * CORES))
    pages = [
        NUMAPagesTopology(size_kb, total, random.randrange(total))
        for size_kb, total in ((4, 1 << 24), (2048, 16_384), (1 << 20, 64))
    ]
    return NUMACell(
        number, 131_072, cpus, set(cpus),
        cpu_usage=random.randrange(CORES), memory_usage=random.randrange(131_072),
        pinned_cpus={cpu for core in cores for cpu in core if random.random() < busy / 2},
        siblings=cores, mempages=pages, socket=number // 2,
    )  # fmt: skip


def _pools(random: Random, number: int) -> Iterator[PciDevicePool]:
    for product in PRODUCTS:
        node = None if random.random() < 0.05 else number
        tags: dict[str, str | None] = {"label": "a"} if random.random() < 0.3 else {}
        yield PciDevicePool(product, "8086", random.choice((0, 0, 1, 2, 4)), node, tags)


def _guest(random: Random, cells: int) -> GuestRequest:
    shapes = [_guest_cell(random, number) for number in range(random.choice((1, 2, cells)))]
    requests = [
        InstancePCIRequest(
            random.choice((1, 1, 2, cells)),
            [random.choice(({"vendor_id": "8086"}, {"product_id": random.choice(PRODUCTS)}))],
            numa_policy=random.choice(POLICIES),
        )
        for _ in range(random.randint(1, cells + 1))
    ]
    topology = InstanceNUMATopology([shapes[number % len(shapes)] for number in range(cells)])
    topology.emulator_threads_policy = random.choice((None, "isolate"))
    return GuestRequest(topology, requests)


def _guest_cell(random: Random, number: int) -> InstanceNUMACell:
    return InstanceNUMACell(
        number, random.choice((2048, 4096, 8192)),
        pcpuset=set(range(random.choice((2, 4, 8)))),
        pagesize=random.choice((None, -1, -2, 2048)),
        cpu_policy="dedicated", cpu_thread_policy=random.choice(("prefer", "require", "isolate")),
    )  # fmt: skip


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    return "\n".join(f"{each.median:7.2f} {each.unit}  {in_words(each.case)}" for each in found)


if __name__ == "__main__":
    program.run(program.parser(__doc__), measure, report)
