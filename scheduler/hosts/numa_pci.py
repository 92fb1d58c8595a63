# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request needs and consumes of the NUMA cells and devices of hosts.

Source: behaviour reference 1.11 and 3.6.
"""

import math
from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from inventory.claims.numa_pci_usage import devices_between
from inventory.numa import fit
from inventory.numa.cells import Ratios, with_usage
from inventory.numa.fit import GuestRequest, HostResources
from inventory.objects.numa import InstanceNUMATopology, NUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from inventory.pci_pools import PciPools
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import NUMATopologyLimits

# With more different ratios it costs less to look at the candidates one by one.
_MAX_RATIOS = 4


def room_of(hosts: HostTable, row: int) -> HostResources:
    """Return cells, ratios and devices of a row."""
    cpu, ram = (hosts.get(row, f"{each}_allocation_ratio") for each in ("cpu", "ram"))
    ratios = Ratios(math.nan if cpu is None else cpu, math.nan if ram is None else ram)
    return HostResources(hosts.get(row, "numa_topology"), ratios, hosts.get(row, "pci_stats"))


def needs_of(spec: RequestSpec) -> GuestRequest:
    """Return the cells, devices and policies that a request needs."""
    return GuestRequest(
        spec.numa_topology,
        spec.devices,
        spec.network_metadata,
        _wants(spec, "cpu_policy", "dedicated") and _wants(spec, "cpu_thread_policy", "require"),
    )


def limit_of(hosts: HostTable, row: int, spec: RequestSpec) -> NUMATopologyLimits:
    """Return how far a request may fill the cells of a host; an unknown ratio is 0 there."""
    cpu, ram = (0.0 if math.isnan(each) else each for each in room_of(hosts, row).ratios)
    return NUMATopologyLimits(cpu, ram, spec.network_metadata)


def where_cells_fit(hosts: HostTable, needs: GuestRequest) -> Mask | None:
    """Return for the candidates whether the cells of an instance fit, without its devices.

    Each distinct topology is looked at once, also over later requests of the same kind. Return None
    where the hosts have too many different ratios for that.
    """
    needs = replace(needs, devices=())
    mask = np.zeros(hosts.size, np.bool_)
    alike = list(_alike(hosts, needs))
    if len(alike) > _MAX_RATIOS:
        return None
    for key, ratios, rows in alike:

        def fits(topology: NUMATopology | None, ratios: Ratios = ratios) -> bool:
            return fit.fits(HostResources(topology, ratios), needs)

        memo_key = "cells fit", needs.shape(), key
        mask |= rows & hosts.memo("numa_topology", memo_key, fits, bool)
    return mask


def consumption(
    hosts: HostTable, row: int, spec: RequestSpec
) -> tuple[dict[str, Any], InstanceNUMATopology | None, tuple[PciDevicePool, ...]]:
    """Return new values of a host's columns, and the cells and devices that a request consumes.

    The host does not change. Cells are consumed only where both host and request have some. What
    does not fit, since the filter is not enabled, is not counted and leaves a warning.
    """
    columns: dict[str, Any] = {}
    if not spec.numa_topology and not spec.devices:
        return columns, None, ()
    room, needs = room_of(hosts, row), needs_of(spec)
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
            devices = tuple(devices_between(room.pools, pools))
    return columns, guest, devices


def _pools_left(
    hosts: HostTable, row: int, needs: GuestRequest, room: HostResources, near: Collection[int]
) -> PciPools | None:
    """Return the free devices after the request, preferably near these cells; None without room."""
    if room.pools is None:
        _warn(hosts, row, "PCI devices", "it has not reported any yet")
        return None
    cells = [cell for cell in room.cells if cell.id in near]
    left = room.pools.consume(needs.devices, cells, room.cells)
    if left is None:
        _warn(hosts, row, "PCI devices", room.pools.refusal(needs.devices))
    return left


def _alike(hosts: HostTable, needs: GuestRequest) -> Iterator[tuple[Hashable, Ratios, Mask]]:
    """Yield ratios, a key for them, and the candidates that have them, one above the maximum."""
    if all(cell.cpu_pinning_requested for cell in needs.cells):
        yield None, Ratios(math.nan, math.nan), hosts.candidates
        return
    cpu, ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
    # NaN does not equal itself, its bits do.
    cpu_bits, ram_bits = cpu.view(np.int64), ram.view(np.int64)
    left = hosts.candidates
    for _ in range(_MAX_RATIOS + 1):
        if not left.any():
            return
        row = int(left.argmax())
        key = int(cpu_bits[row]), int(ram_bits[row])
        rows = left & (cpu_bits == key[0]) & (ram_bits == key[1])
        yield key, Ratios(float(cpu[row]), float(ram[row])), rows
        left = left & ~rows


def _wants(spec: RequestSpec, name: str, value: str) -> bool:
    """Return whether the flavor or the image requests a policy."""
    image = spec.image.properties if spec.image else None
    return spec.flavor.extra_specs.get(f"hw:{name}") == value or (
        image is not None and image.get(f"hw_{name}") == value
    )


def _warn(hosts: HostTable, row: int, what: str, reason: str | None) -> None:
    host, node = hosts.get(row, "host"), hosts.get(row, "nodename")
    hosts.warn(f"{what} of {host} ({node}) are not counted: {reason}")
