# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The model notices cells, CPUs and devices of a host that are given twice."""

import json

from compute_agent.virt.driver import Guest
from inventory.objects import node_json
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology, NUMACell, NUMATopology
from tests.simulation.exact import DEVICES, Parts, Used

COMING = ("pending",)
# A host with two cells of two CPUs and 2048 MB each.
HOST = 2, 4, 4096


def cells(cpu: int, memory_mb: int = 512) -> InstanceNUMATopology:
    """Return a guest with one CPU pinned, and one that floats, on the first cell."""
    cell = InstanceNUMACell(0, memory_mb, cpuset={1}, pcpuset={0}, cpu_pinning={0: cpu})
    return InstanceNUMATopology([cell])


def guest(name: str, cpu: int, memory_mb: int = 512, devices: int = 0) -> Guest:
    """Return a guest with these parts of its host."""
    addresses = tuple(each.address for each in DEVICES[:devices])
    return Guest(name, name, 2, memory_mb, numa=cells(cpu, memory_mb), pci_addresses=addresses)


def test_what_fits_is_no_excess_and_counts_once() -> None:
    claim = {"state": "pending", "instance_uuid": "a", "pci": None}
    claim["numa"] = node_json.guest_topology_to_json(cells(0))
    used = Used.of([claim], {"a": guest("a", 0), "b": guest("b", 1, devices=2)}, COMING)
    assert used.excess(*HOST) == ""


def test_a_part_that_is_given_twice_is_told() -> None:
    same_cpu = Used.of([], {"a": guest("a", 1), "b": guest("b", 1)}, COMING)
    assert "CPUs [1] are pinned" in same_cpu.excess(*HOST)
    memory = Used.of([], {"a": guest("a", 0, 1500), "b": guest("b", 1, 1500)}, COMING)
    assert "cell 0 holds" in memory.excess(*HOST)
    devices = Used.of([], {"a": guest("a", 0, devices=2), "b": guest("b", 1, devices=1)}, COMING)
    assert "3 devices of 2" in devices.excess(*HOST)


def test_a_row_that_counts_otherwise_is_told() -> None:
    used = Used.of([], {"a": guest("a", 1)}, COMING)
    cell = NUMACell(0, 2048, {0, 1}, {0, 1}, cpu_usage=1, memory_usage=512, pinned_cpus={1})
    pools = json.dumps([{"vendor_id": "8086", "product_id": "1520", "count": 2}])
    row = {"numa_topology": node_json.numa_topology_to_json(NUMATopology([cell]))}
    assert "0 devices are free" in used.differs(row | {"pci_stats": None})
    cell.pinned_cpus = {0}
    row = {"numa_topology": node_json.numa_topology_to_json(NUMATopology([cell]))}
    assert "cell 0 counts" in used.differs(row | {"pci_stats": pools})


def test_a_guest_gets_devices_that_are_free() -> None:
    others = [guest("b", 1, devices=1)]
    assert Parts(devices=1).given("a", others)["pci_addresses"] == (DEVICES[1].address,)
