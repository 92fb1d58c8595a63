# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether and where the NUMA cells of a guest fit the cells of a host.

Source: behaviour reference 1.11. Each guest cell gets a host cell of its own. Devices must be near
enough to the cells, and a network that is attached to certain host cells needs one of them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from inventory.errors import counted
from inventory.numa.cells import Ratios, placed, shortage
from inventory.numa.pinning import FreeCpus
from inventory.numa.search import Which, first_way
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology, NUMACell, NUMATopology
from inventory.objects.pci_and_network import InstancePCIRequest, NetworkMetadata
from inventory.pci_pools import PciPools

Cells = Sequence[NUMACell]


@dataclass(frozen=True, slots=True)
class HostResources:
    """The resources of a host as far as it has reported them."""

    topology: NUMATopology | None
    ratios: Ratios
    pools: PciPools | None = None

    @property
    def cells(self) -> Cells:
        return self.topology.cells if self.topology else ()


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """What a guest requires of a host; with threads, cores with several threads."""

    topology: InstanceNUMATopology | None
    devices: Sequence[InstancePCIRequest] = ()
    networks: NetworkMetadata | None = None
    threads: bool = False

    @property
    def cells(self) -> Sequence[InstanceNUMACell]:
        return self.topology.cells if self.topology else ()

    @property
    def emulator_threads(self) -> str | None:
        return self.topology.emulator_threads_policy if self.topology else None

    def shape(self) -> Hashable:
        """Return a key that is equal for guests that fit the same hosts, apart from devices."""
        networks = self.networks or NetworkMetadata()
        return (
            self.threads,
            self.emulator_threads,
            frozenset(networks.physnets),
            networks.tunneled,
            *map(_shape, self.cells),
        )


def _shape(guest: InstanceNUMACell) -> Hashable:
    """Return a key that is equal for guest cells that fit the same host cells."""
    return (
        guest.memory,
        len(guest.cpuset),
        len(guest.pcpuset),
        guest.pagesize,
        guest.cpu_policy,
        guest.cpu_thread_policy,
    )


def fits(host: HostResources, needs: GuestRequest) -> bool:
    """Return whether a guest fits; one without cells always does."""
    if _lacks_threads(host, needs):
        return False
    return not needs.cells or _chosen(host, needs) is not None


def fitted(
    host: HostResources, needs: GuestRequest, packing: bool = False
) -> InstanceNUMATopology | None:
    """Return the guest's cells with host cells, page sizes and pinned CPUs, None if none fit.

    packing prefers the fullest host cells to the emptiest.
    """
    guest = needs.topology
    if not guest or _lacks_threads(host, needs):
        return None
    cells = _chosen(host, needs, packing)
    if cells is None:
        return None
    return InstanceNUMATopology(
        cells=[
            placed(cell, each, _reserved(needs, index))
            for index, (cell, each) in enumerate(zip(cells, guest.cells, strict=True))
        ],
        id=guest.id,
        instance_uuid=guest.instance_uuid,
        emulator_threads_policy=guest.emulator_threads_policy,
    )


def refusal(host: HostResources, needs: GuestRequest) -> str | None:
    """Return in one line, with figures, why a guest does not fit, None if it does."""
    if _lacks_threads(host, needs):
        return "needs cores with several threads, but each core of the host has only one"
    if fits(host, needs):
        return None
    guests, cells = needs.cells, host.cells
    if len(guests) > len(cells):
        needs_cells = counted(len(guests), "NUMA cell")
        return f"needs {needs_cells}, the host has {len(cells) or 'reported none'}"
    for index, guest in enumerate(guests):
        lacks = [_lack(host, needs, index, FreeCpus(cell)) for cell in cells]
        if all(lacks):
            each = zip(cells, lacks, strict=True)
            found = "; ".join(f"host cell {cell.id}: {lack}" for cell, lack in each)
            return f"NUMA cell {guest.id} fits nowhere: {found}"
    allowed = _allowed(host, needs, [FreeCpus(cell) for cell in cells])
    way = first_way(allowed, [None] * len(cells), lambda inside: ())
    if way is None:
        return f"the host's {len(cells)} NUMA cells have room for some cells, but not for all"
    lack = _lack_together(host, needs, [cells[position] for position in way])
    if lack is None:
        return (
            f"finds no place in any of the tried combinations of the host's {len(cells)} NUMA cells"
        )
    return f"{lack}, nor is there a better choice of NUMA cells"


