# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.migrations."""

import subprocess
import sys

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from inventory import migrations, tables
from inventory.migrations import SchemaError
from tests.databases import a_node, open_at, save

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
    assert migrations.revision(fresh) is None
    before, after = migrations.sync(fresh)
    assert before is None
    assert migrations.revision(fresh) == after
    migrations.check(fresh)
    save(fresh, a_node())
    assert migrations.sync(fresh) == (after, after)
    assert fresh.read(lambda c: c.scalar(sa.select(tables.compute_nodes.c.host))) == "h1"


def test_the_migrations_lead_to_the_tables_of_the_code(fresh):
    migrations.sync(fresh)
    options = {"version_table": migrations.VERSION_TABLE, "compare_type": True}

    def differences(connection):
        return compare_metadata(
            MigrationContext.configure(connection, opts=options), tables.metadata
        )

    assert fresh.read(differences) == []
    assert table_names(fresh) == {*tables.metadata.tables, migrations.VERSION_TABLE}


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
    head = migrations.revision(database)
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


def test_check_says_what_to_do_about_another_release_s_schema(fresh):
    _, head = migrations.sync(fresh)
    execute(fresh, f"UPDATE {migrations.VERSION_TABLE} SET version_num = 'ffff'")
    with pytest.raises(SchemaError, match=f"is at ffff, this release needs {head}: run"):
        migrations.check(fresh)
