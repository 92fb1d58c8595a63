# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A run: a fleet is filled until an instance is refused, then instances come and go."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from benchmarks.packing.fleets import Fleet
from benchmarks.packing.ledger import Ledger
from benchmarks.packing.placers import Placer

LOADS = (0.60, 0.75, 0.85)
# Between departures and arrivals as much is in use, about.
KEPT = 0.75
VCPUS, RAM = "vCPUs in use at first refusal", "RAM in use at first refusal"
# Of the resource that is used up most: vCPUs, RAM or disk.
TIGHTEST = "tightest resource in use at first refusal"
LATER = "after departures"
EMPTY, FLAVOR, INSTANCE = "hosts empty", "largest flavor placeable", "largest instance placeable"


@dataclass(slots=True)
class Run:
    """What came out of it by (what, unit), and the hosts that were chosen, one after the other.

    Nothing is known of a load that was not reached.
    """

    found: dict[tuple[str, str], float] = field(default_factory=dict)
    chosen: list[int | None] = field(default_factory=list)


class _Cloud:
    """A fleet in use."""

    def __init__(self, fleet: Fleet, hosts: int, seed: int, placer: Placer) -> None:
        self.ledger = Ledger(fleet.hosts(hosts))
        self.run = Run()
        self._fleet = fleet
        self._requests = fleet.requests(seed)
        self._chance = Random(seed)
        self._placer = placer
        placer.begin(fleet.hosts(hosts), fleet.flavors)

    def place(self) -> bool:
        """Return whether the next instance has found its host."""
        size = next(self._requests)
        host = self._placer.choose(size, self.ledger.room_for(size))
        self.run.chosen.append(host)
        if host is not None:
            self.ledger.take(host, size)
        return host is not None

    def leave(self, number: int) -> None:
        """Remove an instance."""
        self._placer.leave(*self.ledger.leave(number))

    def leave_by_chance(self) -> None:
        """Remove an instance, or none, after one has come."""
        if self._chance.random() < self._fleet.leaving:
            self.leave(self._chance.randrange(len(self.ledger.instances)))

    def note(self, when: str) -> None:
        """Write down what room there is."""
        self.run.found |= {
            (f"{EMPTY} {when}", "hosts"): self.ledger.empty,
            (f"{FLAVOR} {when}", "GB"): self.ledger.largest(self._fleet.flavors),
            (f"{INSTANCE} {when}", "GB"): self.ledger.largest_gap,
        }

    def fill(self, noticed: Callable[[], None], when: str = "") -> None:
        """Place instances until one is refused; tell after each of them."""
        while self.place():
            noticed()
            self.leave_by_chance()
        vcpus, ram, _ = self.ledger.shares
        for what, share in ((VCPUS, vcpus), (RAM, ram), (TIGHTEST, self.ledger.load)):
            self.run.found[f"{what} {when}".rstrip(), "%"] = round(100 * share, 2)


def run(fleet: Fleet, hosts: int, seed: int, placer: Placer) -> Run:
    """Return what becomes of a fleet of so many hosts, empty at first."""
    cloud = _Cloud(fleet, hosts, seed, placer)
    ahead = list(LOADS)

    def noticed() -> None:
        while ahead and cloud.ledger.load >= ahead[0]:
            cloud.note(f"at {100 * ahead.pop(0):.0f} % load")

    cloud.fill(noticed)
    if cloud.ledger.load >= KEPT:
        _come_and_go(cloud, Random(seed))
        cloud.note(LATER)
        cloud.fill(lambda: None, LATER)
    return cloud.run


def _come_and_go(cloud: _Cloud, chance: Random) -> None:
    """Let half of the instances be replaced by others; which of them leave is left to chance.

    First so many leave that there is room for others.
    """
    present = cloud.ledger.instances
    while cloud.ledger.load > KEPT:
        cloud.leave(chance.randrange(len(present)))
    for _ in range(len(present) // 2):
        cloud.leave(chance.randrange(len(present)))
        while cloud.ledger.load < KEPT and cloud.place():
            pass
