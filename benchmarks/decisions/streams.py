# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests one after the other, each on the hosts that the one before has left."""

from collections.abc import Iterator, Sequence
from itertools import cycle, product
from random import Random

from benchmarks import comparable
from benchmarks.comparable import FLAVOR, IMAGE, Wish
from benchmarks.decisions.sides import Nova, Numpy, Ours, Turn
from benchmarks.figures import FLOOR, NOVA, OURS, Figure
from benchmarks.nova import Peer
from scheduler.hosts.table import HostTable

HOSTS = 10_000
# A turn is the mean of so many requests; Nova has fewer turns.
ROUND = 3
ROUNDS_OF_NOVA = 2
# How many rounds there are of fresh requests, one to warm up besides.
FRESH = 3


def ordinary() -> Iterator[Wish]:
    """Yield requests without end, for one of three flavors after the other."""
    sizes = ((1, 1024, 10), (2, 2048, 20), (4, 8192, 80))
    while True:
        for vcpus, memory_mb, root_gb in sizes:
            more = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": root_gb}
            yield Wish({**FLAVOR, **more}, IMAGE)


def fresh() -> Iterator[Wish]:
    """Yield requests none of which has a flavor or an image in common with another.

    Images differ in what they need of a hypervisor. There are three zones, as clouds have few.
    """
    choices = product(("x86_64", "i686", None), ("kvm", None), ("hvm", None))
    for number, values in enumerate(choices):
        named = zip(IMAGE, values, strict=True)
        image = {name: value for name, value in named if value is not None}
        more = {"vcpus": 1 + number, "memory_mb": 1024 + 512 * number, "root_gb": 10 + number}
        zone = comparable.ZONES[number % len(comparable.ZONES)]
        yield Wish({**FLAVOR, **more}, image, zone)


def streams(turns: int, peer: Peer) -> Iterator[Figure]:
    """Yield what a request costs us and Nova in streams of either kind."""
    for name, wishes, most in (("stream", ordinary(), turns), ("fresh", fresh(), FRESH)):
        fleet = comparable.fleet(HOSTS)
        nova, ours = Nova(peer, fleet), Ours(fleet.table(), {})
        nova.set({})
        numpy = Numpy(fleet)
        mine: list[list[Turn]] = []
        its: list[list[Turn]] = []
        bare: list[list[Turn]] = []
        # The first round is to warm up.
        for number in range(min(turns, most) + 1):
            some = [next(wishes) for _ in range(ROUND)]
            mine.append([ours.answer(wish) for wish in some])
            bare.append([numpy.decide(wish) for wish in some])
            if number <= ROUNDS_OF_NOVA:
                its.append([nova.answer(wish) for wish in some])
        case = {"hosts": HOSTS, "instances": 1, name: True}
        facts = {"same_hosts": _hosts(mine[: len(its)]) == _hosts(its)}
        yield Figure("decide", OURS, "ms", _means(mine[1:]), case, facts)
        yield Figure("decide", NOVA, "ms", _means(its[1:]), case, facts)
        yield Figure("decide", FLOOR, "ms", _means(bare[1:]), case)


# (hosts, flavors, rows that others change between two decisions).
BUSY = ((1_000, 8, 4), (10_000, 1, 4), (10_000, 8, 4), (10_000, 8, 20), (100_000, 8, 4))
BUSY_IN_A_LOOK = ((1_000, 8, 4),)
# A turn of a busy stream is the mean of so many requests.
_BUSY_ROUND = 8


def busy_streams(turns: int, quick: bool) -> Iterator[Figure]:
    """Yield what a request costs us, and bare numpy, while others change hosts between two."""
    for hosts, flavors, changes in BUSY_IN_A_LOOK if quick else BUSY:
        fleet = comparable.fleet(hosts)
        table = fleet.table()
        ours, numpy = Ours(table, {}), Numpy(fleet)
        wishes, chance = cycle(_flavors(flavors)), Random(1)
        mine: list[list[Turn]] = []
        bare: list[list[Turn]] = []
        # The first round is to warm up.
        for _ in range(turns + 1):
            mine.append([])
            bare.append([])
            for wish in (next(wishes) for _ in range(_BUSY_ROUND)):
                for _ in range(changes):
                    _change(table, chance)
                mine[-1].append(ours.answer(wish))
                bare[-1].append(numpy.decide(wish))
        case = {"hosts": hosts, "instances": 1, "flavors": flavors, "foreign_changes": changes}
        yield Figure("decide", OURS, "ms", _means(mine[1:]), case)
        yield Figure("decide", FLOOR, "ms", _means(bare[1:]), case)


def _flavors(count: int) -> Iterator[Wish]:
    for number in range(count):
        more = {"vcpus": 1 + number % 4, "memory_mb": 1024 * (1 + number), "root_gb": 10 + number}
        yield Wish({**FLAVOR, **more}, IMAGE)


def _change(table: HostTable, chance: Random) -> None:
    """Let an instance come to a host or leave it, as agents and other schedulers report."""
    row, sign = chance.randrange(table.size), chance.choice((-1, 1))
    changes = {"free_ram_mb": -512, "free_disk_mb": -1024, "vcpus_used": 1, "num_instances": 1}
    for name, change in changes.items():
        table.write([row], name, [table.get(row, name) + sign * change])


def _means(rounds: Sequence[Sequence[Turn]]) -> list[float]:
    return [sum(each.ms for each in some) / len(some) for some in rounds]


def _hosts(rounds: Sequence[Sequence[Turn]]) -> list[Sequence[str]]:
    return [each.hosts for some in rounds for each in some]
