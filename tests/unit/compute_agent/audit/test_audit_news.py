# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An audit writes what is news, all of it and nothing else, whoever else has written meanwhile."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest, NodeFacts, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, instances
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from tests.fixtures.agent import a_guest, guests, nodes
from tests.records import manage

T = TypeVar("T")
SERVICE = {"alpha": 7}


@contextmanager
def writes(database: Database) -> Iterator[list[str]]:
    """Collect the statements that write, and the beginnings of transactions that may."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement != "BEGIN" and statement.split()[0] not in ("SELECT", "PRAGMA", "ROLLBACK"):
            found.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(database.engine, "before_cursor_execute", note)


def backdate(database: Database) -> None:
    """Let all rows look as if they were written long ago."""
    statement = sa.text("UPDATE compute_nodes SET updated_at = '2001-01-01 00:00:00.000000'")
    database.write(lambda connection: connection.execute(statement))


def change(database: Database, **values: Any) -> None:
    """Change the rows of all nodes as somebody would who knows nothing of generations."""
    statement = sa.update(compute_nodes.table).values(**values)
    database.write(lambda connection: connection.execute(statement))


def generations(database: Database) -> dict[str, int]:
    return {row.hypervisor_hostname: row.generation for row in nodes(database)}


def test_an_audit_that_finds_nothing_new_writes_nothing(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1))
    manage(database, a_guest(2).uuid, "alpha", "alpha")
    tracker.audit(SERVICE)
    before = nodes(database), guests(database)
    with writes(database) as statements:
        for _ in range(3):
            tracker.audit(SERVICE)
            tracker.audit(SERVICE, {NodeName("alpha", "alpha")})
    assert statements == []
    assert (nodes(database), guests(database)) == before


def test_a_tracker_that_has_just_started_compares_before_it_writes(
    conf: cfg.ConfigOpts, tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1))
    tracker.audit(SERVICE)
    before = nodes(database)
    with writes(database) as statements:
        ResourceTracker(conf, database, driver).audit(SERVICE)
    assert set(statements) <= {"BEGIN IMMEDIATE"}
    assert nodes(database) == before


class Moody(FakeDriver):
    """A fake whose guests come in another order each time, and whose used memory moves."""

    used = 0

    def facts(self, node: NodeName) -> NodeFacts:
        self.used += 1
        return replace(super().facts(node), memory_used_mb=self.used)

    def guests(self, node: NodeName) -> list[Guest]:
        found = list(super().guests(node))
        return found[::-1] if self.used % 2 else found


def test_what_moves_without_a_meaning_is_no_news(conf: cfg.ConfigOpts, database: Database) -> None:
    driver = Moody(conf)
    for number in range(3):
        driver.add_guest("alpha", a_guest(number))
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    with writes(database) as statements:
        tracker.audit(SERVICE)
    assert statements == []


def test_the_hypervisor_s_own_view_is_in_the_log_alone(
    conf: cfg.ConfigOpts, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="compute_agent"):
        ResourceTracker(conf, database, Moody(conf)).audit(SERVICE)
    assert "alpha uses 1 of its 65536 MiB" in caplog.text
    assert nodes(database)[0].memory_mb_used == 512


def test_an_old_row_is_written_once_although_it_is_still_true(
    tracker: ResourceTracker, database: Database
) -> None:
    tracker.audit(SERVICE)
    backdate(database)
    tracker.audit(SERVICE)
    assert generations(database) == {"alpha": 2}
    tracker.audit(SERVICE)
    assert generations(database) == {"alpha": 2}


def test_how_old_a_row_may_be_can_be_changed(
    tracker: ResourceTracker, database: Database, conf: cfg.ConfigOpts
) -> None:
    tracker.audit(SERVICE)
    conf.set_override("refresh_interval", 10**9, group="compute_agent")
    backdate(database)
    tracker.audit(SERVICE)
    assert generations(database) == {"alpha": 1}


def test_what_somebody_else_wrote_is_put_right(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1))
    tracker.audit(SERVICE)
    change(database, memory_mb_used=1, stats="{}", generation=5)
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    assert (row.memory_mb_used, row.generation) == (512 + 1024, 6)
    assert json.loads(row.stats)["num_instances"] == "1"


def test_what_somebody_wrote_behind_the_generation_s_back_is_put_right_in_time(
    tracker: ResourceTracker, database: Database, driver: FakeDriver
) -> None:
    driver.add_guest("alpha", a_guest(1))
    tracker.audit(SERVICE)
    change(database, memory_mb_used=1)
    database.write(lambda each: each.execute(sa.delete(instances.table)))
    backdate(database)
    tracker.audit(SERVICE)
    assert nodes(database)[0].memory_mb_used == 512 + 1024
    assert set(guests(database)) == {a_guest(1).uuid}


def test_a_service_that_got_another_row_is_noted(
    tracker: ResourceTracker, database: Database
) -> None:
    tracker.audit(SERVICE)
    tracker.audit({"alpha": 8})
    assert nodes(database)[0].service_id == 8


class Unreliable(Database):
    """A database that breaks before or after the next transaction that writes."""

    before = after = False

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        if self.before:
            raise DatabaseUnavailable("it went away")
        found = super().write(work)
        if self.after:
            raise DatabaseUnavailable("nobody knows whether that was committed")
        return found


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_failed_write_leaves_no_wrong_memory(
    conf: cfg.ConfigOpts, database: Database, driver: FakeDriver, moment: str
) -> None:
    unreliable = Unreliable(database.engine)
    tracker = ResourceTracker(conf, unreliable, driver)
    tracker.audit(SERVICE)
    driver.add_guest("alpha", a_guest(1))
    setattr(unreliable, moment, True)
    with pytest.raises(DatabaseUnavailable):
        tracker.audit(SERVICE)
    setattr(unreliable, moment, False)
    tracker.audit(SERVICE)
    (row,) = nodes(database)
    assert (row.running_vms, row.generation, len(guests(database))) == (1, 2, 1)
    # The guest left before anybody could note that it came.
    driver.remove_guest("alpha", a_guest(1).uuid)
    tracker.audit(SERVICE)
    assert (nodes(database)[0].running_vms, guests(database)) == (0, {})


def test_batches_before_a_failed_one_are_remembered(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    conf.set_override("hosts", 700, group="fake")
    driver = FakeDriver(conf)
    ids = {host: number for number, host in enumerate(driver.hosts())}

    class Half(Database):
        left = 1

        def write(self, work: Callable[[sa.Connection], T]) -> T:
            self.left -= 1
            if self.left < 0:
                raise DatabaseUnavailable("it went away")
            return super().write(work)

    half = Half(database.engine)
    tracker = ResourceTracker(conf, half, driver)
    with pytest.raises(DatabaseUnavailable):
        tracker.audit(ids)
    assert len(nodes(database)) == 500
    half.left = 1
    tracker.audit(ids)
    assert set(generations(database).values()) == {1}
    assert len(nodes(database)) == 700
