# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an audit writes fits the columns, and is found there again as it was written."""

from pathlib import Path

import pytest
from oslo_config import cfg

from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, instances
from inventory.engine import Database
from tests.fixtures import agent
from tests.fixtures.agent import a_guest
from tests.records import manage, migrate

SERVICE = {"alpha": 7}
LARGEST = 2**31 - 1


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    options = {"compute_driver": "fake", "cpu_allocation_ratio": 1.1}
    return agent.options(tmp_path, DEFAULT=options, fake={"nodes": 2, "guests": 5, "numa_cells": 2})


def audit(conf: cfg.ConfigOpts, database: Database, driver: FakeDriver) -> None:
    """Audit all nodes as an agent does that has just started."""
    ResourceTracker(conf, database, driver).audit(SERVICE)


def test_what_was_written_is_no_news_to_the_next_agent(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    driver = FakeDriver(conf)
    manage(database, a_guest(1).uuid, "alpha", "alpha-node-0001", vm_state="resized")
    migrate(database, a_guest(1).uuid, "alpha", "beta", source_node="alpha-node-0002")
    properties = {"os_type": "linux", "other": "\U0001f600 \u00e4 "}
    odd = a_guest(2, name=" Name ", image_properties=properties, flavor_name="\U0001f600 ")
    driver.add_guest("alpha-node-0002", odd)
    for _ in range(3):
        audit(conf, database, driver)
    rows = database.read(compute_nodes.all_live)
    assert [(row.hypervisor_hostname, row.generation) for row in rows] == [
        ("alpha-node-0001", 1),
        ("alpha-node-0002", 1),
    ]
    # Five guests each, an instance and another guest; and room that is kept for a move.
    assert [row.running_vms for row in rows] == [6, 6]
    assert rows[1].memory_mb_used - rows[0].memory_mb_used == 2048
    assert len(database.read(instances.all_live)) == 12


def test_no_guest_is_too_large_to_be_stored(conf: cfg.ConfigOpts, database: Database) -> None:
    driver = FakeDriver(conf)
    monster = a_guest(1, name="\U0001f600" * 999, vcpus=2**40, memory_mb=2**54, root_gb=2**60)
    driver.add_guest("alpha-node-0001", monster)
    for _ in range(2):
        audit(conf, database, driver)
    row, other = database.read(compute_nodes.all_live)
    assert (row.vcpus_used, row.memory_mb_used, row.local_gb_used) == (LARGEST,) * 3
    assert row.free_ram_mb == 65536 - LARGEST
    assert (row.generation, other.generation) == (1, 1)
    found = {each.uuid: each for each in database.read(instances.all_live)}
    assert found[monster.uuid].memory_mb == LARGEST
    assert found[monster.uuid].display_name == "\U0001f600" * 255


def test_nodes_come_back_one_by_one(conf: cfg.ConfigOpts, database: Database) -> None:
    driver = FakeDriver(conf)
    audit(conf, database, driver)
    before = {row.hypervisor_hostname: row.id for row in database.read(compute_nodes.all_live)}
    conf.set_override("nodes", 0, group="fake")
    audit(conf, database, driver)
    assert database.read(compute_nodes.all_live) == database.read(instances.all_live) == []
    conf.set_override("nodes", 2, group="fake")
    tracker = ResourceTracker(conf, database, driver)
    for node in before:
        tracker.audit(SERVICE, {NodeName("alpha", node)})
    rows = database.read(compute_nodes.all_live)
    assert {row.hypervisor_hostname: row.id for row in rows} == before
    assert len(database.read(instances.all_live)) == 10
