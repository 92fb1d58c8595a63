# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An instance that is resized on its own node holds the cells and devices of both flavors."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest, PciDevice
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.claims.numa_pci_usage import NUMA, PCI, cells_taken, devices_taken
from inventory.engine import Database
from inventory.objects import node_json
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.tables import allocations
from tests.claimed import age_claims, claim, claim_and_age, let_pass
from tests.databases import a_uuid
from tests.fixtures import agent
from tests.fixtures.agent import a_guest
from tests.records import change_migration, manage, migrate

NODE = "alpha"
UUID = a_uuid("resized")
# What the scheduler has chosen, and what Nova's compute service has chosen for itself.
CLAIMED_OLD, OLD, CLAIMED_NEW, NEW = {0, 1}, {2, 3}, {4, 5, 6}, {5, 6, 7}
DEVICES = tuple(PciDevice(f"0000:0{n}:00.0", "8086", "154c") for n in range(4))


class OneNode(FakeDriver):
    """A host of one node with devices."""

    def facts(self, name: Any) -> Any:
        return replace(super().facts(name), pci_devices=DEVICES)


def pinned_to(cpus: Collection[int]) -> InstanceNUMATopology:
    """Return a guest of one cell whose CPUs are pinned to these."""
    pinning = dict(enumerate(sorted(cpus)))
    cell = InstanceNUMACell(id=0, memory=512, pcpuset=set(pinning), cpu_pinning=pinning)
    return InstanceNUMATopology([cell])


