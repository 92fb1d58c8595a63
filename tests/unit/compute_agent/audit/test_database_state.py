# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What others write into the database counts with the next audit: the field's worked examples."""

import json
from typing import Any

import pytest
from oslo_config import cfg

from compute_agent.audit import database_state
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, instances
from inventory.engine import Database
from tests.fixtures.agent import UUID, a_guest
from tests.records import change_migration, manage, migrate, unmanage

A, B, C, D, E, F = (UUID.format(number) for number in range(1, 7))
EXAMPLE: dict[str, dict[str, Any]] = {
    A: {"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "ephemeral_gb": 10, "swap_mb": 1024},
    B: {"vcpus": 1, "memory_mb": 2048, "root_gb": 10, "vm_state": "stopped"},
    C: {"vcpus": 2, "memory_mb": 2048, "vm_state": "building", "task_state": "spawning"}
    | {"project_id": "p2"},
    D: {"vcpus": 4, "memory_mb": 8192, "root_gb": 40, "vm_state": "shelved_offloaded"},
    E: {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "vm_state": "error"},
    # From a volume.
    F: {"vcpus": 1, "memory_mb": 1024, "root_gb": 0, "project_id": "p2"},
}
USED = ("vcpus_used", "memory_mb_used", "free_ram_mb", "local_gb_used", "free_disk_gb")
COUNTS = ("running_vms", "current_workload")
RESIZED = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "vm_state": "resized"}


class Driver(FakeDriver):
    """One host with the names of its own that libvirt gives it."""

    node = "alpha"

    def nodes(self) -> list[NodeName]:
        return [NodeName("alpha", self.node)]


