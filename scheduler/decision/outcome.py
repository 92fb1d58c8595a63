# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a decision is: plain values that say what was chosen, from what, and why not the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.objects.numa import InstanceNUMATopology
from scheduler.objects.pci import PciDevicePool


@dataclass(frozen=True, slots=True)
class Step:
    """One filter, or one rule of narrowing, with the number of hosts before and after it."""

    name: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.name} {self.before}->{self.after}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that was chosen or may serve instead, as it was when it was chosen."""

    row: int
    host: str
    nodename: str
    uuid: str | None
    cell_uuid: str | None
    limits: Mapping[str, Any]
    weight: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What an instance takes of a host: disk in MB, the cells that it is fitted into, devices."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    cells: InstanceNUMATopology | None = None
    devices: tuple[PciDevicePool, ...] = ()

    @property
    def changes(self) -> dict[str, int]:
        """By how much the numbers of the host change with that."""
        return {
            "num_instances": 1,
            "num_io_ops": 1,
            "free_ram_mb": -self.memory_mb,
            "free_disk_mb": -self.disk_mb,
            "vcpus_used": self.vcpus,
        }


@dataclass(frozen=True, slots=True)
class WeighedHost:
    """The share of every weigher, multiplier included, in the total weight of a host."""

    host: str
    nodename: str
    total: float
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instance goes; an instance that is rebuilt takes nothing there."""

    instance_uuid: str | None
    chosen: Candidate
    steps: tuple[Step, ...]
    weighed: tuple[WeighedHost, ...]
    alternates: tuple[Candidate, ...] = ()
    taken: Taken | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why the request failed: the instance for which no host was left, and where they went."""

    index: int
    instance_uuid: str | None
    steps: tuple[Step, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one filter refuses one host."""

    host: str
    nodename: str
    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Lack:
    """So much of a resource a host lacks to pass a filter: of vcpus, memory_mb or disk_mb.

    Of instances and io_ops it has so many more than it may have.
    """

    resource: str
    amount: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for a request: placements for all of its instances, or the shortage."""

    placements: tuple[Placement, ...] = ()
    shortage: Shortage | None = None
    warnings: tuple[str, ...] = ()
    seed: int = 0
    hosts: int = 0
