# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Fleets that are filled: what their hosts have, and what is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple


class Size(NamedTuple):
    """What a host has, or an instance takes."""

    vcpus: int
    ram_gb: int
    disk_gb: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Generations of hosts that take turns, and how often each flavor is asked for.

    leaving is how many instances leave for each that comes, while the fleet is filled.
    """

    name: str
    generations: Sequence[Size]
    flavors: Mapping[Size, float]
    leaving: float = 0.0

    def hosts(self, count: int) -> list[Size]:
        """Return that many empty hosts."""
        return [self.generations[number % len(self.generations)] for number in range(count)]

    def requests(self, seed: int) -> Iterator[Size]:
        """Yield flavors without end; the same seed gives the same ones."""
        chance = Random(seed)
        flavors, weights = list(self.flavors), list(self.flavors.values())
        while True:
            yield chance.choices(flavors, weights)[0]


# 4 GB for each vCPU; instances have no local disk.
ALIKE = (Size(64, 256),)
# Made up, as are the shares of the first two mixes.
GENERATIONS = (
    Size(32, 128, 1_000),
    Size(32, 128, 1_000),
    Size(64, 256, 2_000),
    Size(64, 256, 2_000),
    Size(128, 768, 4_000),
)
# Half of them have 1 GB for each vCPU, half of them 16.
EITHER = dict.fromkeys([(16, 16), (8, 8), (4, 4), (4, 64), (2, 32), (1, 16)], 1.0)
MUCH_RAM = dict.fromkeys([(1, 4), (1, 8), (2, 16), (4, 32), (8, 64)], 1.0)
# Much disk goes with few vCPUs, little with many, so that any of the three may run out.
ANY = {
    Size(4, 8, 160): 0.25,
    Size(2, 16, 20): 0.25,
    Size(8, 16, 40): 0.2,
    Size(1, 4, 10): 0.2,
    Size(8, 64, 80): 0.1,
}
# Shares of vCPUs and of RAM among the instances of OVHcloud (OpenStack) in 2023, as published with
# CloudFactory (github.com/jacquetpi/cloudfactory, scenario-vm-distribution-ovhcloud2023.yml). Which
# RAM goes with which vCPUs is deduced; 5 % are left over.
PUBLIC = {
    (1, 2): 0.10,
    (2, 4): 0.19,
    (2, 7): 0.25,
    (4, 8): 0.13,
    (4, 15): 0.20,
    (8, 30): 0.05,
    (16, 60): 0.03,
}


def _flavors(mix: Mapping[tuple[int, int], float], gb_per_vcpu: int = 0) -> dict[Size, float]:
    """Return a mix with so much local disk for each vCPU."""
    return {Size(vcpus, ram, gb_per_vcpu * vcpus): share for (vcpus, ram), share in mix.items()}


FLEETS = (
    Fleet("alike, CPU and RAM bind", ALIKE, _flavors(EITHER)),
    Fleet("alike, RAM binds", ALIKE, _flavors(MUCH_RAM)),
    Fleet("alike, public cloud", ALIKE, _flavors(PUBLIC)),
    Fleet("alike, CPU and RAM bind, disk ample", (Size(64, 256, 8_000),), _flavors(EITHER, 5)),
    Fleet("mixed, CPU and RAM bind", GENERATIONS, _flavors(EITHER, 20)),
    Fleet("mixed, public cloud", GENERATIONS, _flavors(PUBLIC, 20)),
    Fleet("with departures, CPU and RAM bind", ALIKE, _flavors(EITHER), leaving=0.6),
    Fleet("with departures, CPU, RAM and disk bind", (Size(64, 256, 1_280),), ANY, leaving=0.6),
    Fleet("with departures, mixed, public cloud", GENERATIONS, _flavors(PUBLIC, 20), leaving=0.6),
)