class Host:
    """A host of 8 CPUs, 16384 MiB and 100 GiB, of which 1, 512 MiB and 2 GiB are reserved."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        for name, value in {"vcpus": 8, "memory_mb": 16384, "local_gb": 100}.items():
            conf.set_override(name, value, group="fake")
        for name, value in {"cpus": 1, "memory_mb": 512, "disk_mb": 2048}.items():
            conf.set_override(f"reserved_host_{name}", value)
        self.database = database
        self.driver = Driver(conf)
        self._tracker = ResourceTracker(conf, database, self.driver)

    def row(self) -> Any:
        """Audit and return the row of the node."""
        self._tracker.audit({"alpha": 7})
        (row,) = self.database.read(compute_nodes.all_live)
        return row

    def figures(self, *names: str) -> list[Any]:
        """Audit and return columns."""
        row = self.row()
        return [getattr(row, name) for name in names]

    def stats(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.row().stats)
        return found

    def manage(self, uuid: str, **changes: Any) -> None:
        manage(self.database, uuid, "alpha", self.driver.node, **changes)


@pytest.fixture
def host(conf: cfg.ConfigOpts, database: Database) -> Host:
    return Host(conf, database)


@pytest.fixture
def example(host: Host) -> Host:
    for uuid, facts in EXAMPLE.items():
        host.manage(uuid, **facts)
    return host


def test_the_worked_example(example: Host) -> None:
    assert example.figures(*USED, *COUNTS) == [8, 10240, 6144, 54, 46, 5, 1]
    assert example.stats()["num_instances"] == "5"


def test_the_worked_example_when_c_is_active_and_then_deleted(example: Host) -> None:
    example.row()
    example.manage(C, vm_state="active", task_state=None)
    assert example.figures(*USED, *COUNTS) == [8, 10240, 6144, 54, 46, 5, 0]
    assert example.stats()["io_workload"] == "0"
    unmanage(example.database, C)
    assert example.figures("memory_mb_used", "free_ram_mb", "running_vms") == [8192, 8192, 4]


def test_it_makes_no_difference_which_instances_have_guests(example: Host) -> None:
    before = example.row()
    for number in (1, 2, 3):
        example.driver.add_guest("alpha", a_guest(number, memory_mb=1, vm_state="paused"))
    after = example.row()
    assert [getattr(after, name) for name in USED] == [getattr(before, name) for name in USED]
    assert after.stats == before.stats
    assert len(example.database.read(instances.all_live)) == len(EXAMPLE)


def test_a_uuid_in_capitals_is_that_of_the_guest(host: Host) -> None:
    uuid = UUID.format(1)
    host.manage(uuid.upper(), **RESIZED)
    migrate(host.database, uuid.upper(), "alpha", "alpha")
    host.driver.add_guest("alpha", a_guest(1))
    # The guest, what its row says of it, and the size that it had before.
    assert host.figures("running_vms", "memory_mb_used") == [1, 512 + 4096 + 2048]


def test_a_shelved_instance_comes_and_goes(example: Host) -> None:
    used = example.figures("memory_mb_used")
    example.manage(D, task_state="spawning")
    assert example.figures("memory_mb_used", "free_ram_mb") == [18432, -2048]
    example.manage(D, vm_state="active", task_state=None)
    assert example.figures("memory_mb_used") == [18432]
    example.manage(D, vm_state="shelved")
    assert example.figures("memory_mb_used") == [18432]
    example.manage(D, vm_state="shelved_offloaded")
    assert example.figures("memory_mb_used") == used
    # Its guest is still there after all, and takes what it takes.
    example.driver.add_guest("alpha", a_guest(4, memory_mb=100))
    assert example.figures("memory_mb_used", "running_vms") == [used[0] + 100, 6]
    example.driver.remove_guest("alpha", D)
    assert example.figures("memory_mb_used") == used


def test_half_a_gib_of_swap_leaves_no_trace(host: Host) -> None:
    host.manage(A, root_gb=8)
    assert host.figures("local_gb_used") == [10]
    host.manage(B, root_gb=0, swap_mb=512)
    assert host.figures("local_gb_used") == [11]
    unmanage(host.database, B)
    assert host.figures("local_gb_used") == [10]


def test_instances_of_other_nodes_do_not_count(host: Host) -> None:
    manage(host.database, A, "alpha", "another")
    manage(host.database, B, "beta", "beta")
    assert host.figures("running_vms", "memory_mb_used") == [0, 512]


def test_a_resize_in_place_that_is_confirmed(host: Host) -> None:
    host.manage(A, memory_mb=2048, task_state="resize_prep")
    move = migrate(host.database, A, "alpha", "alpha", status="pre-migrating")
    assert host.figures("memory_mb_used", "vcpus_used", "local_gb_used") == [6656, 4, 32]
    host.manage(A, **RESIZED, task_state=None)
    change_migration(host.database, move, status="finished")
    assert host.figures("memory_mb_used", "vcpus_used", "running_vms") == [6656, 4, 1]
    change_migration(host.database, move, status="confirmed")
    host.manage(A, vm_state="active")
    assert host.figures("memory_mb_used", "vcpus_used", "local_gb_used") == [4608, 3, 22]


def test_a_resize_in_place_that_is_reverted(host: Host) -> None:
    host.manage(A, **RESIZED)
    move = migrate(host.database, A, "alpha", "alpha", status="finished")
    assert host.figures("memory_mb_used") == [512 + 4096 + 2048]
    host.manage(A, vcpus=1, memory_mb=2048, root_gb=10, vm_state="active")
    change_migration(host.database, move, status="reverted")
    assert host.figures("memory_mb_used") == [512 + 2048]


def test_a_resize_that_comes(host: Host) -> None:
    manage(host.database, A, "beta", "beta", memory_mb=2048, task_state="resize_migrating")
    move = migrate(host.database, A, "beta", "alpha")
    assert host.figures("memory_mb_used", "vcpus_used", "running_vms") == [4608, 3, 0]
    unmanage(host.database, A)
    host.manage(A, **RESIZED)
    assert host.figures("memory_mb_used", "vcpus_used", "running_vms") == [4608, 3, 1]
    change_migration(host.database, move, status="confirmed")
    assert host.figures("memory_mb_used") == [4608]


def test_a_resize_that_goes(host: Host) -> None:
    host.manage(A, memory_mb=2048, task_state="resize_migrating")
    move = migrate(host.database, A, "alpha", "beta")
    assert host.figures("memory_mb_used", "running_vms") == [2560, 1]
    unmanage(host.database, A)
    manage(host.database, A, "beta", "beta", **RESIZED)
    # Room to come back to.
    assert host.figures("memory_mb_used", "running_vms") == [2560, 0]
    # Its guest waits there, shut off: it takes the room that is kept for it.
    host.driver.add_guest("alpha", a_guest(1, memory_mb=2048, vm_state="stopped"))
    assert host.figures("memory_mb_used", "running_vms") == [2560, 1]
    host.driver.remove_guest("alpha", A)
    change_migration(host.database, move, status="confirmed")
    assert host.figures("memory_mb_used", "running_vms") == [512, 0]


def test_a_live_migration_counts_once_on_each_side(host: Host) -> None:
    manage(host.database, A, "beta", "beta", memory_mb=4096, task_state="migrating")
    sizes = {"old_memory_mb": 4096, "migration_type": "live-migration"}
    migrate(host.database, A, "beta", "alpha", **sizes)
    assert host.figures("memory_mb_used") == [4608]
    host.driver.add_guest("alpha", a_guest(1, memory_mb=4096, vm_state="paused"))
    assert host.figures("memory_mb_used") == [4608]


def test_an_evacuation_of_an_instance_in_error_is_kept_room(host: Host) -> None:
    manage(host.database, A, "beta", "beta", vm_state="error", task_state="rebuild_spawning")
    migrate(host.database, A, "beta", "alpha", migration_type="evacuation", status="accepted")
    assert host.figures("memory_mb_used") == [4608]


def test_a_migration_that_was_forgotten_holds_nothing(host: Host) -> None:
    manage(host.database, A, "beta", "beta")
    migrate(host.database, A, "beta", "alpha", status="error")
    assert host.figures("memory_mb_used") == [512]
    manage(host.database, A, "beta", "beta", vm_state="resized")
    migrate(host.database, A, "beta", "gamma", status="finished")
    assert host.figures("memory_mb_used") == [512]


def test_a_node_may_be_left_out_where_a_host_has_but_one(host: Host) -> None:
    host.driver.node = "alpha.example.com"
    manage(host.database, A, "beta", "beta.example.com", vm_state="active", task_state="migrating")
    migrate(host.database, A, "beta", "alpha", source_node=None, dest_node=None)
    # Before there is a row of it, and then.
    assert host.figures("memory_mb_used", "hypervisor_hostname") == [4608, "alpha.example.com"]
    assert host.figures("memory_mb_used") == [4608]


def test_with_several_nodes_the_one_that_is_meant_has_to_be_named(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    conf.set_override("nodes", 2, group="fake")
    driver = FakeDriver(conf)
    manage(database, A, "beta", "beta", vm_state="resized")
    manage(database, B, "beta", "beta", vm_state="resized")
    migrate(database, A, "beta", "alpha", dest_node=None)
    migrate(database, B, "beta", "alpha", dest_node="alpha-node-0002")
    ResourceTracker(conf, database, driver).audit({"alpha": 7})
    rows = {row.hypervisor_hostname: row for row in database.read(compute_nodes.all_live)}
    assert {name: row.memory_mb_used for name, row in rows.items()} == {
        "alpha-node-0001": 512,
        "alpha-node-0002": 512 + 4096,
    }


def test_a_guest_that_has_just_come_moves_with_the_same_audit(host: Host) -> None:
    migrate(host.database, A, "alpha", "alpha")
    assert host.figures("memory_mb_used") == [512]
    host.driver.add_guest("alpha", a_guest(1, vcpus=1, memory_mb=2048, root_gb=10))
    assert host.figures("memory_mb_used", "generation") == [6656, 2]
    assert host.figures("memory_mb_used", "generation") == [6656, 2]
    host.driver.remove_guest("alpha", A)
    assert host.figures("memory_mb_used", "generation") == [512, 3]


def test_rows_may_lack_what_can_be_made_up(host: Host) -> None:
    host.manage(A, display_name=None, vm_state=None)
    host.row()
    name = NodeName("alpha", "alpha")
    found = host.database.read(lambda connection: database_state.read(connection, {name: []}))
    (guest,) = found.managed[name]
    assert (guest.name, guest.vm_state) == (A, "active")
    assert found.marks.keys() == {name}
    assert host.database.read(lambda connection: database_state.read(connection, {})).marks == {}
