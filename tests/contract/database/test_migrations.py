# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.migrations."""

import subprocess
import sys

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from oslo_db.exception import DBError

from inventory import instance_migrations, instances, migrations, services, tables
from inventory.migrations import SchemaError
from tests.databases import a_node, open_at, save
from tests.records import migrate

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


def upgrade(database, revision):
    """Bring a database to a revision that need not be the newest."""
    with migrations._exclusive(database) as connection:
        config = migrations._config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@pytest.fixture
def first_release(fresh):
    """Return a database as the first release has left it, with an instance in it."""
    upgrade(fresh, "0001")
    execute(
        fresh,
        "INSERT INTO instances (uuid, host, node, vcpus, memory_mb, root_gb)"
        " VALUES ('u1', 'h1', 'n1', 1, 1024, 10)",
    )
    return fresh


def test_sync_upgrades_a_database_of_the_first_release(first_release):
    with pytest.raises(SchemaError, match="is at 0001, this release needs"):
        migrations.check(first_release)
    before, after = migrations.sync(first_release)
    assert (before, first_release.read(migrations.revision)) == ("0001", after)
    migrations.check(first_release)
    (row,) = first_release.read(instances.all_live)
    assert (row.uuid, row.host, row.memory_mb) == ("u1", "h1", 1024)
    assert (row.flavor_id, row.flavor_name, row.image_properties) == (None, None, None)
    assert first_release.read(differences) == []


def test_an_upgrade_that_was_interrupted_goes_on(first_release):
    execute(first_release, "ALTER TABLE instances ADD COLUMN flavor_id INTEGER")
    before, after = migrations.sync(first_release)
    assert (before, first_release.read(migrations.revision)) == ("0001", after)
    assert first_release.read(instances.all_live)[0].flavor_name is None


@pytest.fixture
def second_release(fresh):
    """Return a database at 0002, with rows in the tables that change after it."""
    upgrade(fresh, "0002")
    execute(
        fresh,
        "INSERT INTO instances (uuid, host, node, vcpus, memory_mb, root_gb, vm_state, flavor_id)"
        " VALUES ('u1', 'h1', 'n1', 1, 1024, 10, 'active', 7)",
        "INSERT INTO services (uuid, host, `binary`, topic, disabled, forced_down, report_count)"
        " VALUES ('s1', 'h1', 'nova-compute', 'compute', 1, 0, 5)",
    )
    return fresh


def check_upgraded(database):
    """Check that a database that was at 0002 has the newest schema and its rows."""
    migrations.check(database)
    assert database.read(differences) == []
    (row,) = database.read(instances.all_live)
    assert (row.uuid, row.memory_mb, row.vm_state, row.flavor_id) == ("u1", 1024, "active", 7)
    assert (row.managed, row.task_state, row.os_type) == (False, None, None)
    assert (row.ephemeral_gb, row.swap_mb) == (0, 0)
    (service,) = database.read(services.all_live)
    assert (service.disabled, service.report_count, service.maintenance) == (True, 5, None)


def test_rows_of_the_second_release_keep_what_they_say(second_release):
    assert migrations.sync(second_release)[0] == "0002"
    check_upgraded(second_release)
    migrate(second_release, "u1", "h1", "h2")
    assert [row.source_node for row in second_release.read(under_way)] == ["h1"]


def under_way(connection):
    return instance_migrations.under_way(connection, ["h1"])


class Killed(Exception):
    """Stands for what ends db sync in the middle of its work."""


# The first, one in the middle and the last of the changes; all others are for the matrix.
@pytest.mark.parametrize(
    "done",
    [
        each if each in (1, 13, 23) else pytest.param(each, marks=pytest.mark.matrix)
        for each in range(1, 25, 2)
    ],
)
def test_an_upgrade_that_is_killed_between_two_changes_can_be_repeated(second_release, done):
    changes = []

    def count(_connection, _cursor, statement, *_):
        if statement.split()[0] in ("ALTER", "CREATE"):
            if len(changes) == done:
                raise Killed(statement)
            changes.append(statement)

    engine = second_release.engine
    sa.event.listen(engine, "before_cursor_execute", count)
    # oslo.db translates what it does not know.
    with pytest.raises((Killed, DBError)):
        migrations.sync(second_release)
    sa.event.remove(engine, "before_cursor_execute", count)
    # MariaDB keeps the revisions before the one that was being made.
    with pytest.raises(SchemaError, match=r"is at 000[234], this release needs"):
        migrations.check(second_release)
    migrations.sync(second_release)
    check_upgraded(second_release)


def test_three_processes_that_sync_at_once(new_database):
    url = new_database()
    command = [sys.executable, "-c", SYNC, url]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [(each.communicate(timeout=60), each.returncode) for each in running]
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