class Host:
    """A host, its agent, and an instance that is built and resized there."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        self.conf, self.database = conf, database
        self.driver = OneNode(conf)
        self.audit()
        self.migration = 0
        self.flavor = 2

    def audit(self) -> None:
        """Audit as an agent that has just started."""
        ResourceTracker(self.conf, self.database, self.driver).audit({"alpha": 7})

    @property
    def row(self) -> Any:
        (row,) = self.database.read(compute_nodes.all_live)
        return row

    @property
    def pinned(self) -> set[int]:
        topology = node_json.numa_topology_from_json(self.row.numa_topology)
        assert topology is not None
        return set().union(*(cell.pinned_cpus for cell in topology.cells))

    @property
    def free_devices(self) -> int:
        return sum(pool.count for pool in node_json.pci_pools_from_json(self.row.pci_stats))

    @property
    def claims(self) -> list[str]:
        query = sa.select(allocations.c.state).order_by(allocations.c.state)
        return list(self.database.read(lambda each: each.scalars(query).all()))

    def claim(self, cpus: Collection[int], devices: int = 0, aged: bool = True, **how: Any) -> None:
        row = self.row
        cells = node_json.numa_topology_from_json(row.numa_topology)
        pools = node_json.pci_pools_from_json(row.pci_stats)
        assert cells is not None
        taken: dict[str, Any] = {"vcpus": len(cpus), "memory_mb": 512 * len(cpus), "disk_mb": 0}
        texts: dict[str, str | None] = {NUMA: row.numa_topology, PCI: row.pci_stats}
        taken["numa"] = node_json.guest_topology_to_json(pinned_to(cpus))
        if devices:
            one = [replace(pools[0], count=devices, total=None)]
            taken["pci"] = node_json.pci_pools_to_json(one)
        held = SimpleNamespace(instance_uuid=UUID, numa=taken["numa"], pci=taken.get("pci"))
        texts[NUMA] = node_json.numa_topology_to_json(cells_taken(cells, [held]))
        texts[PCI] = node_json.pci_pools_to_json(devices_taken(pools, [held]))
        make: Callable[..., None] = claim_and_age if aged else claim
        make(self.database, UUID, row, documents=texts, **taken, **how)

    def run(self, cpus: Collection[int], *devices: int) -> None:
        """Let the guest have these CPUs and devices."""
        self.flavor = len(cpus)
        guest: Guest = a_guest(
            1,
            uuid=UUID,
            vcpus=len(cpus),
            memory_mb=512 * len(cpus),
            numa=pinned_to(cpus),
            pci_addresses=tuple(DEVICES[each].address for each in devices),
        )
        self.driver.add_guest(NODE, guest)

    def manage(self, vm_state: str, task_state: str | None = None) -> None:
        cpus = self.flavor
        changes = {"vcpus": cpus, "memory_mb": 512 * cpus, "root_gb": 0}
        manage(
            self.database, UUID, "alpha", NODE, vm_state=vm_state, task_state=task_state, **changes
        )

    def end(self, status: str) -> None:
        """End the resize."""
        change_migration(self.database, self.migration, status=status)
        self.manage("active")
        self.audit()

    def begin(self, old: int, new: int) -> None:
        """Begin a resize between flavors of as many CPUs."""
        sizes = {"old_vcpus": old, "old_memory_mb": 512 * old, "old_disk_mb": 0}
        sizes |= {"new_vcpus": new, "new_memory_mb": 512 * new, "new_disk_mb": 0}
        nodes = {"source_node": NODE, "dest_node": NODE, **sizes}
        self.migration = migrate(self.database, UUID, "alpha", "alpha", **nodes)
        self.manage("active", "resize_migrating")
        self.audit()

    def resize(self, old: Collection[int], claimed: Collection[int], new: Collection[int]) -> None:
        """Resize the instance until it waits to be confirmed or reverted."""
        age_claims(self.database)
        self.claim(claimed, in_place=True)
        self.begin(len(old), len(new))
        assert self.pinned == {*old} | {*claimed}
        self.run(new)
        self.manage("resized")
        self.audit()


@pytest.fixture
def host(tmp_path: Path, database: Database) -> Host:
    options = {"nodes": 1, "guests": 0, "numa_cells": 1, "vcpus": 16}

    conf = agent.options(
        tmp_path,
        DEFAULT={"compute_driver": "fake"},
        fake=options,
        pci={"device_spec": '{"vendor_id": "8086"}'},
    )
    return Host(conf, database)


@pytest.fixture
def built(host: Host) -> Host:
    """The instance runs on two CPUs."""
    host.claim(CLAIMED_OLD)
    host.run(OLD)
    host.audit()
    assert (host.pinned, host.claims) == (OLD, ["confirmed"])
    return host


@pytest.mark.parametrize(
    ("claimed", "new"), [(CLAIMED_NEW, NEW), (CLAIMED_NEW, CLAIMED_NEW), ({4, 5}, {5, 6})]
)
@pytest.mark.parametrize(("status", "has"), [("confirmed", "new"), ("reverted", "old")])
def test_the_cpus_of_both_flavors_are_held_until_the_resize_ends(
    built: Host, claimed: set[int], new: set[int], status: str, has: str
) -> None:
    empty = built.row.vcpus_used - 2
    built.resize(OLD, claimed, new)
    # However long it waits, and whatever agent looks.
    for _ in range(2):
        let_pass(built.database, 99999)
        built.audit()
        assert built.pinned == OLD | new
        assert built.row.vcpus_used == empty + len(OLD) + len(new)
    if has == "old":
        built.manage("resized", "resize_reverting")
        built.run(OLD)
        built.audit()
        assert built.pinned == OLD | new
    built.end(status)
    now = OLD if has == "old" else new
    assert (built.pinned, built.claims) == (now, ["confirmed"])
    assert built.row.vcpus_used == empty + len(now)


@pytest.mark.parametrize("status", ["confirmed", "reverted"])
def test_the_next_resize_holds_what_the_last_one_has_left(built: Host, status: str) -> None:
    built.resize(OLD, CLAIMED_NEW, NEW)
    if status == "reverted":
        built.run(OLD)
    built.end(status)
    left, claimed, new = OLD if status == "reverted" else NEW, {8, 9, 10, 11}, {9, 10, 11, 12}
    built.resize(left, claimed, new)
    assert built.pinned == left | new
    built.end("confirmed")
    assert (built.pinned, built.claims) == (new, ["confirmed"])


def test_an_instance_that_is_deleted_while_it_is_resized_holds_nothing(built: Host) -> None:
    built.resize(OLD, CLAIMED_NEW, NEW)
    assert built.claims == ["confirmed", "leaving"]
    built.driver.remove_guest(NODE, UUID)
    built.manage("deleted")
    built.audit()
    assert (built.pinned, built.claims, built.row.claims) == (set(), [], 0)


def test_a_guest_that_is_away_for_a_moment_keeps_both(built: Host) -> None:
    built.resize(OLD, CLAIMED_NEW, NEW)
    built.driver.remove_guest(NODE, UUID)
    built.audit()
    assert built.pinned >= OLD
    built.run(OLD)
    built.end("reverted")
    assert built.pinned == OLD


def test_a_resize_without_a_claim_holds_what_was_claimed_before(built: Host) -> None:
    built.begin(2, 3)
    built.run(NEW)
    built.manage("resized")
    built.audit()
    assert built.pinned == OLD | NEW
    built.end("confirmed")
    assert (built.pinned, built.claims) == (NEW, [])


def test_the_devices_of_both_flavors_are_held(host: Host) -> None:
    host.claim(CLAIMED_OLD, devices=1)
    host.run(OLD, 0)
    host.audit()
    assert host.free_devices == 3
    age_claims(host.database)
    host.claim(CLAIMED_NEW, devices=2, in_place=True)
    host.begin(2, 3)
    assert host.free_devices == 1
    host.run(NEW, 1, 2)
    host.manage("resized")
    host.audit()
    assert host.free_devices == 1
    host.end("confirmed")
    assert host.free_devices == 2


def test_a_claim_lasts_as_long_as_the_migration_that_brings_its_instance(host: Host) -> None:
    sizes = {"new_vcpus": 3, "new_memory_mb": 1536, "new_disk_mb": 0}
    ends = {"source_node": "beta", "dest_node": NODE}
    number = migrate(host.database, UUID, "beta", "alpha", **ends, **sizes)
    manage(host.database, UUID, "beta", "beta", task_state="resize_migrating")
    host.claim(CLAIMED_NEW, aged=False)
    let_pass(host.database, 99999)
    host.audit()
    assert (host.pinned, host.claims) == (CLAIMED_NEW, ["pending"])
    change_migration(host.database, number, status="error")
    host.audit()
    assert host.pinned == CLAIMED_NEW
    change_migration(host.database, number, status="failed")
    host.audit()
    assert (host.pinned, host.claims) == (set(), [])


@pytest.mark.parametrize("claimed", [True, False])
def test_a_guest_from_before_there_were_claims_keeps_both(host: Host, claimed: bool) -> None:
    """Its agent looks when the guest is powered off, and notes what it has."""
    host.run(OLD, 0)
    host.audit()
    if claimed:
        host.claim(CLAIMED_NEW, devices=1, in_place=True)
    host.begin(2, 3)
    assert host.pinned == (OLD | CLAIMED_NEW if claimed else OLD)
    host.run(NEW, 1)
    host.manage("resized")
    host.audit()
    assert (host.pinned, host.free_devices) == (OLD | NEW, 2)
    host.run(OLD, 0)
    host.end("reverted")
    assert (host.pinned, host.free_devices, host.claims) == (OLD, 3, ["confirmed"])


def test_a_guest_without_cpus_and_devices_of_its_own_gets_no_claim(host: Host) -> None:
    host.driver.add_guest(NODE, a_guest(1, uuid=UUID))
    host.audit()
    host.begin(1, 3)
    assert host.claims == []
