# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether and where the NUMA cells of a guest fit the cells of a host.

Source: behaviour reference 1.11. Each guest cell gets a host cell of its own. Besides cells that
fit one by one, devices must be near enough to them, and a network that is attached to certain host
cells needs one of these.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from inventory.numa.cells import Ratios, placed, shortage
from inventory.numa.search import first_way
from inventory.pci_pools import PciPools
from scheduler.objects.network import NetworkMetadata
from scheduler.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMATopology,
)
from scheduler.objects.pci import InstancePCIRequest

Cells = Sequence[NUMACell]


@dataclass(frozen=True, slots=True)
class HostRoom:
    """What a host has, as far as it has reported it."""

    topology: NUMATopology | None
    ratios: Ratios
    pools: PciPools | None = None

    @property
    def cells(self) -> Cells:
        return self.topology.cells if self.topology else ()


@dataclass(frozen=True, slots=True)
class GuestNeeds:
    """What a guest needs of a host's cells; threads says that cores must have several of them."""

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
        """Return what is equal for guests that fit the same hosts, devices left aside."""
        networks = self.networks or NetworkMetadata()
        return (
            self.threads,
            self.emulator_threads,
            frozenset(networks.physnets),
            networks.tunneled,
            *(
                (
                    cell.memory,
                    len(cell.cpuset),
                    len(cell.pcpuset),
                    cell.pagesize,
                    cell.cpu_policy,
                    cell.cpu_thread_policy,
                )
                for cell in self.cells
            ),
        )


def fits(room: HostRoom, needs: GuestNeeds) -> bool:
    """Return whether there is a place for a guest; one without cells fits without a place."""
    if _lacks_threads(room, needs):
        return False
    return not needs.cells or _chosen(room, needs, room.cells) is not None


def fitted(room: HostRoom, needs: GuestNeeds, packing: bool = False) -> InstanceNUMATopology | None:
    """Return the guest's cells as they would be on this host, None when there is no place.

    Their ids are those of the host cells; page sizes and pinned CPUs are settled. packing prefers
    the fullest host cells to the emptiest. Neither of the arguments is changed.
    """
    guest = needs.topology
    if not guest or _lacks_threads(room, needs):
        return None
    cells = _chosen(room, needs, _in_order(room, needs, packing))
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


def refusal(room: HostRoom, needs: GuestNeeds) -> str | None:
    """Return in one line, with figures, why a guest has no place here; None when it has."""
    if _lacks_threads(room, needs):
        return "needs cores with several threads, the host's have one each"
    if fits(room, needs):
        return None
    guests, cells = needs.cells, room.cells
    if len(guests) > len(cells):
        return f"needs {len(guests)} NUMA cells, the host has {len(cells) or 'reported none'}"
    for index, guest in enumerate(guests):
        lacks = [_lack(room, needs, index, cell) for cell in cells]
        if all(lacks):
            each = zip(cells, lacks, strict=True)
            found = "; ".join(f"host cell {cell.id}: {lack}" for cell, lack in each)
            return f"NUMA cell {guest.id} fits nowhere: {found}"
    way = first_way(_allowed(room, needs, cells), len(cells), lambda chosen: True)
    if way is None:
        return f"the host's {len(cells)} NUMA cells have room for some cells, but not for all"
    chosen = [cells[position] for position in way]
    return f"{_lack_together(room, needs, chosen)}, nor is there a better choice of NUMA cells"


def _chosen(room: HostRoom, needs: GuestNeeds, cells: Cells) -> Cells | None:
    """Return the host cell of each guest cell, of these in their order."""
    if len(needs.cells) > len(cells):
        return None
    # The first cells will do most of the time.
    first = cells[: len(needs.cells)]
    if not any(_lack(room, needs, index, cell) for index, cell in enumerate(first)) and (
        _lack_together(room, needs, first) is None
    ):
        return first
    allowed = _allowed(room, needs, cells)
    if not all(allowed):
        return None

    def accepts(chosen: Sequence[int]) -> bool:
        return _lack_together(room, needs, [cells[position] for position in chosen]) is None

    way = first_way(allowed, len(cells), accepts)
    return None if way is None else [cells[position] for position in way]


def _in_order(room: HostRoom, needs: GuestNeeds, packing: bool) -> Cells:
    """Return the host's cells, those first that are to be preferred; the last rule counts most."""
    if len(room.cells) == len(needs.cells):
        return room.cells
    cells = sorted(room.cells, key=lambda cell: cell.avail_memory, reverse=not packing)
    if all(guest.cpu_pinning_requested for guest in needs.cells):
        cells.sort(key=lambda cell: cell.avail_pcpus, reverse=not packing)
    else:
        cells.sort(key=lambda cell: cell.cpu_usage, reverse=packing)
    if room.pools is not None:
        pools = room.pools
        cells.sort(key=lambda cell: pools.free_on(cell.id), reverse=bool(needs.devices))
    return cells


def _reserved(needs: GuestNeeds, index: int) -> int:
    """Return how many host CPUs the emulator threads take on the host cell of a guest cell."""
    return int(index == 0 and needs.emulator_threads == "isolate")


def _lacks_threads(room: HostRoom, needs: GuestNeeds) -> bool:
    host = room.topology
    return needs.threads and host is not None and bool(host.cells) and not host.has_threads


def _lack(room: HostRoom, needs: GuestNeeds, index: int, cell: NUMACell) -> str | None:
    guest = needs.cells[index]
    return shortage(cell, guest, room.ratios, _reserved(needs, index))


def _allowed(room: HostRoom, needs: GuestNeeds, cells: Cells) -> list[int]:
    """Return for each guest cell, by its place, the bits of the host cells that it fits."""
    return [
        sum(
            1 << position
            for position, cell in enumerate(cells)
            if _lack(room, needs, index, cell) is None
        )
        for index in range(len(needs.cells))
    ]


def _lack_together(room: HostRoom, needs: GuestNeeds, chosen: Cells) -> str | None:
    """Return in words what a guest would lack on these host cells, each of which has room."""
    for network, attached in _attached(room, needs):
        if not attached.isdisjoint(cell.id for cell in chosen):
            continue
        return f"needs {network}, which is at NUMA cells {', '.join(map(str, sorted(attached)))}"
    if not needs.devices:
        return None
    if room.pools is None:
        return "needs PCI devices, the host has not reported any yet"
    return room.pools.refusal(needs.devices, chosen, room.cells)


def _attached(room: HostRoom, needs: GuestNeeds) -> Iterator[tuple[str, set[int]]]:
    """Yield the networks of a guest that certain host cells are near to, and the ids of these."""
    if needs.networks is None:
        return
    near = [(cell.id, cell.network_metadata) for cell in room.cells if cell.network_metadata]
    for name in sorted(needs.networks.physnets):
        attached = {number for number, networks in near if name in networks.physnets}
        if attached:
            yield f"network {name}", attached
    tunneled = {number for number, networks in near if networks.tunneled}
    if needs.networks.tunneled and tunneled:
        yield "tunneled networks", tunneled
