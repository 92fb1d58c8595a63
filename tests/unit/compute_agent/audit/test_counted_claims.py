# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Counting claims from zero comes to what claiming and giving back one by one have led to."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compute_agent import device_spec
from compute_agent.audit import transaction
from compute_agent.audit.row_builder import Move, PollResult, Settings, build_rows
from compute_agent.audit.transaction import Batch
from compute_agent.audit.usage import LARGEST_MB
from compute_agent.virt.driver import NodeName, PciDevice, Size
from inventory import compute_nodes
from inventory.claims import existing
from inventory.claims.numa_pci_usage import NUMA, PCI, cells_taken, devices_taken
from inventory.engine import Database
from inventory.objects import node_json
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from tests.claimed import claim, release
from tests.databases import empty, migrated
from tests.fixtures.agent import UUID, a_guest, some_facts

HERE, THERE = NodeName("alpha", "alpha"), NodeName("beta", "beta")
DEVICES = [PciDevice(f"0000:0{n}:00.0", "8086", "10ed" if n % 2 else "154c") for n in range(4)]
SPECS = device_spec.parse(['{"vendor_id": "8086"}'])
CELLS = NUMATopology(
    [
        NUMACell(each, 4096, set(range(20)), set(range(40)), mempages=[NUMAPagesTopology(4, 1000)])
        for each in (0, 1)
    ]
)


@dataclass(frozen=True)
class Held:
    """A claim."""

    instance_uuid: str = UUID.format(1)
    vcpus: int = 2
    memory_mb: int = 2048
    disk_mb: int = 5000
    numa: str | None = None
    pci: str | None = None
    in_place: bool = False


def cells(cell: int, cpu: int) -> str:
    """Return cells of a guest that is pinned to one CPU of the host."""
    pinned = InstanceNUMACell(id=cell, memory=512, pcpuset={0}, cpu_pinning={0: cpu})
    return node_json.guest_topology_to_json(InstanceNUMATopology([pinned]))


def found(**changes: Any) -> PollResult:
    ordinary = {
        "name": HERE,
        "uuid": UUID.format(99),
        "service_id": 7,
        "settings": Settings("192.0.2.7", Size(1, 512, 100), device_specs=SPECS),
        "facts": some_facts(),
        "guests": [],
    }
    return PollResult(**ordinary | changes)


def figures(claims: Iterable[Held], *names: str, **changes: Any) -> list[Any]:
    row = build_rows(found(**changes), list(claims)).row
    return [row[name] for name in names]


def test_a_claim_takes_room_and_is_no_instance_yet() -> None:
    names = ("vcpus_used", "memory_mb_used", "free_ram_mb", "disk_mb_used", "free_disk_mb")
    more = ("local_gb_used", "free_disk_gb", "claims", "running_vms", "current_workload")
    assert figures([Held()], *names) == [3, 2560, 13824, 5100, 102400 - 5100]
    assert figures([Held()], *more) == [5, 95, 1, 0, 0]
    assert figures([Held()], "stats") == figures([], "stats")


@pytest.mark.parametrize(
    ("least", "free"), [(None, 97300), (200, 97300), (96, 93304), (90, 87160), (-1, -6024)]
)
def test_what_is_free_of_the_disk_is_the_smaller_of_two(least: int | None, free: int) -> None:
    facts = some_facts(disk_available_least=least)
    assert figures([Held()], "free_disk_mb", facts=facts) == [free]


def test_claims_of_any_size_can_be_stored() -> None:
    monsters = [Held(disk_mb=2**62), Held(disk_mb=2**62)]
    facts = some_facts(disk_available_least=5)
    assert figures(monsters, "disk_mb_used", "free_disk_mb", facts=facts) == [
        LARGEST_MB,
        -LARGEST_MB,
    ]


def test_a_claim_on_cells_is_none_where_the_node_has_no_cells() -> None:
    assert figures([Held(numa=cells(0, 1))], NUMA) == [None]


OLD, NEW = Size(1, 1024, 1024), Size(4, 4096, 4096)


@pytest.mark.parametrize(
    ("source", "destination", "vcpus"),
    [(THERE, HERE, 1 + 2), (HERE, THERE, 1 + 2 + 1), (HERE, HERE, 1 + 2), (None, HERE, 1 + 2)],
)
def test_a_move_to_what_is_claimed_counts_once(
    source: NodeName | None, destination: NodeName, vcpus: int
) -> None:
    moves = [Move(Held().instance_uuid, source, destination, OLD, NEW)]
    assert figures([Held()], "vcpus_used", moves=moves) == [vcpus]
    assert figures([Held(UUID.format(1).upper())], "vcpus_used", moves=moves) == [vcpus]
    # That of another instance counts besides.
    other = [Move(UUID.format(2), source, destination, OLD, NEW)]
    more = figures([], "vcpus_used", moves=other)[0] - 1
    assert figures([Held()], "vcpus_used", moves=other) == [1 + 2 + more]


def test_a_resize_in_place_holds_the_new_size_by_its_claim() -> None:
    guest = a_guest(1)
    moves = [Move(guest.uuid, HERE, HERE, guest.size, NEW)]
    held = Held(vcpus=NEW.vcpus, memory_mb=NEW.memory_mb, disk_mb=NEW.disk_mb)
    names = ("vcpus_used", "memory_mb_used", "disk_mb_used")
    with_claim = figures([held], *names, guests=[guest], moves=moves)
    assert with_claim == figures([], *names, guests=[guest], moves=moves)


FLOATING = st.builds(
    lambda cell: InstanceNUMATopology([InstanceNUMACell(id=cell, memory=256, cpuset={0, 1})]),
    st.integers(0, 1),
)


