# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""db sync excludes other ones by a row, which every member of a cluster has."""

from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import leases, migrations, tables
from inventory.engine import Database
from inventory.migrations import SchemaError, sync_lock
from tests.databases import open_at
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, wait_until

OTHER = "controller2, process 7, 1a2b3c4d"


@pytest.fixture
def fresh(mariadb: MariaDB) -> Iterator[Database]:
    """A database of a server, in which another db sync has begun and made one table."""
    with closing(open_at(mariadb.create_database(f"test_{uuid4().hex}"))) as found:
        found.write(tables.leases.create)
        yield found


def test_no_sync_begins_beside_another_one(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_lock, "WAIT", 0.0)
    leases.hold(fresh, sync_lock.NAME, OTHER, seconds=60)
    with pytest.raises(SchemaError, match=f"another db sync has been at work .* on host {OTHER}"):
        migrations.sync(fresh)
    assert fresh.read(migrations.revision) is None


def test_a_sync_that_was_killed_holds_up_the_next_one_for_its_lease_only(fresh: Database) -> None:
    leases.hold(fresh, sync_lock.NAME, OTHER, seconds=-1)
    said: list[str] = []
    sa.event.listen(
        fresh.engine, "before_cursor_execute", lambda _c, _cursor, text, *_: said.append(text)
    )
    assert migrations.sync(fresh) == (None, migrations.HEAD)
    # What Percona XtraDB Cluster refuses when pxc_strict_mode is ENFORCING.
    assert not [text for text in said if "get_lock" in text.lower() or "LOCK TABLES" in text]
    assert fresh.read(lambda each: each.execute(sa.select(tables.leases)).all()) == []


def test_a_long_sync_keeps_its_lease(fresh: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_lock, "LEASE", 1.0)
    monkeypatch.setattr(sync_lock, "RENEWAL", 0.05)

    def end() -> object:
        return fresh.read(lambda each: each.scalar(sa.select(tables.leases.c.expires_at)))

    with sync_lock.held(fresh):
        first = end()
        assert wait_until(lambda: end() != first)


def test_a_sync_waits_for_the_end_of_another_one(fresh: Database) -> None:
    leases.hold(fresh, sync_lock.NAME, OTHER, seconds=60)
    results: list[object] = []
    waiting = Thread(target=lambda: results.append(migrations.sync(fresh)))
    waiting.start()
    leases.release(fresh, sync_lock.NAME, OTHER)
    waiting.join(PATIENCE)
    assert results == [(None, migrations.HEAD)]


def test_every_table_has_a_primary_key_as_clusters_ask(fresh: Database) -> None:
    migrations.sync(fresh)

    def without_key(connection: sa.Connection) -> list[str]:
        inspector = sa.inspect(connection)
        names = inspector.get_table_names()
        return [
            each for each in names if not inspector.get_pk_constraint(each)["constrained_columns"]
        ]

    assert fresh.read(without_key) == []


def test_a_first_sync_that_was_killed_between_two_tables_goes_on(fresh: Database) -> None:
    for table in (tables.aggregates, tables.compute_nodes):
        fresh.write(table.create)
    assert migrations.sync(fresh) == (None, migrations.HEAD)
