# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of a guest and of a host."""

from dataclasses import dataclass, field

from scheduler.objects.network import NetworkMetadata
from scheduler.objects.presence import FieldPresence


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
        """All CPUs of the cell."""
        return self.cpuset | self.pcpuset

    @property
    def cpu_pinning_requested(self) -> bool:
        """Tell whether every CPU wants a host CPU of its own."""
        return self.cpu_policy == "dedicated"

    @property
    def has_pinned_cpus(self) -> bool:
        """Tell whether some CPUs want host CPUs of their own; memory is not shared either then."""
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
        """The host CPUs that the guest is pinned to."""
        return {cpu for cell in self.cells if cell.cpu_pinning for cpu in cell.cpu_pinning.values()}

    @property
    def cpu_pinning_requested(self) -> bool:
        """Tell whether every cell is to be pinned."""
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
        """Pages left for guests."""
        return self.total - self.used - self.reserved

    @property
    def free_kb(self) -> int:
        """Memory left in these pages, in KB."""
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
        """CPUs for floating guests that no guest is pinned to."""
        return self.cpuset - self.pinned_cpus

    @property
    def free_pcpus(self) -> set[int]:
        """CPUs that a guest may still be pinned to."""
        return self.pcpuset - self.pinned_cpus

    @property
    def avail_cpus(self) -> int:
        """How many of the floating CPUs are not pinned."""
        return len(self.free_cpus)

    @property
    def avail_pcpus(self) -> int:
        """How many CPUs are left for pinning."""
        return len(self.free_pcpus)

    @property
    def avail_memory(self) -> int:
        """Memory left without overcommit, in MB."""
        return self.memory - self.memory_usage

    @property
    def free_siblings(self) -> list[set[int]]:
        """The part of each core that is left for pinning."""
        free = self.free_pcpus
        return [core & free for core in self.siblings]

    @property
    def has_threads(self) -> bool:
        """Tell whether some core has more than one thread."""
        return any(len(core) > 1 for core in self.siblings)


@dataclass(slots=True)
class NUMATopology(FieldPresence):
    """The cells of a host."""

    cells: list[NUMACell] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def has_threads(self) -> bool:
        """Tell whether some core has more than one thread."""
        return any(cell.has_threads for cell in self.cells)
