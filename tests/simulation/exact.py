# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that hold exact parts of a host: NUMA cells, CPUs that are pinned, PCI devices."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from compute_agent.virt.driver import Guest, PciDevice
from inventory.objects import node_json
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from tests.devices import all_of, wanted

# Of each host that has cells. No device belongs to a cell.
DEVICES = tuple(PciDevice(f"0000:0a:00.{each}", "8086", "1520") for each in range(2))
DEVICE_SPEC = '{"vendor_id": "8086"}'


def asked_for(how: Mapping[str, Any], vcpus: int, memory_mb: int) -> dict[str, Any]:
    """Return the fields of a request for an instance of this size that has cells and devices."""
    number = min(how["cells"], vcpus)
    cells = []
    for each in range(number):
        cpus = set(range(vcpus * each // number, vcpus * (each + 1) // number))
        kind = {"pcpuset": cpus, "cpu_policy": "dedicated"} if how["pinned"] else {"cpuset": cpus}
        cells.append(InstanceNUMACell(each, memory_mb // number, **kind))
    fields: dict[str, Any] = {"numa_topology": InstanceNUMATopology(cells)}
    if how["devices"]:
        fields["pci_requests"] = all_of(wanted(how["devices"]))
    return fields


@dataclass(frozen=True, slots=True)
class Parts:
    """What one instance holds of the cells of a host, and how many devices."""

    numa: InstanceNUMATopology | None = None
    devices: int = 0

    @classmethod
    def of_claim(cls, row: Mapping[str, Any]) -> Self:
        """Return what the row of a claim holds."""
        return cls(_cells(row["numa"]), sum(each.count for each in _pools(row["pci"])))

    @classmethod
    def of_guest(cls, guest: Guest) -> Self:
        """Return what a guest has."""
        return cls(guest.numa, len(guest.pci_addresses))

    def given(self, uuid: str, others: Iterable[Guest]) -> dict[str, Any]:
        """Return the fields of the guest of an instance, given all guests of its host.

        As Nova's compute service does, it takes any devices that are free then.
        """
        taken = {address for each in others if each.uuid != uuid for address in each.pci_addresses}
        free = [each.address for each in DEVICES if each.address not in taken]
        return {"numa": self.numa, "pci_addresses": tuple(free[: self.devices])}


class Used:
    """What is used of a host by instances, of which each counts once, with the most it holds."""

    def __init__(self) -> None:
        self.pinned: Counter[int] = Counter()
        # CPUs that float, and memory in MB, by cells.
        self.floating: Counter[int] = Counter()
        self.memory_mb: Counter[int] = Counter()
        self.devices = 0

    @classmethod
    def of(
        cls,
        claims: Iterable[Mapping[str, Any]],
        guests: Mapping[str, Guest],
        coming: Collection[str],
    ) -> Self:
        """Return what claims and guests of a host hold.

        The claim of a guest counts besides it in a coming state only, as that of a resize.
        """
        held = {uuid: [Parts.of_guest(each)] for uuid, each in guests.items()}
        for row in claims:
            uuid = row["instance_uuid"]
            if row["state"] in coming or uuid not in guests:
                held.setdefault(uuid, []).append(Parts.of_claim(row))
        found = cls()
        for each in held.values():
            found.add(each)
        return found

    def add(self, held: Iterable[Parts]) -> None:
        """Count an instance, which may hold different parts as a guest and by claims."""
        parts = [*held]
        cells = [cell for each in parts if each.numa for cell in each.numa.cells]
        self.pinned.update({cpu for cell in cells for cpu in (cell.cpu_pinning or {}).values()})
        for number in {cell.id for cell in cells}:
            mine = [cell for cell in cells if cell.id == number]
            self.floating[number] += max(len(cell.cpuset) for cell in mine)
            self.memory_mb[number] += max(cell.memory for cell in mine)
        self.devices += max((each.devices for each in parts), default=0)

    def excess(self, cells: int, vcpus: int, memory_mb: int) -> str:
        """Return what is more than a host of this size has, "" for nothing."""
        if twice := [cpu for cpu, number in self.pinned.items() if number > 1]:
            return f"CPUs {twice} are pinned for two instances"
        if self.devices > len(DEVICES):
            return f"{self.devices} devices of {len(DEVICES)} are held"
        for cell, most in self.memory_mb.items():
            if most > memory_mb // cells or self.floating[cell] > vcpus // cells:
                return f"cell {cell} holds {self.floating[cell]} CPUs and {most} MB"
        return ""

    def differs(self, node: Mapping[str, Any]) -> str:
        """Return how the row of a node counts otherwise, "" if it does not."""
        topology = node_json.numa_topology_from_json(node["numa_topology"])
        if topology is None:
            return "has no cells any more"
        for cell in topology.cells:
            counted = cell.cpu_usage, cell.memory_usage, cell.pinned_cpus
            pinned = {*self.pinned} & cell.pcpuset
            held = self.floating[cell.id], self.memory_mb[cell.id], pinned
            if counted != held:
                return f"cell {cell.id} counts {counted}, and {held} is held"
        free = sum(each.count for each in _pools(node["pci_stats"]))
        if free != len(DEVICES) - self.devices:
            return f"{free} devices are free, and {self.devices} are held"
        return ""


@cache
def _cells(text: str | None) -> InstanceNUMATopology | None:
    return node_json.guest_topology_from_json(text) if text else None


def _pools(text: str | None) -> list[Any]:
    return node_json.pci_pools_from_json(text) if text else []
