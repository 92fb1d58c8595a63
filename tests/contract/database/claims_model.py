# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What claims mean, in plain Python: a ledger of what is there, and sums of it.

Written without a look at how it is done in SQL, so that the one can be held against the other.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

PENDING, ALTERNATE, CONFIRMED = "pending", "alternate", "confirmed"


@dataclass(frozen=True)
class Taken:
    """What an instance takes: CPUs, MB, MB; CPUs of cells by cell; devices by product."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    floating: tuple[tuple[int, int], ...] = ()
    pinned: tuple[tuple[int, frozenset[int]], ...] = ()
    devices: tuple[tuple[str, int], ...] = ()

    @property
    def plain(self) -> bool:
        return not (self.floating or self.pinned or self.devices)

    @property
    def sizes(self) -> tuple[int, int]:
        return self.vcpus, self.memory_mb


@dataclass(frozen=True)
class Held:
    """A claim that was accepted; made is the number of its order among all."""

    uuid: str
    host: str
    state: str
    taken: Taken
    request: str
    digest: str
    answer: str | None
    group: str | None
    in_place: bool = False
    overdue: bool = False
    made: int = 0


@dataclass(frozen=True)
class Host:
    """What a host has, what it keeps for itself, and what others have of its file system."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    reserved: Taken
    strangers_mb: int
    cells: dict[int, tuple[int, int]] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)


@dataclass
class Guest:
    """A guest of a host; addresses are those of its devices."""

    taken: Taken
    addresses: tuple[str, ...] = ()


@dataclass
class Ledger:
    """All hosts with what was seen of them last, what runs there in truth, and all claims."""

    hosts: dict[str, Host]
    alive: set[str]
    running: dict[str, dict[str, Guest]]
    seen: dict[str, dict[str, Taken]]
    claims: list[Held] = field(default_factory=list)

    def of(self, uuid: str) -> list[Held]:
        return [each for each in self.claims if each.uuid == uuid]

    def on(self, host: str) -> list[Held]:
        return [each for each in self.claims if each.host == host]

    def counting(self, host: str) -> list[Held]:
        return [each for each in self.on(host) if each.state != CONFIRMED]

    def all_taken(self, host: str) -> list[Taken]:
        """Return everything that counts on a host."""
        held = [each.taken for each in self.counting(host)]
        return [self.hosts[host].reserved, *self.seen[host].values(), *held]

    def figures(self, host: str) -> dict[str, int]:
        """Return the columns of a host's row."""
        has, taken = self.hosts[host], self.all_taken(host)
        held = sum(each.taken.disk_mb for each in self.counting(host))
        disk = sum(each.disk_mb for each in taken)
        # Swap is in no file system.
        files = sum(each.disk_mb // 1024 * 1024 for each in self.seen[host].values())
        least = has.disk_mb - has.strangers_mb - files
        gb = has.disk_mb // 1024
        memory = sum(each.memory_mb for each in taken)
        return {
            "vcpus_used": sum(each.vcpus for each in taken),
            "memory_mb_used": memory,
            "free_ram_mb": has.memory_mb - memory,
            "disk_mb_used": disk,
            "local_gb_used": (disk + 1023) // 1024,
            "free_disk_gb": gb - (disk + 1023) // 1024,
            "free_disk_mb": min(has.disk_mb - (disk - held), least) - held,
            "claims": len(self.counting(host)),
        }

    def cells(self, host: str) -> dict[int, tuple[int, int, set[int], int]]:
        """Return (floating CPUs, MB, pinned CPUs, small pages) in use by cell."""
        found = {cell: (0, 0, set(), 0) for cell in self.hosts[host].cells}
        for each in self.all_taken(host):
            for cell, cpus, pinned, memory in _cells(each):
                was = found[cell]
                pages = memory * 1024 // 4
                found[cell] = (was[0] + cpus, was[1] + memory, was[2] | pinned, was[3] + pages)
        return found

    def devices(self, host: str) -> dict[str, int]:
        """Return how many devices are free by product; of a kind that is all in use 0."""
        free = Counter(self.hosts[host].devices)
        for each in self.all_taken(host):
            free.subtract(dict(each.devices))
        return dict(free)

    def members(self, group: str, uuids: list[str], but: set[str], sure: bool) -> Counter[str]:
        """Return how many members of a group are, or are to be, on each host."""
        there = {(each.uuid, each.host) for each in self.claims if each.uuid in uuids}
        if sure:
            there = {
                (each.uuid, each.host)
                for each in self.claims
                if each.uuid in uuids and each.state != ALTERNATE
            }
        there |= {
            (uuid, host) for host, seen in self.seen.items() for uuid in seen if uuid in uuids
        }
        return Counter(host for uuid, host in there if uuid not in but)

    def given_up_with(self, claims: Iterable[Held]) -> list[Held]:
        """Return what is held for the same instances since these claims, or for longer."""
        made = {(each.uuid, each.made) for each in claims}
        return [
            each
            for each in self.claims
            if each.state != CONFIRMED
            and any(each.uuid == uuid and each.made <= number for uuid, number in made)
        ]

    def audited(self, host: str) -> None:
        """Look at a host: what runs there is what is there, and claims are reconciled with that."""
        running = self.running[host]
        self.alive.add(host)
        kept = [each for each in self.claims if each.host != host]
        here, arrived = [], set()
        for each in self.counting(host):
            guest = running.get(each.uuid)
            if guest and (not each.in_place or guest.taken.sizes == each.taken.sizes):
                arrived.add(each.uuid)
                here.append(replace(each, state=CONFIRMED, overdue=False))
            elif not each.overdue:
                here.append(each)
        here += [
            each
            for each in self.on(host)
            if each.state == CONFIRMED and each.uuid in running and each.uuid not in arrived
        ]
        self.claims = kept + here
        came = [each for each in here if each.state == CONFIRMED and each.uuid in arrived]
        elsewhere = self.given_up_with(came)
        self.claims = [each for each in self.claims if each not in elsewhere]
        self.seen[host] = {uuid: guest.taken for uuid, guest in running.items()}

    def lost(self, host: str) -> None:
        """Let a host be gone, with all on it."""
        self.alive.discard(host)
        self.running[host], self.seen[host] = {}, {}
        self.claims = [each for each in self.claims if each.host != host]


def memory_of_cell(taken: Taken) -> int:
    """Return how much memory each cell of an instance has: all the same."""
    return taken.memory_mb // max(1, len(taken.floating) + len(taken.pinned))


def _cells(taken: Taken) -> list[tuple[int, int, frozenset[int], int]]:
    memory = memory_of_cell(taken)
    floating = [(cell, cpus, frozenset(), memory) for cell, cpus in taken.floating]
    return floating + [(cell, 0, cpus, memory) for cell, cpus in taken.pinned]
