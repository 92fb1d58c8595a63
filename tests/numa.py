# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builders of NUMA cells, of hosts and of guests, ordinary in all but what a test is about."""

from typing import Any

from inventory.numa.cells import Ratios
from inventory.numa.fit import GuestRequest, HostResources
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from inventory.pci_pools import PciPools


def a_cell(number: int = 0, cpus: int = 8, **changes: Any) -> NUMACell:
    """Return a host cell of 8 CPUs, which serve pinned guests as well, and 8192 MB."""
    own = set(range(number * cpus, number * cpus + cpus))
    ordinary = {"id": number, "memory": 8192, "cpuset": own, "pcpuset": set(own)}
    return NUMACell(**ordinary | changes)


def a_cell_with_threads(number: int = 0, cores: int = 4, **changes: Any) -> NUMACell:
    """Return a host cell of 4 cores of two threads each: {0, 4}, {1, 5}, {2, 6}, {3, 7}."""
    first = number * 2 * cores
    siblings = [{first + core, first + core + cores} for core in range(cores)]
    return a_cell(number, 2 * cores, **{"siblings": siblings} | changes)


def a_topology(*cells: NUMACell) -> NUMATopology:
    """Return the topology of a host, by default of two cells."""
    return NUMATopology(list(cells or (a_cell(0), a_cell(1))))


def pages(size_kb: int, total: int, used: int = 0, reserved: int = 0) -> NUMAPagesTopology:
    """Return memory pages of a host cell."""
    return NUMAPagesTopology(size_kb, total, used, reserved)


def a_guest_cell(
    number: int = 0, cpus: int = 2, memory: int = 2048, policy: str | None = None, **changes: Any
) -> InstanceNUMACell:
    """Return a guest cell of 2 floating CPUs and 2048 MB; dedicated ones are pinned."""
    own = set(range(number * cpus, number * cpus + cpus))
    sets = {"pcpuset": own} if policy == "dedicated" else {"cpuset": own}
    ordinary = {"id": number, "memory": memory, "cpu_policy": policy}
    return InstanceNUMACell(**ordinary | sets | changes)


def a_pinned_cell(number: int = 0, cpus: int = 2, **changes: Any) -> InstanceNUMACell:
    """Return a guest cell of 2 pinned CPUs and 512 MB."""
    return a_guest_cell(number, cpus, **{"memory": 512, "policy": "dedicated"} | changes)


def a_guest(*cells: InstanceNUMACell, **changes: Any) -> InstanceNUMATopology:
    """Return the topology of a guest, by default of one cell."""
    return InstanceNUMATopology(list(cells or (a_guest_cell(),)), **changes)


def a_room(
    *cells: NUMACell, cpu: float = 4.0, ram: float = 1.0, pools: PciPools | None = None
) -> HostResources:
    """Return the room of a host that has these cells, and no devices it knows of."""
    return HostResources(a_topology(*cells), Ratios(cpu, ram), pools)


def needs(*cells: InstanceNUMACell, emulator: str | None = None, **changes: Any) -> GuestRequest:
    """Return the needs of a guest of these cells."""
    return GuestRequest(a_guest(*cells, emulator_threads_policy=emulator), **changes)
