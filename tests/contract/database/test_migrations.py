# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.migrations."""

import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from oslo_db.exception import DBError

from inventory import decisions, instances, migrations, services, tables
from inventory.decisions import DecisionRow, SnapshotBatch
from inventory.migrations import SchemaError
from scheduler.decision.pipeline import Plan, decide
from scheduler.filters.ram import RamFilter
from scheduler.history.saved_decision import from_database
from tests.databases import a_node, open_at, save
from tests.fixtures.daemons.process import PATIENCE

# Decisions as they were saved at 0009.
DECISIONS = Path(__file__).parents[2] / "fixtures" / "decisions_version_1"

SYNC = "import sys; from tests.databases import open_at; from inventory import migrations;" + (
    "print(migrations.sync(open_at(sys.argv[1])))"
)


def execute(database, *statements):
    database.write(lambda c: [c.execute(sa.text(each)) for each in statements])


def table_names(database):
    return set(database.read(lambda c: sa.inspect(c).get_table_names()))


def test_sync_creates_everything_once(fresh):
    assert fresh.read(migrations.revision) is None
    before, after = migrations.sync(fresh)
    assert before is None
    assert fresh.read(migrations.revision) == after == migrations.HEAD
    migrations.check(fresh)
    save(fresh, a_node())
    assert migrations.sync(fresh) == (after, after)
    assert fresh.read(lambda c: c.scalar(sa.select(tables.compute_nodes.c.host))) == "h1"


def differences(connection):
    """Return what the database has other than the tables of the code."""
    options = {"version_table": migrations.VERSION_TABLE, "compare_type": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), tables.metadata)


def test_the_migrations_lead_to_the_tables_of_the_code(fresh):
    migrations.sync(fresh)
    assert fresh.read(differences) == []
    assert table_names(fresh) == {*tables.metadata.tables, migrations.VERSION_TABLE}


@pytest.fixture
def at_0009(old_schema):
    """Return a database at 0009 with rows in it."""
    execute(
        old_schema,
        "INSERT INTO instances (uuid, host, node, vcpus, memory_mb, root_gb, vm_state, flavor_id)"
        " VALUES ('u1', 'h1', 'n1', 1, 1024, 10, 'active', 7)",
        "INSERT INTO services (uuid, host, `binary`, topic, disabled, forced_down, report_count)"
        " VALUES ('s1', 'h1', 'nova-compute', 'compute', 1, 0, 5)",
    )
    old_schema.write(save_decisions)
    return old_schema


def save_decisions(connection):
    """Save two decisions in the columns of 0009, and delete the later one."""
    document, data = [
        zlib.compress((DECISIONS / f"{name}.json").read_bytes())
        for name in ("refused", "snapshots")
    ]
    decision = (
        "INSERT INTO decisions (request_id, decided_at, scheduler, outcome, instances,"
        " milliseconds, conflicts, film, frame, document) VALUES"
        " ('req-1', '2026-01-02 03:04:05', 's1', 'refused', 1, 1.5, 0, 'p1-1', :number, :document)"
    )
    for number in (0, 1):
        connection.execute(sa.text(decision), {"number": number, "document": document})
    snapshots = (
        "INSERT INTO decision_inputs (film, first, piece, written_at, data)"
        " VALUES ('p1-1', 0, 0, '2026-01-02 03:04:05', :data)"
    )
    connection.execute(sa.text(snapshots), {"data": data})
    connection.execute(sa.text("DELETE FROM decisions WHERE frame = 1"))


def statements(connection):
    """Return what would make the tables again, and which schema they say that they are of."""
    if connection.dialect.name == "sqlite":
        query = sa.text("SELECT name, sql FROM sqlite_master ORDER BY name")
        found = connection.execute(query).all()
    else:
        names = sorted(sa.inspect(connection).get_table_names())
        found = [connection.execute(sa.text(f"SHOW CREATE TABLE `{name}`")).one() for name in names]
    return [tuple(each) for each in found], migrations.read_schema(connection)


def parts(connection):
    """Return {table: its columns, keys and indexes} in an order that does not matter."""
    inspector = sa.inspect(connection)
    found = {
        table: [
            *inspector.get_columns(table),
            *inspector.get_unique_constraints(table),
            *inspector.get_indexes(table),
            *inspector.get_foreign_keys(table),
            inspector.get_pk_constraint(table),
        ]
        for table in inspector.get_table_names()
    }
    return {table: sorted(map(repr, each)) for table, each in found.items()}


def check_rows(database):
    """Check that a database has the rows of at_0009."""
    (row,) = database.read(instances.all_live)
    assert (row.uuid, row.memory_mb, row.vm_state, row.flavor_id) == ("u1", 1024, "active", 7)
    (service,) = database.read(services.all_live)
    assert (service.disabled, service.report_count, service.maintenance) == (True, 5, None)
    (decision,) = database.read(lambda c: decisions.find(c, "req-1"))
    assert (decision.id, decision.snapshot_log, decision.snapshot_number) == (1, "p1-1", 0)
    saved = database.read(lambda c: from_database(c, decision))
    assert saved.is_same(decide(saved.table(), saved.record.request, Plan([RamFilter()])))


