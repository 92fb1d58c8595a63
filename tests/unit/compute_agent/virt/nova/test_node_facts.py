# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of compute nodes become facts."""

from types import SimpleNamespace
from typing import Any

import pytest

from compute_agent.virt.driver import Size
from compute_agent.virt.nova import node_facts
from inventory.objects import node_json
from inventory.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from tests.nova_tables import a_node

NO = dict.fromkeys(
    ("disk_available_least", "metrics", "pci_stats", "numa_topology", "cpu_allocation_ratio")
)
RATIOS = {"ram_allocation_ratio": 1.5, "disk_allocation_ratio": 0.0}


def a_row(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**NO, **RATIOS, **a_node("h1"), **values})


def test_a_ratio_of_nothing_is_that_of_the_options() -> None:
    settings = node_facts.facts(a_row(), Size()).settings
    assert settings is not None
    assert settings.ratios == {"ram_allocation_ratio": 1.5}


def test_cells_are_as_if_nothing_used_them() -> None:
    pages = [NUMAPagesTopology(size_kb=4, total=100, used=60, reserved=10)]
    used = {"cpu_usage": 2, "memory_usage": 512, "pinned_cpus": {1}}
    cell = NUMACell(0, 1024, {0, 1}, {0, 1}, siblings=[{0, 1}], mempages=pages, **used)
    text = node_json.numa_topology_to_json(NUMATopology([cell]))
    found = node_facts.facts(a_row(numa_topology=text), Size()).numa
    assert found is not None
    (read,) = found.cells
    assert (read.cpu_usage, read.memory_usage, read.pinned_cpus) == (0, 0, set())
    assert (read.mempages[0].used, read.mempages[0].reserved) == (0, 10)


def test_free_devices_are_those_of_the_row() -> None:
    pool = PciDevicePool(product_id="1", vendor_id="2", count=3, numa_node=None, tags={})
    settings = node_facts.facts(
        a_row(pci_stats=node_json.pci_pools_to_json([pool])), Size()
    ).settings
    assert settings is not None
    assert settings.pci_pools == (pool,)


@pytest.mark.parametrize("values", [{"stats": "[1]"}, {"metrics": "{"}, {"numa_topology": "1"}])
def test_a_bad_document_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        node_facts.facts(a_row(**values), Size())
