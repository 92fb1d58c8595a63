# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of a compute node that hold objects."""

import json
from pathlib import Path

import pytest

from inventory.objects.field_types import Malformed
from inventory.objects.node_json import (
    GUEST_CELL,
    numa_topology_from_json,
    numa_topology_to_json,
    pci_pools_from_json,
    pci_pools_to_json,
)
from inventory.objects.numa import NUMATopology
from inventory.objects.pci_and_network import NetworkMetadata, PciDevicePool

WIRE = Path(__file__).parents[3] / "fixtures" / "wire"
SAMPLES = WIRE.parent / "libvirt"


def column(name):
    return json.dumps(json.loads((WIRE / f"{name}.json").read_text())["primitive"])


def test_a_host_topology_of_today():
    first, second = numa_topology_from_json(column("obj_host_numa_topology")).cells
    assert (first.id, first.memory, first.socket) == (0, 4096, 0)
    assert (first.cpuset, first.pcpuset) == ({0, 1}, {2, 3})
    assert first.siblings == [{0, 1}, {2, 3}]
    assert [(pages.size_kb, pages.free) for pages in first.mempages] == [(4, 1048576), (2048, 512)]
    assert second.network_metadata == NetworkMetadata({"physnet1"}, tunneled=False)


def test_in_newton_one_set_of_cpus_served_both_kinds_of_guests():
    for cell in numa_topology_from_json(column("newton_obj_host_numa_topology")).cells:
        assert cell.pcpuset == cell.cpuset
        assert len(cell.cpuset) == 4


def test_a_host_topology_survives_the_column():
    topology = numa_topology_from_json(column("obj_host_numa_topology"))
    assert numa_topology_from_json(numa_topology_to_json(topology)) == topology
    assert numa_topology_to_json(NUMATopology()).startswith('{"nova_object.name": "NUMATopology"')


def test_pci_pools_survive_the_column():
    pools = [PciDevicePool("154d", "8086", 4, numa_node=1, tags={"physical_network": None})]
    assert pci_pools_from_json(pci_pools_to_json(pools)) == pools


def test_pools_from_before_they_were_objects_have_their_tags_among_the_fields():
    text = """[{"count": 4, "vendor_id": "8086", "product_id": "10ed", "dev_type": "type-VF"},
               {"count": 1, "vendor_id": "8086", "product_id": "10ed", "numa_node": 1,
                "physical_network": null, "tags": {"trusted": "true"}}]"""
    assert pci_pools_from_json(text) == [
        PciDevicePool("10ed", "8086", 4, tags={"dev_type": "type-VF"}),
        PciDevicePool(
            "10ed", "8086", 1, numa_node=1, tags={"physical_network": None, "trusted": "true"}
        ),
    ]


def test_pools_of_today():
    samples = json.loads((SAMPLES / "columns-nova34.json").read_text())
    tags = {"dev_type": "type-VF", "physical_network": "physnet1", "parent_ifname": "ens1f0"}
    assert pci_pools_from_json(json.dumps(samples["pci_stats_one_pool"])) == [
        PciDevicePool("10ed", "8086", 4, numa_node=0, tags=tags)
    ]


@pytest.mark.parametrize(
    "text", ["{", "7", "[7]", '[{"count": 1}]', '[{"tags": 7}]', '{"nova_object.name": "X"}']
)
def test_nonsense_for_pools_is_refused(text):
    with pytest.raises(Malformed):
        pci_pools_from_json(text)


@pytest.mark.parametrize("empty", [None, "", "null"])
def test_an_empty_column_means_nothing_reported(empty):
    assert numa_topology_from_json(empty) is None
    assert pci_pools_from_json(empty) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": [{"id": 0}]}', "[" * 200_000])
def test_nonsense_is_refused(text):
    with pytest.raises(Malformed):
        numa_topology_from_json(text)


@pytest.mark.parametrize(
    ("pinning", "policy", "pinned"),
    [({}, "dedicated", {0, 1}), (None, None, set()), ({"0": 4, "1": 5}, None, set())],
)
def test_a_cell_of_kilo_asks_for_pinned_cpus_by_an_empty_pinning(pinning, policy, pinned):
    found = GUEST_CELL.read({"id": 0, "memory": 1024, "cpuset": [0, 1], "cpu_pinning_raw": pinning})
    assert (found.cpu_policy, found.pcpuset) == (policy, pinned)