def _chosen(host: HostResources, needs: GuestRequest, packing: bool = False) -> Cells | None:
    """Return the host cell of each guest cell, the preferred ones of those that will do."""
    if len(needs.cells) > len(host.cells):
        return None
    cells = _in_order(host, needs, packing)
    # Most of the time the first cells fit.
    first = cells[: len(needs.cells)]
    free = [FreeCpus(cell) for cell in cells]
    if not any(_lack(host, needs, index, free[index]) for index in range(len(first))) and (
        _lack_together(host, needs, first) is None
    ):
        return first
    allowed = _allowed(host, needs, free)
    if not all(allowed):
        return None

    def conditions(inside: Mapping[int, Which]) -> Iterator[Which | bool]:
        return _conditions(host, needs, {cells[each].id: which for each, which in inside.items()})

    way = first_way(allowed, _kinds(host, needs, cells), conditions)
    return None if way is None else [cells[position] for position in way]


def _conditions(
    host: HostResources, needs: GuestRequest, chosen: Mapping[int, Which]
) -> Iterator[Which | bool]:
    """Yield which combinations of cells are near the networks and devices of the guest.

    chosen has for each cell which combinations it is in.
    """
    for _, attached in _attached(host, needs):
        yield reduce(or_, (chosen[each] for each in attached if each in chosen), False)
    if needs.devices:
        pools = host.pools
        yield pools is not None and pools.which_support(needs.devices, chosen, host.cells)


def _kinds(host: HostResources, needs: GuestRequest, cells: Cells) -> list[Hashable]:
    """Return a key for each cell, equal where it makes no difference to _conditions()."""
    attached = [ids for _, ids in _attached(host, needs)]
    devices = host.pools.cells_with(needs.devices) if host.pools is not None else ()
    sockets = any(request.numa_policy == "socket" for request in needs.devices)
    return [
        (
            cell.id if cell.id in devices else None,
            cell.socket if sockets else None,
            *(cell.id in ids for ids in attached),
        )
        for cell in cells
    ]


def _in_order(host: HostResources, needs: GuestRequest, packing: bool) -> Cells:
    """Return the host's cells in the order of preference; the last sort counts most."""
    if len(host.cells) == len(needs.cells):
        return host.cells
    cells = sorted(host.cells, key=lambda cell: cell.avail_memory, reverse=not packing)
    if all(guest.has_pinned_cpus for guest in needs.cells):
        cells.sort(key=lambda cell: cell.avail_pcpus, reverse=not packing)
    else:
        cells.sort(key=lambda cell: cell.cpu_usage, reverse=packing)
    if host.pools is not None:
        pools = host.pools
        cells.sort(key=lambda cell: pools.free_on(cell.id), reverse=bool(needs.devices))
    return cells


def _reserved(needs: GuestRequest, index: int) -> int:
    """Return the number of host CPUs for emulator threads on the host cell of a guest cell."""
    return int(index == 0 and needs.emulator_threads == "isolate")


def _lacks_threads(host: HostResources, needs: GuestRequest) -> bool:
    topology = host.topology
    return needs.threads and topology is not None and len(topology) > 0 and not topology.has_threads


def _lack(host: HostResources, needs: GuestRequest, index: int, free: FreeCpus) -> str | None:
    guest = needs.cells[index]
    return shortage(free, guest, host.ratios, _reserved(needs, index))


def _allowed(host: HostResources, needs: GuestRequest, free: Sequence[FreeCpus]) -> list[int]:
    """Return for each guest cell the bits of the host cells that it fits."""
    shapes = [(_shape(guest), _reserved(needs, n)) for n, guest in enumerate(needs.cells)]
    first = {shape: shapes.index(shape) for shape in shapes}
    bits = {
        shape: sum(
            1 << position
            for position, cpus in enumerate(free)
            if _lack(host, needs, index, cpus) is None
        )
        for shape, index in first.items()
    }
    return [bits[shape] for shape in shapes]


def _lack_together(host: HostResources, needs: GuestRequest, chosen: Cells) -> str | None:
    """Return in words what a guest lacks on these host cells, each of which fits alone."""
    for network, attached in _attached(host, needs):
        if not attached.isdisjoint(cell.id for cell in chosen):
            continue
        return f"needs {network}, which is at NUMA cells {', '.join(map(str, sorted(attached)))}"
    if not needs.devices:
        return None
    if host.pools is None:
        return "needs PCI devices, the host has not reported any yet"
    return host.pools.refusal(needs.devices, chosen, host.cells)


def _attached(host: HostResources, needs: GuestRequest) -> Iterator[tuple[str, set[int]]]:
    """Yield the networks of a guest that are attached to certain host cells, with their ids."""
    if needs.networks is None:
        return
    near = [(cell.id, cell.network_metadata) for cell in host.cells if cell.network_metadata]
    for name in sorted(needs.networks.physnets):
        attached = {number for number, networks in near if name in networks.physnets}
        if attached:
            yield f"network {name}", attached
    tunneled = {number for number, networks in near if networks.tunneled}
    if needs.networks.tunneled and tunneled:
        yield "tunneled networks", tunneled
