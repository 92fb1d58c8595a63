# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An audit leaves in the database what the driver sees, whatever was there before."""

import json

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import DriverUnavailable, Guest, NodeName, Size
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.engine import Database
from inventory.objects import node_json
from tests.fixtures import agent
from tests.fixtures.agent import a_guest, guests, nodes

SERVICE = {"alpha": 7}


def test_the_first_audit_writes_a_finished_row(
    tracker: ResourceTracker, database: Database, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("my_ip", "192.0.2.7")
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    assert (row.host, row.hypervisor_hostname, row.service_id) == ("alpha", "alpha", 7)
    assert (row.vcpus, row.memory_mb, row.local_gb) == (16, 65536, 1000)
    assert (row.memory_mb_used, row.free_ram_mb) == (512, 65024)
    assert (row.free_disk_gb, row.disk_available_least, row.running_vms) == (1000, 1000, 0)
    assert (row.metrics, row.numa_topology, row.host_ip) == ("[]", None, "192.0.2.7")
    assert json.loads(row.supported_instances)[0] == ["x86_64", "fake", "hvm"]
    assert json.loads(row.stats) == {"io_workload": "0", "num_instances": "0"}
    ratios = (row.cpu_allocation_ratio, row.ram_allocation_ratio, row.disk_allocation_ratio)
    assert ratios == (4.0, 1.0, 1.0)


def test_the_empty_pool_list_is_one_that_schedulers_read(
    tracker: ResourceTracker, database: Database
) -> None:
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    wanted = agent.sample("columns-nova34.json")["pci_stats_empty"]
    assert json.loads(row.pci_stats) == wanted
    assert node_json.pci_pools_from_json(row.pci_stats) == []


def test_guests_are_stored_with_their_node(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1, vcpus=2, memory_mb=2048, project_id="p1"))
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    assert (row.vcpus_used, row.memory_mb_used, row.local_gb_used) == (2, 2560, 10)
    (guest,) = guests(database).values()
    assert (guest.host, guest.node, guest.display_name) == ("alpha", "alpha", "guest1")
    assert (guest.project_id, guest.root_gb, guest.vm_state) == ("p1", 10, "active")


def test_flavor_and_image_are_stored_as_far_as_they_are_known(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    properties = {"os_type": "linux", "hw_machine_type": "q35"}
    driver.add_guest("alpha", a_guest(1))
    driver.add_guest("alpha", a_guest(2, flavor_id=7, flavor_name="m1.small", image_properties={}))
    driver.add_guest("alpha", a_guest(3, image_properties=properties))
    tracker.audit(SERVICE)
    found = [guests(database)[a_guest(number).uuid] for number in (1, 2, 3)]
    assert [(row.flavor_id, row.flavor_name, row.image_properties) for row in found] == [
        (None, None, None),
        (7, "m1.small", "{}"),
        (None, None, '{"hw_machine_type": "q35", "os_type": "linux"}'),
    ]


def test_each_audit_starts_from_zero(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1))
    tracker.audit(SERVICE)
    driver.remove_guest("alpha", a_guest(1).uuid)
    driver.add_guest("alpha", a_guest(2))
    tracker.audit(SERVICE)
    assert set(guests(database)) == {a_guest(2).uuid}
    driver.remove_guest("alpha", a_guest(2).uuid)
    tracker.audit(SERVICE)
    assert guests(database) == {}
    (row,) = nodes(database)
    assert (row.vcpus_used, row.memory_mb_used, row.generation) == (0, 512, 3)


def test_reserves_and_ratios_are_looked_up_each_time(
    tracker: ResourceTracker, database: Database, conf: cfg.ConfigOpts
) -> None:
    tracker.audit(SERVICE)
    conf.set_override("reserved_host_memory_mb", 1024)
    conf.set_override("reserved_host_cpus", 2)
    conf.set_override("cpu_allocation_ratio", 8.0)
    conf.set_override("ram_allocation_ratio", 0.0)
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    assert (row.memory_mb_used, row.vcpus_used) == (1024, 2)
    assert (row.cpu_allocation_ratio, row.ram_allocation_ratio) == (8.0, 1.0)


def test_a_ratio_that_an_operator_put_into_the_row_stays(
    tracker: ResourceTracker, database: Database
) -> None:
    tracker.audit(SERVICE)
    table = compute_nodes.table
    database.write(lambda each: each.execute(sa.update(table).values(ram_allocation_ratio=1.25)))
    tracker.audit(SERVICE)
    assert nodes(database)[0].ram_allocation_ratio == 1.25


def test_a_deleted_node_comes_back(tracker: ResourceTracker, database: Database) -> None:
    tracker.audit(SERVICE)
    (before,) = nodes(database)
    database.write(lambda each: compute_nodes.delete(each, "alpha", ["alpha"]))
    tracker.audit(SERVICE)
    (after,) = nodes(database)
    assert (after.id, after.uuid) == (before.id, before.uuid)


def test_an_outage_leaves_the_row_alone(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest())
    tracker.audit(SERVICE)
    before = nodes(database)
    driver.fail("gone")
    with pytest.raises(DriverUnavailable, match="gone"):
        tracker.audit(SERVICE)
    assert nodes(database) == before
    assert len(guests(database)) == 1


def test_many_nodes_are_audited_with_all_their_guests(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    conf.set_override("hosts", 1200, group="fake")
    driver = FakeDriver(conf)
    driver.add_guest("alpha-0001", a_guest(1))
    driver.add_guest("alpha-1200", a_guest(2))
    ids = {host: number for number, host in enumerate(driver.hosts())}
    ResourceTracker(conf, database, driver).audit(ids)
    rows = {row.host: row for row in nodes(database)}
    assert len(rows) == 1200
    assert {host for host, row in rows.items() if row.running_vms} == {"alpha-0001", "alpha-1200"}
    assert rows["alpha-1200"].service_id == 1199
    assert {row.host for row in guests(database).values()} == {"alpha-0001", "alpha-1200"}


def test_a_guest_that_is_reported_twice_counts_once(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    class Stammering(FakeDriver):
        def guests(self, node: NodeName) -> list[Guest]:
            return [a_guest(1, memory_mb=64), a_guest(2), a_guest(1, memory_mb=128)]

    ResourceTracker(conf, database, Stammering(conf)).audit(SERVICE)
    (row,) = nodes(database)
    assert (row.running_vms, row.memory_mb_used) == (2, 512 + 1024 + 128)
    assert guests(database)[a_guest(1).uuid].memory_mb == 128


def test_what_the_driver_takes_for_guests_counts(conf: cfg.ConfigOpts, database: Database) -> None:
    class Hungry(FakeDriver):
        def overhead(self, guest: Guest) -> Size:
            return Size(memory_mb=guest.memory_mb // 8)

    driver = Hungry(conf)
    driver.add_guest("alpha", a_guest(1))
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert nodes(database)[0].memory_mb_used == 512 + 1024 + 128


def test_metrics_are_in_the_row(
    conf: cfg.ConfigOpts, database: Database, driver: FakeDriver
) -> None:
    metric = {"name": "cpu.percent", "value": 0.5, "timestamp": "t", "source": "s"}
    tracker = ResourceTracker(conf, database, driver, metrics=lambda name: [metric])
    tracker.audit(SERVICE)
    assert json.loads(nodes(database)[0].metrics) == [metric]
