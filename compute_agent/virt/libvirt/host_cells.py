# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells of a libvirt host: what guests may use of their CPUs, cores and pages."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from compute_agent.cpu_sets import CpuSets, HostCpus
from compute_agent.virt.libvirt.capabilities import Cell, Cpu
from inventory.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from inventory.objects.pci_and_network import NetworkMetadata


@dataclass(frozen=True, slots=True)
class HostCells:
    """The cells of a host with nothing in use, all CPUs of each, and its default huge pages.

    cpus holds all CPUs of each cell, those that are not for guests included. default_pages_kib is
    the size of huge pages of guests that name none; None if it is unknown.
    """

    numa: NUMATopology
    cpus: Mapping[int, frozenset[int]]
    default_pages_kib: int | None = None


def remembered(
    cells: Iterable[Cell], online: Set[int], before: Iterable[Cell] = ()
) -> tuple[Cell, ...]:
    """Return cells with the cores and sockets of their CPUs, as read now or before.

    The kernel knows them of CPUs that are online, and libvirt makes them up for others: a core of
    its own, on socket 0. CPUs that were never online have a core of their own and no socket. Those
    that libvirt lists no more, as it began while they were offline, stay in their cells.
    """
    cells, before = [*cells], [*before]
    known = {cpu.id: cpu for cell in before for cpu in cell.cpus}
    listed = {cpu.id for cell in cells for cpu in cell.cpus}
    unlisted = {cell.id: [cpu for cpu in cell.cpus if cpu.id not in listed] for cell in before}
    return tuple(
        replace(
            cell,
            cpus=tuple(
                _remembered(cpu, online, known.get(cpu.id))
                for cpu in (*cell.cpus, *unlisted.get(cell.id, ()))
            ),
        )
        for cell in cells
    )


def agree(cells: Iterable[Cell], online: Set[int], before: Iterable[Cell]) -> bool:
    """Return whether CPUs that are online are where they were and share a core as they did.

    If not, what was read before may be of another machine.
    """
    known = {cpu.id: (cell.id, cpu) for cell in before for cpu in cell.cpus}
    now = ((cell.id, cpu) for cell in cells for cpu in cell.cpus if cpu.id in online)
    return all(
        home == known[cpu.id][0]
        and known[cpu.id][1].socket in (None, cpu.socket)
        and known[cpu.id][1].siblings & online <= cpu.siblings
        for home, cpu in now
        if cpu.id in known
    )


def _remembered(cpu: Cpu, online: Set[int], before: Cpu | None) -> Cpu:
    if cpu.id not in online:
        return before or Cpu(cpu.id, None, frozenset({cpu.id}))
    # Siblings that are offline now are siblings still.
    return replace(cpu, siblings=cpu.siblings | before.siblings) if before else cpu


def host_cells(
    cells: Sequence[Cell], cpus: HostCpus, sets: CpuSets, reserved: Mapping[tuple[int, int], int]
) -> NUMATopology | None:
    """Return what guests may use of cells, None without any; raises CpusNotOnline.

    reserved says how many pages guests must not have, by cell and size in KiB. Equal hosts have
    equal cells, in whatever order libvirt lists them. The memory of the cells is what libvirt read
    last, so its sum may differ from the host's.
    """
    if not cells:
        return None
    floating, pinned = sets.floating(cpus), sets.pinned(cpus)
    return NUMATopology(
        [
            _host_cell(each, floating, pinned, reserved)
            for each in sorted(cells, key=lambda cell: cell.id)
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
