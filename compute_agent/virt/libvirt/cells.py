# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells of a libvirt host with nothing in use, as schedulers read them.

The networks of a cell stay empty: which physical networks are attached to it is not asked for.
"""

from collections.abc import Mapping, Set

from compute_agent.cpu_sets import CpuSets
from compute_agent.virt.libvirt.capabilities import Capabilities, Cell
from scheduler.objects.canonical_names import ARCHITECTURES, canonical
from scheduler.objects.network import NetworkMetadata
from scheduler.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology

# Where Nova binds guests to cells: only with QEMU, and whatever the hypervisor.
_WITH_QEMU = {"i686", "x86_64", "aarch64"}
_ALWAYS = {"ppc64", "ppc64le"}


def can_bind(architecture: str | None, is_qemu: bool) -> bool:
    """Tell whether guests can be bound to the cells of such a host.

    Nova's driver reports no cells elsewhere, s390x and LXC among others, so that its compute
    service would refuse guests that name some.
    """
    name = canonical(architecture or "", ARCHITECTURES)
    return name in _ALWAYS or (is_qemu and name in _WITH_QEMU)


def host_cells(
    found: Capabilities, online: Set[int], sets: CpuSets, reserved: Mapping[tuple[int, int], int]
) -> NUMATopology | None:
    """Return the cells, None for a host that has told of none; raises CpusNotOnline.

    online holds the CPUs that are; reserved how many pages guests must not have, by cell and size
    in KiB. Equal hosts have equal cells, in whatever order libvirt tells of them. What the cells
    hold in all is not what the host has: they are as large as when libvirt last looked.
    """
    if not found.cells:
        return None
    floating, pinned = sets.floating(online), sets.pinned(online)
    return NUMATopology(
        [
            _host_cell(each, floating, pinned, reserved)
            for each in sorted(found.cells, key=lambda cell: cell.id)
        ]
    )


def _host_cell(
    cell: Cell, floating: Set[int], pinned: Set[int], reserved: Mapping[tuple[int, int], int]
) -> NUMACell:
    cpus = {cpu.id for cpu in cell.cpus}
    return NUMACell(
        id=cell.id,
        memory=cell.memory_mb,
        cpuset=cpus & floating,
        pcpuset=cpus & pinned,
        siblings=_cores(cell, cpus & (floating | pinned)),
        mempages=[
            NUMAPagesTopology(size, count, reserved=reserved.get((cell.id, size), 0))
            for size, count in sorted(cell.pages)
        ],
        network_metadata=NetworkMetadata(),
        socket=_socket(cell),
    )


def _cores(cell: Cell, usable: Set[int]) -> list[set[int]]:
    """Return what guests may use of each core, each core once."""
    cores = {cpu.siblings & usable for cpu in cell.cpus}
    return [set(core) for core in sorted(cores, key=sorted) if core]


def _socket(cell: Cell) -> int | None:
    """Return the socket of a cell, None for one that is spread over several."""
    sockets = {cpu.socket for cpu in cell.cpus if cpu.socket is not None}
    return sockets.pop() if len(sockets) == 1 else None
