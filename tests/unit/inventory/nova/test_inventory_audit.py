# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where inventories in Placement differ from the rows of compute nodes, in words."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from inventory.nova.allocation_audit import AuditedInstance, AuditedMigration, NovaRecords
from inventory.nova.inventory_audit import inventory_differences
from inventory.nova.placement import Inventory

ROW = {
    "vcpus": 64,
    "memory_mb": 65536,
    "local_gb": 1000,
    "vcpus_used": 2,
    "memory_mb_used": 512 + 1024,
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.10000002384,
}
THERE = {
    "VCPU": Inventory(64, 0, 64, 4.0),
    "MEMORY_MB": Inventory(65536, 512, 65536, 1.5),
    "DISK_GB": Inventory(1000, 0, 1000, 1.1),
}
INSTANCE = AuditedInstance("i", "n1", 2, 1024)


def differences(
    inventories: dict[str, Inventory],
    instance: AuditedInstance = INSTANCE,
    migrations: tuple[AuditedMigration, ...] = (),
    **row: Any,
) -> list[str]:
    rows = {"n1": SimpleNamespace(**{**ROW, **row})}
    nova = NovaRecords({"n1": "h1"}, [instance], migrations, rows=rows)
    return [*inventory_differences(nova, {"n1": inventories})]


def test_what_agrees_is_not_named() -> None:
    assert differences(THERE) == []


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("VCPU", {"allocation_ratio": 8.0}, "VCPU allocation_ratio 8, not 4"),
        ("VCPU", {"reserved": 4}, "VCPU reserved 4, not 0"),
        ("MEMORY_MB", {"reserved": 0}, "MEMORY_MB reserved 0, not 512"),
        ("DISK_GB", {"max_unit": 2147483647}, "DISK_GB max_unit 2147483647, not 1000"),
        ("DISK_GB", {"allocation_ratio": 1.0}, "DISK_GB allocation_ratio 1, not 1.1"),
    ],
)
def test_each_figure_is_compared(name: str, changes: dict[str, Any], text: str) -> None:
    changed = {**THERE, name: replace(THERE[name], **changes)}
    assert differences(changed) == [f"h1 ({text})"]


def test_a_ratio_that_nova_has_not_set_says_nothing() -> None:
    assert differences(THERE, cpu_allocation_ratio=0.0, ram_allocation_ratio=None) == []


def test_a_class_that_the_node_itself_does_not_have_is_not_compared() -> None:
    assert differences({"VCPU": THERE["VCPU"]}, local_gb=5) == []


def test_reserves_are_not_compared_while_their_figures_may_be_changing() -> None:
    there = {**THERE, "VCPU": replace(THERE["VCPU"], reserved=4)}
    assert differences(there, replace(INSTANCE, is_busy=True)) == []
    assert differences(there, replace(INSTANCE, memory_mb=None)) == []
    assert differences(there, migrations=(AuditedMigration("m", "i", None, "n1"),)) == []
