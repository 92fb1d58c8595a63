# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of a guest and of a host."""

from dataclasses import dataclass, field

from inventory.objects.object_schema import FieldPresence
from inventory.objects.pci_and_network import NetworkMetadata


@dataclass(slots=True)
class InstanceNUMACell(FieldPresence):
    """Memory in MB; ``pagesize`` in KB, or -1 small, -2 large, -3 any.

    ``cpuset`` holds the guest CPUs that float, ``pcpuset`` those to be pinned.
    """

    id: int
    memory: int
    cpuset: set[int] = field(default_factory=set)
    pcpuset: set[int] = field(default_factory=set)
    cpuset_reserved: set[int] | None = None
    pagesize: int | None = None
    cpu_pinning: dict[int, int] | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None

    @property
    def total_cpus(self) -> set[int]:
        return self.cpuset | self.pcpuset

    @property
    def cpu_pinning_requested(self) -> bool:
        """Whether every CPU is pinned to a host CPU of its own."""
        return self.cpu_policy == "dedicated"

    @property
    def has_pinned_cpus(self) -> bool:
        """Whether some CPUs are pinned; memory is not over-committed either then."""
        return self.cpu_policy in ("dedicated", "mixed")


@dataclass(slots=True)
class InstanceNUMATopology(FieldPresence):
    """The cells of a guest; ``emulator_threads_policy`` is ``share``, ``isolate`` or None."""

    cells: list[InstanceNUMACell] = field(default_factory=list)
    id: int | None = None
    instance_uuid: str | None = None
    emulator_threads_policy: str | None = None

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def cpu_pinning(self) -> set[int]:
        """The host CPUs of the pinned CPUs."""
        return {cpu for cell in self.cells if cell.cpu_pinning for cpu in cell.cpu_pinning.values()}

    @property
    def cpu_pinning_requested(self) -> bool:
        return all(cell.cpu_pinning_requested for cell in self.cells)


@dataclass(slots=True)
class NUMAPagesTopology(FieldPresence):
    """Memory pages of one size: ``size_kb`` in KB, the rest in pages."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved

    @property
    def free_kb(self) -> int:
        return self.free * self.size_kb


@dataclass(slots=True)
class NUMACell(FieldPresence):
    """Memory in MB; ``cpuset`` serves floating guests, ``pcpuset`` pinned ones.

    ``pinned_cpus`` are the host CPUs in use by pinned guests, ``siblings`` the sets of CPUs that
    share a core.
    """

    id: int
    memory: int
    cpuset: set[int] = field(default_factory=set)
    pcpuset: set[int] = field(default_factory=set)
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: set[int] = field(default_factory=set)
    siblings: list[set[int]] = field(default_factory=list)
    mempages: list[NUMAPagesTopology] = field(default_factory=list)
    network_metadata: NetworkMetadata | None = None
    socket: int | None = None

    @property
    def free_cpus(self) -> set[int]:
        return self.cpuset - self.pinned_cpus

    @property
    def free_pcpus(self) -> set[int]:
        return self.pcpuset - self.pinned_cpus

    @property
    def avail_cpus(self) -> int:
        return len(self.free_cpus)

    @property
    def avail_pcpus(self) -> int:
        return len(self.free_pcpus)

    @property
    def avail_memory(self) -> int:
        """Free memory without over-commit, in MB."""
        return self.memory - self.memory_usage

    @property
    def free_siblings(self) -> list[set[int]]:
        """The free threads of each core."""
        free = self.free_pcpus
        return [core & free for core in self.siblings]

    @property
    def has_threads(self) -> bool:
        """Whether some core has more than one thread."""
        return any(len(core) > 1 for core in self.siblings)


@dataclass(slots=True)
class NUMATopology(FieldPresence):
    """The cells of a host."""

    cells: list[NUMACell] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def has_threads(self) -> bool:
        return any(cell.has_threads for cell in self.cells)