def db_sync(database, directory):
    """Return what the command prints about a database."""
    config = directory / "berthmaster.conf"
    url = database.engine.url.render_as_string(hide_password=False)
    config.write_text(f"[database]\nconnection = {url}\n")
    program = Path(sys.executable).parent / "berthmaster"
    command = [program, "--config-file", config, "db", "sync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_database_of_0009_is_upgraded_with_its_rows(at_0009, tmp_path):
    with pytest.raises(SchemaError) as raised:
        migrations.check(at_0009)
    assert str(raised.value) == (
        "the database's schema is at 0009, this release needs 0018: stop all daemons, then run"
        " 'berthmaster db sync' of this release"
    )
    assert db_sync(at_0009, tmp_path).endswith(" is now at 0018.\n")
    migrations.check(at_0009)
    assert at_0009.read(differences) == []
    check_rows(at_0009)
    # No id is used again.
    saved = DecisionRow("p1-1", 2, time.monotonic(), "s1", "refused", 1.5, 0, b"later", "req-2")
    at_0009.write(lambda c: decisions.add(c, [saved], [SnapshotBatch("p1-1", 2, b"later")]))
    assert [row.id for row in at_0009.read(lambda c: decisions.find(c, "req-2"))] == [3]
    before = at_0009.read(statements)
    assert db_sync(at_0009, tmp_path).endswith(" is already at 0018.\n")
    assert at_0009.read(statements) == before


def test_a_new_database_is_as_an_upgraded_one(at_0009, new_database):
    migrations.sync(at_0009)
    made = open_at(new_database())
    migrations.sync(made)
    assert made.read(parts) == at_0009.read(parts)
    assert made.read(migrations.read_schema) == at_0009.read(migrations.read_schema)
    made.close()


@pytest.mark.parametrize("revision", ["0001", "0008"])
def test_a_database_from_before_the_first_release_is_refused_as_it_is(at_0009, revision):
    execute(at_0009, f"UPDATE {migrations.VERSION_TABLE} SET version_num = '{revision}'")
    before = at_0009.read(statements)
    for refused in (migrations.check, migrations.sync):
        with pytest.raises(SchemaError) as raised:
            refused(at_0009)
        assert str(raised.value) == (
            f"the database's schema is at {revision}, made before the first release, too old for"
            " 'db sync': give [database] connection an empty database and run 'berthmaster db"
            " sync', or keep the rows as doc/source/admin/upgrading.rst says"
        )
    assert at_0009.read(statements) == before


class Killed(Exception):
    """Stands for what ends db sync in the middle of its work."""


def sync_killed_after(database, done):
    """Sync a database and end that in place of the change after so many."""
    changes = []

    def count(_connection, _cursor, statement, *_):
        if statement.split()[0] in ("ALTER", "CREATE"):
            if len(changes) == done:
                raise Killed(statement)
            changes.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    # oslo.db translates what it does not know.
    with pytest.raises((Killed, DBError)):
        migrations.sync(database)
    sa.event.remove(sa.Engine, "before_cursor_execute", count)


# The first, one in the middle and one of the last changes; all others are for the matrix.
@pytest.mark.parametrize(
    "done",
    [
        each if each in (1, 16, 40) else pytest.param(each, marks=pytest.mark.matrix)
        for each in range(1, 43, 3)
    ],
)
def test_a_first_sync_that_is_killed_between_two_changes_can_be_repeated(fresh, done):
    sync_killed_after(fresh, done)
    with pytest.raises(SchemaError, match="no tables of Berthmaster yet: run 'berthmaster db"):
        migrations.check(fresh)
    assert migrations.sync(fresh)[1] == migrations.HEAD
    assert fresh.read(differences) == []


def check_next(database):
    """Check that a database has what the next step adds, and its rows."""
    migrations.check(database)
    names = ("compute_nodes", "services", "next_things")
    found = database.read(lambda c: [sa.inspect(c).get_columns(name) for name in names])
    assert [columns[-1]["name"] for columns in found] == ["next_number", "next_name", "id"]
    check_rows(database)


# MariaDB keeps the changes of both steps one by one, SQLite none of them.
@pytest.mark.parametrize("done", range(1, 6))
def test_an_upgrade_that_is_killed_between_two_changes_can_be_repeated(at_0009, next_step, done):
    sync_killed_after(at_0009, done)
    with pytest.raises(SchemaError, match=rf"this release needs {next_step}.* run 'berthmaster db"):
        migrations.check(at_0009)
    assert migrations.sync(at_0009)[1] == next_step
    check_next(at_0009)


def test_three_processes_that_sync_at_once(new_database):
    url = new_database()
    command = [sys.executable, "-c", SYNC, url]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [(each.communicate(timeout=PATIENCE), each.returncode) for each in running]
    assert [status for _, status in results] == [0, 0, 0], results
    found = sorted(output.strip() for (output, _), _ in results)
    database = open_at(url)
    head = database.read(migrations.revision)
    database.close()
    assert found == sorted([f"(None, '{head}')", *[f"('{head}', '{head}')"] * 2])


@pytest.mark.parametrize("name", ["services", "compute_nodes"])
def test_a_database_with_tables_of_somebody_else_is_refused(fresh, name):
    execute(fresh, f"CREATE TABLE {name} (id INTEGER)", "CREATE TABLE alembic_version (x INTEGER)")
    with pytest.raises(SchemaError, match=rf"another program \({name}\), perhaps Nova's"):
        migrations.sync(fresh)
    assert table_names(fresh) == {name, "alembic_version"}


def test_tables_that_are_in_nobody_s_way_are_left_alone(fresh):
    execute(fresh, "CREATE TABLE of_somebody_else (id INTEGER)")
    migrations.sync(fresh)
    assert "of_somebody_else" in table_names(fresh)
    migrations.check(fresh)


def test_check_says_what_to_do_about_an_empty_database(fresh):
    with pytest.raises(
        SchemaError, match="no tables of Berthmaster yet: run 'berthmaster db sync'"
    ):
        migrations.check(fresh)
