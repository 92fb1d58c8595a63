# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances on the move keep their devices at both ends, each counted once.

Nova's pools lack what is claimed or allocated in its table of devices: at the source until the move
is confirmed, at the destination from its claim there on.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compute_agent.audit.row_builder import build_rows
from compute_agent.virt.driver import NodeName
from compute_agent.virt.nova.cell import CellMirror
from inventory.objects.node_json import pci_pools_from_json, pci_pools_to_json
from tests.devices import a_pool
from tests.nova_tables import NovaTables
from tests.unit.compute_agent.virt.nova.moves import move, polled

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
KIND = {"nova_object.name": "PciDeviceList", "nova_object.namespace": "nova"}


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaTables]:
    """Two hosts of four devices, one of them allocated to the instance on the first."""
    with closing(NovaTables(tmp_path / "cell.sqlite")) as tables:
        tables.add_host("h1", pci_stats=pci_pools_to_json([a_pool(3)]))
        tables.add_host("h2", pci_stats=pci_pools_to_json([a_pool(4)]))
        yield tables


@pytest.fixture
def mirror(nova: NovaTables) -> Iterator[CellMirror]:
    with closing(nova.open()) as database:
        yield CellMirror(database, 60.0)


def context(number: int, devices: int | None = 1) -> str:
    """Return a migration context with so many devices at the destination, None for an old one."""
    data: dict[str, Any] = {"migration_id": number, "new_numa_topology": None}
    if devices is not None:
        found = [{"nova_object.data": {"address": str(each)}} for each in range(devices)]
        data["new_pci_devices"] = {**KIND, "nova_object.data": {"objects": found}}
    return json.dumps({"nova_object.data": data})


def free(mirror: CellMirror, name: NodeName, claimed_for: str | None = None) -> int:
    """Return how many devices are free in the row of a node, with one claimed or none."""
    claim = SimpleNamespace(
        instance_uuid=claimed_for,
        in_place=False,
        numa=None,
        pci=pci_pools_to_json([a_pool(1)]),
        **{"vcpus": 2, "memory_mb": 4096, "disk_mb": 0},
    )
    row = build_rows(polled(mirror, name), [claim] if claimed_for else []).row
    (pool,) = pci_pools_from_json(row["pci_stats"])
    return pool.count


def counted_by_nova(nova: NovaTables, host: str, count: int) -> None:
    nova.change("compute_nodes", {"host": host}, pci_stats=pci_pools_to_json([a_pool(count)]))


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("resize", {"task_state": "resize_migrating"}),
        ("migration", {"vm_state": "stopped", "task_state": "resize_migrated"}),
        ("evacuation", {"vm_state": "error", "task_state": "rebuilding"}),
    ],
)
def test_a_device_is_counted_once_at_each_end(
    nova: NovaTables, mirror: CellMirror, kind: str, states: dict[str, str]
) -> None:
    uuid = nova.boot(1, **states)
    move(nova, uuid, kind)
    mirror.poll(whole=True)
    # Only our claim holds the device that it will get.
    assert (free(mirror, H1), free(mirror, H2, uuid)) == (3, 3)
    counted_by_nova(nova, "h2", 3)
    nova.change("instance_extra", {"instance_uuid": uuid}, migration_context=context(7))
    mirror.poll(whole=False)
    assert (free(mirror, H1), free(mirror, H2, uuid)) == (3, 3)
    # A claim for another instance is one more.
    assert free(mirror, H2, "another") == 2
    # It has come and is not confirmed.
    nova.change("instances", {"uuid": uuid}, host="h2", node="h2", vm_state="resized")
    mirror.poll(whole=False)
    assert (free(mirror, H1), free(mirror, H2)) == (3, 3)
    counted_by_nova(nova, "h1", 4)
    nova.change("migrations", {"id": 7}, status="confirmed")
    mirror.poll(whole=False)
    assert (free(mirror, H1), free(mirror, H2)) == (4, 3)


@pytest.mark.parametrize("kept", [context(3), context(7, 0), context(7, None), '{"a": 1}'])
def test_without_a_word_of_its_devices_the_claim_holds_them(
    nova: NovaTables, mirror: CellMirror, kept: str
) -> None:
    """Of a live migration Nova's context has none, wherever it claims those."""
    uuid = nova.boot(1, task_state="migrating")
    move(nova, uuid, "live-migration", migration_context=kept)
    mirror.poll(whole=True)
    assert free(mirror, H2, uuid) == 3


def test_at_its_source_a_claim_for_another_move_back_counts(
    nova: NovaTables, mirror: CellMirror
) -> None:
    uuid = nova.boot(1, "h2", task_state="resize_migrated")
    move(nova, uuid, "resize", migration_context=context(7))
    mirror.poll(whole=True)
    assert free(mirror, H1, uuid) == 2
