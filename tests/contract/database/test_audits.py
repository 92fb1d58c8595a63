# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an audit writes fits the columns, and is found there again as it was written."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, instances
from inventory.engine import Database
from tests.claimed import claim, claim_and_age, claimed, let_pass, release
from tests.databases import a_uuid, open_at
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


NODE = "alpha-node-0001"
U1, U2 = a_uuid("claimed 1"), a_uuid("claimed 2")


def row_of(database: Database) -> Any:
    found = database.read(compute_nodes.all_live)
    return next(row for row in found if row.hypervisor_hostname == NODE)


def figures(database: Database) -> tuple[int, ...]:
    """Return (vcpus, memory, exact disk, claims) of a node."""
    row = row_of(database)
    return row.vcpus_used, row.memory_mb_used, row.disk_mb_used, row.claims


def more(before: tuple[int, ...], *taken: int) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(before, taken, strict=True))


def test_what_was_claimed_is_counted_from_zero_as_it_was_written(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    driver = FakeDriver(conf)
    audit(conf, database, driver)
    empty = figures(database)
    for uuid in (U1, U2):
        claim_and_age(database, uuid, row_of(database))
    before = row_of(database)
    assert figures(database) == more(empty, 4, 4096, 10000, 2)
    audit(conf, database, driver)
    assert row_of(database) == before
    # One is seen and the other one too late.
    driver.add_guest(NODE, a_guest(1, uuid=U1))
    let_pass(database, 900)
    audit(conf, database, driver)
    assert figures(database) == more(empty, 1, 1024, 10240, 0)
    assert claimed(database) == {U1: "confirmed"}


def test_a_guest_whose_row_names_another_host_counts_where_it_is(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    driver, tracker = a_tracker(conf, database)
    empty = figures(database)
    manage(database, U1, "beta", "beta", vcpus=4)
    driver.add_guest(NODE, a_guest(1, uuid=U1))
    tracker.audit(SERVICE)
    assert figures(database) == more(empty, 1, 1024, 10240, 0)
    rows = {(row.host, row.vcpus) for row in database.read(instances.all_live) if row.uuid == U1}
    assert rows == {("alpha", 1), ("beta", 4)}


class Interrupted(Database):
    """A database in which others do something before the next transaction that writes."""

    first: Callable[[], None] | None = None

    def write(self, work: Callable[[sa.Connection], Any]) -> Any:
        first, self.first = self.first, None
        if first:
            first()
        return super().write(work)


def a_tracker(conf: cfg.ConfigOpts, database: Database) -> tuple[FakeDriver, ResourceTracker]:
    """Return a driver, and what has audited its nodes once."""
    driver = FakeDriver(conf)
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    return driver, tracker


def test_a_claim_between_reading_and_writing_survives(
    conf: cfg.ConfigOpts, url: str, database: Database
) -> None:
    interrupted = Interrupted(database.engine)
    driver, tracker = a_tracker(conf, interrupted)
    empty = figures(database)
    others = open_at(url)
    interrupted.first = lambda: claim(others, U1, row_of(others))
    driver.add_guest(NODE, a_guest(1))
    tracker.audit(SERVICE)
    assert figures(database) == more(empty, 3, 1024 + 2048, 10240 + 5000, 1)
    written = row_of(database)
    for _ in range(2):
        tracker.audit(SERVICE)
    assert row_of(database) == written
    others.close()


def test_an_instance_that_ended_after_the_poll_gets_no_row(
    conf: cfg.ConfigOpts, url: str, database: Database
) -> None:
    """Else members of its server group would join it where it is no more."""
    interrupted = Interrupted(database.engine)
    driver, tracker = a_tracker(conf, interrupted)
    empty, known = figures(database), {each.uuid for each in database.read(instances.all_live)}
    others = open_at(url)
    claim_and_age(others, U1, row_of(others))
    driver.add_guest(NODE, a_guest(1, uuid=U1))
    driver.add_guest(NODE, a_guest(2, uuid=U2))

    def end() -> None:
        driver.remove_guest(NODE, U1)
        release(others, U1)

    interrupted.first = end
    tracker.audit(SERVICE)
    # The other one has no claim either, but it runs.
    assert {each.uuid for each in database.read(instances.all_live)} - known == {U2}
    assert figures(database) == more(empty, 1, 1024, 10240, 0)
    others.close()


def test_nobody_claims_between_counting_the_claims_and_writing_the_sum(
    conf: cfg.ConfigOpts, url: str, database: Database
) -> None:
    driver, tracker = a_tracker(conf, database)
    empty = figures(database)
    others = open_at(url)
    node = row_of(database)
    claiming = Thread(target=lambda: claim(others, U1, node))

    def begin(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        counting = "FROM allocations" in statement and "allocations.instance_uuid" in statement
        if counting and not claiming.ident:
            claiming.start()
            # It would be over by then, if nothing kept it waiting.
            claiming.join(0.5)

    sa.event.listen(database.engine, "after_cursor_execute", begin)
    driver.add_guest(NODE, a_guest(1))
    tracker.audit(SERVICE)
    claiming.join()
    assert figures(database) == more(empty, 3, 1024 + 2048, 10240 + 5000, 1)
    assert claimed(database) == {U1: "pending"}
    others.close()


def test_rows_are_locked_in_the_order_of_their_ids(
    conf: cfg.ConfigOpts, url: str, database: Database
) -> None:
    """As by those who claim, so that nobody waits for one who waits for him."""
    driver, tracker = a_tracker(conf, database)
    locked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.rstrip().endswith("FOR UPDATE"):
            locked.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    for node in (NODE, "alpha-node-0002"):
        driver.add_guest(node, a_guest(7))
    tracker.audit(SERVICE)
    conf.set_override("nodes", 0, group="fake")
    tracker.audit(SERVICE)
    if database.engine.dialect.name != "sqlite":
        # Guests without claims are looked for twice.
        assert len(locked) == 3
    assert all("ORDER BY compute_nodes.id" in each for each in locked)
