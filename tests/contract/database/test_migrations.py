# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.migrations."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from oslo_db.exception import DBError

from inventory import instances, migrations, services, tables
from inventory.migrations import SchemaError
from tests.databases import a_node, open_at, save
from tests.fixtures.daemons.process import PATIENCE

# Schemas as db sync left them when nine steps led to 0009.
OF_NINE_STEPS = Path(__file__).parents[2] / "fixtures" / "schema_0009"

SYNC = "import sys; from tests.databases import open_at; from inventory import migrations;" + (
    "print(migrations.sync(open_at(sys.argv[1])))"
)


@pytest.fixture
def fresh(new_database):
    """Yield a database without tables."""
    database = open_at(new_database())
    yield database
    database.close()


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
def nine_steps(fresh):
    """Return a database that nine steps have led to 0009, with rows in it."""
    text = (OF_NINE_STEPS / f"{fresh.engine.dialect.name}.sql").read_text()
    execute(
        fresh,
        *text.strip().removesuffix(";").split(";\n"),
        "INSERT INTO instances (uuid, host, node, vcpus, memory_mb, root_gb, vm_state, flavor_id)"
        " VALUES ('u1', 'h1', 'n1', 1, 1024, 10, 'active', 7)",
        "INSERT INTO services (uuid, host, `binary`, topic, disabled, forced_down, report_count)"
        " VALUES ('s1', 'h1', 'nova-compute', 'compute', 1, 0, 5)",
    )
    return fresh


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
    """Check that a database has the rows of nine_steps."""
    (row,) = database.read(instances.all_live)
    assert (row.uuid, row.memory_mb, row.vm_state, row.flavor_id) == ("u1", 1024, "active", 7)
    (service,) = database.read(services.all_live)
    assert (service.disabled, service.report_count, service.maintenance) == (True, 5, None)


def test_a_database_of_the_nine_steps_stays_as_it_is(nine_steps, tmp_path):
    before = nine_steps.read(statements)
    migrations.check(nine_steps)
    config = tmp_path / "berthmaster.conf"
    url = nine_steps.engine.url.render_as_string(hide_password=False)
    config.write_text(f"[database]\nconnection = {url}\n")
    program = Path(sys.executable).parent / "berthmaster"
    command = [program, "--config-file", config, "db", "sync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" is already at 0009.\n")
    migrations.check(nine_steps)
    assert nine_steps.read(statements) == before
    assert nine_steps.read(differences) == []
    check_rows(nine_steps)


def test_a_new_database_is_as_those_of_the_nine_steps(nine_steps, new_database):
    made = open_at(new_database())
    migrations.sync(made)
    assert made.read(parts) == nine_steps.read(parts)
    assert made.read(migrations.read_schema) == nine_steps.read(migrations.read_schema)
    made.close()


@pytest.mark.parametrize("revision", ["0001", "0008"])
def test_a_database_from_before_the_first_release_is_refused_as_it_is(nine_steps, revision):
    execute(nine_steps, f"UPDATE {migrations.VERSION_TABLE} SET version_num = '{revision}'")
    before = nine_steps.read(statements)
    for refused in (migrations.check, migrations.sync):
        with pytest.raises(SchemaError) as raised:
            refused(nine_steps)
        assert str(raised.value) == (
            f"the database's schema is at {revision}, made before the first release, whose schema"
            " is 0009: give [database] connection an empty database and run 'berthmaster db sync',"
            " or keep the rows as doc/source/admin/upgrading.rst says"
        )
    assert nine_steps.read(statements) == before


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

    sa.event.listen(database.engine, "before_cursor_execute", count)
    # oslo.db translates what it does not know.
    with pytest.raises((Killed, DBError)):
        migrations.sync(database)
    sa.event.remove(database.engine, "before_cursor_execute", count)


# The first, one in the middle and one of the last changes; all others are for the matrix.
@pytest.mark.parametrize(
    "done",
    [
        each if each in (1, 16, 34) else pytest.param(each, marks=pytest.mark.matrix)
        for each in range(1, 35, 3)
    ],
)
def test_a_first_sync_that_is_killed_between_two_changes_can_be_repeated(fresh, done):
    sync_killed_after(fresh, done)
    with pytest.raises(SchemaError, match="no tables of Berthmaster yet: run 'berthmaster db"):
        migrations.check(fresh)
    assert migrations.sync(fresh) == (None, migrations.HEAD)
    assert fresh.read(differences) == []


def check_next(database):
    """Check that a database has what the next step adds, and its rows."""
    migrations.check(database)
    names = ("compute_nodes", "services", "next_things")
    found = database.read(lambda c: [sa.inspect(c).get_columns(name) for name in names])
    assert [columns[-1]["name"] for columns in found] == ["next_number", "next_name", "id"]
    check_rows(database)


@pytest.mark.parametrize("done", [1, 2])
def test_an_upgrade_that_is_killed_between_two_changes_can_be_repeated(nine_steps, next_step, done):
    sync_killed_after(nine_steps, done)
    # MariaDB keeps the changes, not the revision.
    with pytest.raises(SchemaError, match="is at 0009, this release needs 0010: run 'berthmaster"):
        migrations.check(nine_steps)
    assert migrations.sync(nine_steps) == ("0009", next_step)
    check_next(nine_steps)


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
