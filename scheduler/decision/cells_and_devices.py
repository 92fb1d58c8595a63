# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request needs and takes of the NUMA cells and devices of hosts.

Source: behaviour reference 1.11 and 3.6.
"""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inventory.claimed_documents import difference
from inventory.numa import fit
from inventory.numa.cells import Ratios
from inventory.numa.fit import GuestNeeds, HostRoom
from inventory.numa.usage import with_usage
from inventory.pci_pools import PciPools
from scheduler.decision.host_table import HostTable, Mask
from scheduler.objects.limits import NUMATopologyLimits
from scheduler.objects.numa import InstanceNUMATopology, NUMATopology
from scheduler.objects.pci import PciDevicePool
from scheduler.objects.request_spec import RequestSpec

# With so many different ratios about it costs less to look at the candidates one by one.
_MOST_RATIOS = 4


def room_of(hosts: HostTable, row: int) -> HostRoom:
    """Return what the host of a row has."""
    cpu, ram = (hosts.get(row, f"{each}_allocation_ratio") for each in ("cpu", "ram"))
    ratios = Ratios(math.nan if cpu is None else cpu, math.nan if ram is None else ram)
    return HostRoom(hosts.get(row, "numa_topology"), ratios, hosts.get(row, "pci_stats"))


def needs_of(spec: RequestSpec) -> GuestNeeds:
    """Return what a request needs of a host."""
    return GuestNeeds(
        spec.numa_topology,
        spec.devices,
        spec.network_metadata,
        _wants(spec, "cpu_policy", "dedicated") and _wants(spec, "cpu_thread_policy", "require"),
    )


def limit_of(hosts: HostTable, row: int, spec: RequestSpec) -> NUMATopologyLimits:
    """Return how far a request may fill the cells of a host; an unknown ratio is 0 there."""
    cpu, ram = (0.0 if math.isnan(each) else each for each in room_of(hosts, row).ratios)
    return NUMATopologyLimits(cpu, ram, spec.network_metadata)


def where_cells_fit(hosts: HostTable, needs: GuestNeeds) -> Mask | None:
    """Return for the candidates whether they have room for a guest's cells, devices left aside.

    Each distinct topology is looked at once, and not again by later requests of the same kind.
    None where the hosts over-commit in too many different ways for that.
    """
    needs = replace(needs, devices=())
    mask = np.zeros(hosts.size, np.bool_)
    alike = list(_alike(hosts, needs))
    if len(alike) > _MOST_RATIOS:
        return None
    for key, ratios, rows in alike:

        def fits(topology: NUMATopology | None, ratios: Ratios = ratios) -> bool:
            return fit.fits(HostRoom(topology, ratios), needs)

        asked = "cells fit", needs.shape(), key
        mask |= rows & hosts.derived("numa_topology", asked, fits, bool)
    return mask


class CellsAndDevices(NamedTuple):
    """The cells of a guest as they were fitted into a host, and the devices taken there.

    columns are what the host's columns become.
    """

    columns: Mapping[str, Any] = {}
    cells: InstanceNUMATopology | None = None
    devices: tuple[PciDevicePool, ...] = ()


_NOTHING = CellsAndDevices()


def taken(hosts: HostTable, row: int, spec: RequestSpec) -> CellsAndDevices:
    """Return what a request takes of the cells and devices of a host; nothing is changed here.

    Cells are taken only where host and guest have some. What does not fit, since no filter was
    asked, is not taken and leaves a warning with the table.
    """
    if not spec.numa_topology and not spec.devices:
        return _NOTHING
    room, needs = room_of(hosts, row), needs_of(spec)
    columns: dict[str, Any] = {}
    guest: InstanceNUMATopology | None = None
    devices: tuple[PciDevicePool, ...] = ()
    near: set[int] = set()
    if room.topology and needs.cells:
        guest = fit.fitted(room, needs, hosts.numa_packing)
        if guest is None:
            _warn(hosts, row, "NUMA cells", fit.refusal(room, needs))
        else:
            columns["numa_topology"] = with_usage(room.topology, guest)
            near = {cell.id for cell in guest.cells}
    if needs.devices:
        pools = _pools_left(hosts, row, needs, room, near)
        if pools is not None and room.pools is not None:
            columns["pci_stats"] = pools
            devices = tuple(difference(room.pools, pools))
    return CellsAndDevices(columns, guest, devices)


def _pools_left(
    hosts: HostTable, row: int, needs: GuestNeeds, room: HostRoom, near: Collection[int]
) -> PciPools | None:
    """Return the devices that are left when those near these cells are taken, or any without."""
    if room.pools is None:
        _warn(hosts, row, "PCI devices", "it has not reported any yet")
        return None
    cells = [cell for cell in room.cells if cell.id in near]
    left = room.pools.take(needs.devices, cells, room.cells)
    if left is None:
        _warn(hosts, row, "PCI devices", room.pools.refusal(needs.devices))
    return left


def _alike(hosts: HostTable, needs: GuestNeeds) -> Iterator[tuple[Hashable, Ratios, Mask]]:
    """Yield ratios, a key for them, and the candidates that have them; a few too many at most."""
    if all(cell.cpu_pinning_requested for cell in needs.cells):
        yield None, Ratios(math.nan, math.nan), hosts.candidates
        return
    cpu, ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
    # Bits can be compared also where the number is not known.
    cpu_bits, ram_bits = cpu.view(np.int64), ram.view(np.int64)
    left = hosts.candidates
    for _ in range(_MOST_RATIOS + 1):
        if not left.any():
            return
        row = int(left.argmax())
        key = int(cpu_bits[row]), int(ram_bits[row])
        rows = left & (cpu_bits == key[0]) & (ram_bits == key[1])
        yield key, Ratios(float(cpu[row]), float(ram[row])), rows
        left = left & ~rows


def _wants(spec: RequestSpec, name: str, value: str) -> bool:
    """Return whether the flavor or the image asks for a policy."""
    image = spec.image.properties if spec.image else None
    return spec.flavor.extra_specs.get(f"hw:{name}") == value or (
        image is not None and image.get(f"hw_{name}") == value
    )


def _warn(hosts: HostTable, row: int, what: str, lack: str | None) -> None:
    host, node = hosts.get(row, "host"), hosts.get(row, "nodename")
    hosts.warn(f"{what} of {host} ({node}) are not counted: {lack}")
