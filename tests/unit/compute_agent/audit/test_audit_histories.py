# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever happened before, one audit of all nodes leaves what a first one would."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.engine import Database
from inventory.tables import instances, migrations
from tests.databases import empty, migrated
from tests.fixtures.agent import UUID, a_guest
from tests.records import change_migration, manage, migrate, unmanage

SERVICE = {"alpha": 7}
# What differs between two databases that say the same.
OF_THE_ROW = {"id", "created_at", "updated_at", "deleted_at", "deleted", "generation"}

NUMBERS = st.integers(1, 4)
NODES = st.sampled_from(["alpha", "alpha-node-0001", "alpha-node-0002", "beta"])
STATES = st.sampled_from(
    ["active", "building", "stopped", "resized", "error", "deleted", "shelved_offloaded"]
)
TASKS = st.sampled_from([None, "spawning", "resize_prep", "migrating", "rebuilding"])
STATUSES = st.sampled_from(["migrating", "finished", "error", "confirmed"])
STEPS = st.one_of(
    st.tuples(st.just("guest comes"), NODES, NUMBERS, st.integers(1, 3)),
    st.tuples(st.just("guest leaves"), NODES, NUMBERS),
    st.tuples(st.just("managed"), NODES, NUMBERS, STATES, TASKS),
    st.tuples(st.just("unmanaged"), NUMBERS),
    st.tuples(st.just("moved"), NUMBERS, NODES, NODES, STATUSES),
    st.tuples(st.just("move goes on"), st.integers(0, 2), STATUSES),
    st.tuples(st.just("nodes"), st.integers(0, 2)),
    st.tuples(st.just("reserve"), st.integers(0, 2)),
    st.tuples(st.just("spoilt"), st.integers(0, 9)),
    st.tuples(st.just("node fails"), NODES),
    st.tuples(st.just("audit of what was noted"), st.booleans()),
    st.tuples(st.just("audit of"), NODES),
    st.tuples(st.just("audit"), st.booleans()),
)


