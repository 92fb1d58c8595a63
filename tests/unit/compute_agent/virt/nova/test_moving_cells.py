# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances on the move keep their CPUs, memory and pages at both ends, as Nova has them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from compute_agent.audit.row_builder import build_rows
from compute_agent.virt.driver import NodeName
from compute_agent.virt.nova.cell import CellMirror
from inventory import stored_documents
from inventory.objects.node_json import (
    guest_topology_to_json,
    numa_topology_from_json,
    numa_topology_to_json,
)
from tests.nova_tables import NovaTables, ago
from tests.numa import a_cell, a_guest, a_pinned_cell, a_topology, pages
from tests.unit.compute_agent.virt.nova.moves import move, polled

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
HUGE = 2048
# By the CPUs that the instance has of a host.
OLD, NEW = {0, 1}, {4, 5, 6}


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaTables]:
    """Two hosts of 8 CPUs and 8 GB in pages of 2 MB."""
    cells = numa_topology_to_json(a_topology(a_cell(mempages=[pages(HUGE, 4096)])))
    with closing(NovaTables(tmp_path / "cell.sqlite")) as tables:
        for host in ("h1", "h2"):
            tables.add_host(host, numa_topology=cells)
        yield tables


@pytest.fixture
def mirror(nova: NovaTables) -> Iterator[CellMirror]:
    with closing(nova.open()) as database:
        yield CellMirror(database, 60.0)


def pinned_to(cpus: set[int]) -> str:
    """Return the cells of an instance with a CPU for each of these, and with 1 GB for each."""
    guest = a_pinned_cell(
        cpus=len(cpus),
        memory=1024 * len(cpus),
        pagesize=HUGE,
        cpu_pinning=dict(enumerate(sorted(cpus))),
    )
    return guest_topology_to_json(a_guest(guest))


def context(number: int, old: set[int] | None, new: set[int] | None) -> str:
    """Return a migration context as Nova keeps it."""
    data: dict[str, Any] = {"migration_id": number}
    for name, cpus in (("old", old), ("new", new)):
        data[f"{name}_numa_topology"] = json.loads(pinned_to(cpus)) if cpus else None
    kinds = {"name": "MigrationContext", "namespace": "nova", "version": "1.2"}
    named = {f"nova_object.{name}": value for name, value in kinds.items()}
    return json.dumps({**named, "nova_object.data": data})


def used(mirror: CellMirror, *nodes: NodeName) -> list[tuple[set[int], int, int]]:
    """Return the pinned CPUs, the memory and the pages that the rows of nodes say are used."""
    found = []
    for name in nodes:
        topology = numa_topology_from_json(build_rows(polled(mirror, name)).row["numa_topology"])
        assert topology is not None
        (cell,) = topology.cells
        found.append((cell.pinned_cpus, cell.memory_usage, cell.mempages[0].used))
    return found


def share(cpus: set[int]) -> tuple[set[int], int, int]:
    return cpus, 1024 * len(cpus), 512 * len(cpus)


@pytest.mark.parametrize(
    ("kind", "place", "states"),
    [
        ("resize", "h1", {"task_state": "resize_prep"}),
        ("resize", "h2", {"vm_state": "resized"}),
        ("migration", "h1", {"vm_state": "stopped", "task_state": "resize_migrating"}),
        ("live-migration", "h1", {"task_state": "migrating"}),
        ("evacuation", "h1", {"vm_state": "error", "task_state": "rebuilding"}),
    ],
)
def test_both_ends_are_held(
    nova: NovaTables, mirror: CellMirror, kind: str, place: str, states: dict[str, str]
) -> None:
    uuid = nova.boot(1, place, **states)
    own = pinned_to(OLD if place == "h1" else NEW)
    move(nova, uuid, kind, numa_topology=own, migration_context=context(7, OLD, NEW))
    mirror.poll(whole=True)
    assert used(mirror, H1, H2) == [share(OLD), share(NEW)]
    nova.change("migrations", {"id": 7}, status="confirmed")
    nova.change("instances", {"uuid": uuid}, vm_state="active", task_state=None)
    mirror.poll(whole=False)
    ends = {"h1": [share(OLD), share(set())], "h2": [share(set()), share(NEW)]}
    assert used(mirror, H1, H2) == ends[place]


@pytest.mark.parametrize(("new", "expected"), [(NEW, NEW), (None, set())])
def test_at_the_destination_its_cpus_are_those_of_there(
    nova: NovaTables, mirror: CellMirror, new: set[int] | None, expected: set[int]
) -> None:
    """Until the end of a resize Nova keeps those of the source with an instance that has come."""
    uuid = nova.boot(1, "h2", task_state="resize_migrated")
    both = context(7, OLD, new)
    move(nova, uuid, "resize", numa_topology=pinned_to(OLD), migration_context=both)
    mirror.poll(whole=True)
    assert used(mirror, H1, H2) == [share(OLD), share(expected)]


@pytest.mark.parametrize("own", [OLD, NEW])
def test_a_resize_in_place_holds_both(nova: NovaTables, mirror: CellMirror, own: set[int]) -> None:
    uuid = nova.boot(1, vm_state="resized")
    both = {"numa_topology": pinned_to(own), "migration_context": context(7, OLD, NEW)}
    move(nova, uuid, "resize", "h1", **both)
    mirror.poll(whole=True)
    assert used(mirror, H1) == [share(OLD | NEW)]


def test_a_context_that_is_written_later_without_a_stamp_is_read(
    nova: NovaTables, mirror: CellMirror
) -> None:
    uuid = nova.boot(1, task_state="resize_prep", updated_at=ago(500))
    move(nova, uuid, "resize", numa_topology=pinned_to(OLD))
    mirror.poll(whole=True)
    assert used(mirror, H1, H2) == [share(OLD), share(set())]
    key = {"instance_uuid": uuid}
    nova.change("instance_extra", key, migration_context=context(7, OLD, NEW), updated_at=None)
    assert mirror.poll(whole=False) >= {H1, H2}
    assert used(mirror, H1, H2) == [share(OLD), share(NEW)]
    assert mirror.poll(whole=False) == set()


def test_a_context_of_an_earlier_migration_says_nothing(
    nova: NovaTables, mirror: CellMirror
) -> None:
    uuid = nova.boot(1, task_state="resize_prep")
    earlier = context(3, NEW, NEW)
    move(nova, uuid, "resize", numa_topology=pinned_to(OLD), migration_context=earlier)
    mirror.poll(whole=True)
    assert used(mirror, H1, H2) == [share(OLD), share(set())]


def test_a_context_that_cannot_be_read_leaves_the_instance_its_cells(
    nova: NovaTables, mirror: CellMirror, caplog: pytest.LogCaptureFixture
) -> None:
    stored_documents.warn.cache_clear()
    uuid = nova.boot(1, task_state="resize_prep")
    move(nova, uuid, "resize", numa_topology=pinned_to(OLD), migration_context='{"a": 1}')
    mirror.poll(whole=True)
    assert used(mirror, H1, H2) == [share(OLD), share(set())]
    assert f"Document migration_context of instance {uuid} in Nova cannot be read" in caplog.text