@pytest.mark.parametrize(("in_place", "vcpus"), [(False, 1 + 2), (True, 1 + 2 + 8)])
def test_an_instance_on_its_way_takes_what_is_claimed(in_place: bool, vcpus: int) -> None:
    managed = [a_guest(1, vcpus=8)]
    names = ("vcpus_used", "running_vms")
    assert figures([Held(in_place=in_place)], *names, managed=managed) == [vcpus, 1]
    # Where its guest is, that takes it besides.
    guests = [a_guest(1, vcpus=8)]
    assert figures([Held()], *names, managed=managed, guests=guests) == [1 + 2 + 8, 1]


GUESTS = st.builds(
    a_guest,
    number=st.integers(10, 15),
    vcpus=st.integers(0, 9),
    memory_mb=st.integers(0, 9999),
    root_gb=st.integers(0, 99),
    swap_mb=st.integers(0, 2000),
    pci_addresses=st.lists(st.sampled_from([each.address for each in DEVICES]), max_size=1),
    numa=st.none() | FLOATING,
)
FOUND = st.builds(
    found,
    guests=st.lists(GUESTS, max_size=3),
    facts=st.builds(
        some_facts,
        local_gb=st.integers(0, 300),
        disk_available_least=st.none() | st.integers(-50, 300),
        numa=st.sampled_from([None, CELLS]),
        pci_devices=st.sampled_from([(), tuple(DEVICES)]),
    ),
)
STEPS = st.one_of(
    st.tuples(
        st.just("claim"),
        st.integers(1, 4),
        st.integers(0, 9),
        st.integers(0, 9999),
        st.integers(0, 99999),
        st.sampled_from([None, 0, 1]),
        st.booleans(),
    ),
    st.tuples(st.just("release"), st.integers(1, 4)),
)


class Node:
    """A node in a database, on which is claimed."""

    def __init__(self, database: Database, found: PollResult) -> None:
        self.database = database
        self.found = found
        self.audit()

    def audit(self) -> Any:
        known = self.database.read(lambda each: compute_nodes.row_versions(each, ["alpha"]))
        marks = {NodeName(*place): mark for place, mark in known.items()}
        batch = Batch([self.found], marks, 0.0, timedelta(hours=1))
        return self.database.write(lambda connection: transaction.store(connection, batch))

    @property
    def row(self) -> Any:
        (row,) = self.database.read(compute_nodes.all_live)
        return row

    def happen(self, step: tuple[Any, ...]) -> None:
        if step[0] == "release":
            release(self.database, UUID.format(step[1]))
            return
        _, number, vcpus, memory_mb, disk_mb, cell, device = step
        # What the same instance holds is given back before a scheduler decides.
        release(self.database, UUID.format(number))
        row = self.row
        texts = {NUMA: row.numa_topology, PCI: row.pci_stats}
        taken = self._taken(texts, number, cell, device)
        size = {"vcpus": vcpus, "memory_mb": memory_mb, "disk_mb": disk_mb}
        documented = texts if taken else None
        claim(self.database, UUID.format(number), row, documented, **size, **taken)

    def _taken(
        self, texts: dict[str, str | None], number: int, cell: int | None, device: bool
    ) -> dict[str, str]:
        """Take cells and a device as a scheduler does, if there are any."""
        taken = {}
        host = node_json.numa_topology_from_json(texts[NUMA])
        if cell is not None and host is not None:
            taken["numa"] = cells(cell, 20 + number)
            texts[NUMA] = node_json.numa_topology_to_json(
                cells_taken(host, [Held(numa=taken["numa"])])
            )
        pools = node_json.pci_pools_from_json(texts[PCI])
        free = [each for each in pools if each.count]
        if device and free:
            one = replace(free[0], count=1, total=None)
            taken["pci"] = node_json.pci_pools_to_json([one])
            texts[PCI] = node_json.pci_pools_to_json(devices_taken(pools, [Held(pci=taken["pci"])]))
        return taken


def said(row: Any) -> dict[str, Any]:
    """Return a row with its documents as values; in which order pools stand is of no account."""
    found = dict(row)
    found[NUMA] = found[NUMA] and json.loads(found[NUMA])
    found[PCI] = sorted(map(repr, node_json.pci_pools_from_json(found[PCI])))
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database for all examples."""
    opened = migrated(Path(tmp_path_factory.mktemp("claims")))
    yield opened
    opened.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FOUND, st.lists(STEPS, max_size=6))
@example(
    found(facts=some_facts(numa=CELLS, pci_devices=tuple(DEVICES), disk_available_least=3)),
    [("claim", 1, 1, 1, 1023, 0, True), ("claim", 2, 1, 1, 2, 1, True), ("release", 1)],
)
def test_what_was_claimed_one_by_one_is_what_an_audit_counts(
    shared: Database, found: PollResult, steps: list[tuple[Any, ...]]
) -> None:
    empty(shared)
    node = Node(shared, found)
    for step in steps:
        node.happen(step)
    before = node.row
    rows, _ = shared.read(lambda connection: existing.on_nodes(connection, [before.id]))
    counted = build_rows(found, rows).row
    expected = said(before._asdict())
    assert said(counted) == {name: expected[name] for name in counted}
    # Only pools that stand in another order are news.
    node.audit()
    after = node.row
    assert said(after._asdict()) | {"generation": 0, "updated_at": 0} == expected | {
        "generation": 0,
        "updated_at": 0,
    }
    assert after.generation == before.generation + (after.pci_stats != before.pci_stats)