class World:
    """A hypervisor and a database, to which things happen."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        conf.set_override("nodes", 1, group="fake")
        conf.set_override("reserved_host_memory_mb", 512)
        self.conf = conf
        self.database = database
        self.driver = FakeDriver(conf)
        self.tracker = ResourceTracker(conf, database, self.driver)
        self._guests: set[tuple[str, int]] = set()
        self._moves: list[int] = []

    def happen(self, what: str, *details: Any) -> None:
        getattr(self, "_" + what.replace(" ", "_"))(*details)

    def _guest_comes(self, node: str, number: int, size: int) -> None:
        if NodeName("alpha", node) in self.driver.nodes():
            self._guests.add((node, number))
            self.driver.add_guest(node, a_guest(number, memory_mb=1024 * size))

    def _guest_leaves(self, node: str, number: int) -> None:
        if (node, number) in self._guests and NodeName("alpha", node) in self.driver.nodes():
            self._guests.remove((node, number))
            self.driver.remove_guest(node, UUID.format(number))

    def _managed(self, node: str, number: int, vm_state: str, task_state: str | None) -> None:
        host = "beta" if node == "beta" else "alpha"
        facts = {"vm_state": vm_state, "task_state": task_state, "memory_mb": 1024 * number}
        manage(self.database, UUID.format(number), host, node, **facts)

    def _unmanaged(self, number: int) -> None:
        unmanage(self.database, UUID.format(number))

    def _moved(self, number: int, source: str, destination: str, status: str) -> None:
        ends = ["beta" if node == "beta" else "alpha" for node in (source, destination)]
        nodes = {"source_node": source, "dest_node": destination, "status": status}
        self._moves.append(migrate(self.database, UUID.format(number), *ends, **nodes))

    def _move_goes_on(self, number: int, status: str) -> None:
        if number < len(self._moves):
            change_migration(self.database, self._moves[number], status=status)

    def _nodes(self, number: int) -> None:
        self.conf.set_override("nodes", number, group="fake")

    def _reserve(self, number: int) -> None:
        self.conf.set_override("reserved_host_memory_mb", number * 512)

    def _spoilt(self, number: int) -> None:
        values = {"memory_mb_used": number, "generation": compute_nodes.table.c.generation + 1}
        statement = sa.update(compute_nodes.table).values(**values)
        self.database.write(lambda connection: connection.execute(statement))

    def _node_fails(self, node: str) -> None:
        nodes = self.driver.nodes()
        if len(nodes) > 1 and NodeName("alpha", node) in nodes:
            self.driver.fail("for a while", node)
            self.tracker.audit(SERVICE)
            self.driver.fail(None, node)

    def _audit_of_what_was_noted(self, lost: bool) -> None:
        noted = self.driver.changes.wait(0)
        self.tracker.audit(SERVICE, set() if lost else noted)

    def _audit_of(self, node: str) -> None:
        self.tracker.audit(SERVICE, {NodeName("alpha", node)})

    def _audit(self, of_a_new_tracker: bool) -> None:
        if of_a_new_tracker:
            self.tracker = ResourceTracker(self.conf, self.database, self.driver)
        self.tracker.audit(SERVICE)


def everything(database: Database, table: sa.Table, *where: Any) -> list[dict[str, Any]]:
    query = sa.select(table).where(*where).order_by(table.c.id)
    found = database.read(lambda connection: connection.execute(query).mappings().all())
    return [dict(row) for row in found]


def said(database: Database) -> list[str]:
    """Return what the live rows of all nodes and mirrors say."""
    found = everything(database, compute_nodes.table, compute_nodes.table.c.deleted == 0)
    found += everything(database, instances, instances.c.deleted == 0, ~instances.c.managed)
    return sorted(
        repr({name: row[name] for name in row if name not in OF_THE_ROW}) for row in found
    )


def written(database: Database) -> list[Any]:
    found = everything(database, compute_nodes.table)
    return [(row["id"], row["generation"]) for row in found]


def copy_what_others_wrote(source: Database, target: Database) -> None:
    for table, where in ((instances, [instances.c.managed]), (migrations, [])):
        found = everything(source, table, *where)
        if found:
            insert = sa.insert(table).values(found)
            target.write(lambda connection, insert=insert: connection.execute(insert))  # type: ignore[misc]


@pytest.fixture
def unused(tmp_path: Path) -> Iterator[Database]:
    """A second database."""
    (tmp_path / "second").mkdir()
    found = migrated(tmp_path / "second")
    yield found
    found.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=14))
@example([("moved", 1, "alpha", "alpha", "finished"), ("guest comes", "alpha", 1, 2)])
@example(
    [
        ("guest comes", "alpha", 1, 1),
        ("audit", False),
        ("moved", 1, "alpha", "beta", "finished"),
        ("guest leaves", "alpha", 1),
    ]
)
@example(
    [
        ("guest comes", "alpha", 1, 1),
        ("audit", False),
        ("guest leaves", "alpha", 1),
        ("audit", False),
        ("guest comes", "alpha", 1, 1),
    ]
)
def test_one_audit_forgets_all_that_was(
    conf: cfg.ConfigOpts, database: Database, unused: Database, steps: list[tuple[Any, ...]]
) -> None:
    empty(database)
    empty(unused)
    world = World(conf, database)
    for step in steps:
        world.happen(*step)
    copy_what_others_wrote(database, unused)
    world.tracker.audit(SERVICE)
    ResourceTracker(conf, unused, world.driver).audit(SERVICE)
    assert said(database) == said(unused)
    # And it was enough: neither it nor a new one finds anything to write now.
    before = written(database)
    world.tracker.audit(SERVICE)
    ResourceTracker(conf, database, world.driver).audit(SERVICE)
    assert written(database) == before
