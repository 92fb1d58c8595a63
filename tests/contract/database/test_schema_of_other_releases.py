# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A schema serves the release before, and says so; what starts on which, and the cures."""

from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from inventory import migrations
from inventory.engine import Database
from inventory.migrations import HEAD, Schema, SchemaError
from tests.databases import execute

Column = tuple[str, bool]
Shape = dict[str, dict[str, Any]]


@pytest.fixture
def synced(fresh: Database) -> Database:
    """Return a database of this release."""
    migrations.sync(fresh)
    return fresh


def say(database: Database, revision: str, oldest_code: str | None) -> None:
    """Let a database say what that of another release says."""
    table, column = migrations.VERSION_TABLE, migrations.OLDEST_CODE
    values = {"revision": revision, "oldest": oldest_code}
    execute(database, f"UPDATE {table} SET version_num = :revision, {column} = :oldest", **values)


def steps() -> list[Any]:
    """Return the modules of all steps, the first one first."""
    found = ScriptDirectory.from_config(migrations._config()).walk_revisions()
    return [step.module for step in found][::-1]


@pytest.mark.usefixtures("next_step")
def test_each_step_names_the_oldest_code_that_works_with_it():
    revisions = [step.revision for step in steps()]
    # Other releases compare them as texts.
    first = int(migrations.FIRST)
    assert revisions == [f"{number:04}" for number in range(first, first + len(revisions))]
    for number, step in enumerate(steps()):
        # The first step stands for earlier ones, which are gone.
        assert step.oldest_code in revisions[: number + 1] or number == 0
        if step.revision > migrations.FIRST_RELEASED:
            assert step.oldest_code < step.revision, f"{step.revision} shuts out the release before"


def shape(connection: sa.Connection) -> Shape:
    """Return {table: {column: what it is}} and the columns that are unique together."""
    inspector, found = sa.inspect(connection), {}
    for table in set(inspector.get_table_names()) - {migrations.VERSION_TABLE}:
        columns = inspector.get_columns(table)
        unique = inspector.get_unique_constraints(table)
        found[table] = {
            "columns": {each["name"]: str(each["type"]) for each in columns},
            "needed": {
                each["name"]
                for each in columns
                if not each["nullable"] and each["default"] is None and each["name"] != "id"
            },
            "unique": {tuple(sorted(each["column_names"])) for each in unique},
        }
    return found


@pytest.mark.usefixtures("next_step")
def test_a_step_takes_nothing_away_from_the_code_that_it_says_it_works_with(old_schema):
    shapes: dict[str, Shape] = {}
    for step in steps():
        with migrations._exclusive(old_schema) as connection:
            config = migrations._config()
            config.attributes["connection"] = connection
            command.upgrade(config, step.revision)
            shapes[step.revision] = shape(connection)
        for revision, before in shapes.items():
            if revision >= step.oldest_code:
                assert_serves(shapes[step.revision], before)


def assert_serves(after: Shape, before: Shape) -> None:
    """Check that code which reads and writes one schema can do so with a later one."""
    for table, was in before.items():
        now = after[table]
        for name, kind in was["columns"].items():
            assert now["columns"][name] == kind, f"{table}.{name}"
        # What earlier code writes has no value for a column that it does not know.
        assert now["needed"] <= was["needed"], table
        assert now["unique"] <= was["unique"], table


def test_sync_says_which_code_may_start(synced):
    schema = synced.read(migrations.read_schema)
    assert schema == (HEAD, max(step.oldest_code for step in steps()))
    say(synced, HEAD, None)
    migrations.check(synced)
    assert migrations.sync(synced) == (HEAD, HEAD)
    assert synced.read(migrations.read_schema) == schema


def test_a_database_of_an_earlier_release_says_so_from_its_next_sync_on(synced):
    table, column = migrations.VERSION_TABLE, migrations.OLDEST_CODE
    execute(synced, f"ALTER TABLE {table} DROP COLUMN {column}")
    migrations.check(synced)
    assert synced.read(migrations.read_schema) == (HEAD, None)
    migrations.sync(synced)
    assert synced.read(migrations.read_schema).oldest_code is not None


@pytest.mark.parametrize("oldest_code", ["0001", HEAD])
def test_a_later_schema_that_works_with_this_release_is_used_and_left_alone(synced, oldest_code):
    say(synced, "9999", oldest_code)
    migrations.check(synced)
    assert migrations.sync(synced) == ("9999", "9999")
    assert synced.read(migrations.read_schema) == ("9999", oldest_code)


@pytest.mark.parametrize(
    ("oldest_code", "works_with"), [("9998", "9998"), ("9999", "9999"), (None, "9999")]
)
def test_a_later_schema_that_does_not_work_with_this_release_is_refused(
    synced, oldest_code, works_with
):
    say(synced, "9999", oldest_code)
    message = (
        f"the database's schema is at 9999 and works with releases of schema {works_with} and"
        f" later, but this release has schema {HEAD}: install a later release on this machine"
    )
    for refused in (migrations.check, migrations.sync):
        with pytest.raises(SchemaError) as raised:
            refused(synced)
        assert str(raised.value) == message


def test_a_sync_that_takes_away_what_this_release_needs_is_noticed_before_its_end(synced):
    say(synced, HEAD, "9999")
    with pytest.raises(SchemaError, match="works with releases of schema 9999 and later"):
        migrations.check(synced)


def test_an_earlier_schema_has_to_be_synced_by_this_release(synced, next_step):
    with pytest.raises(SchemaError) as raised:
        migrations.check(synced)
    assert str(raised.value) == (
        f"the database's schema is at {HEAD}, this release needs {next_step}: run 'berthmaster db"
        " sync' of this release; daemons of the release before go on meanwhile"
    )


def test_a_database_without_tables_has_to_be_synced_once(fresh):
    with pytest.raises(SchemaError, match="has no tables of Berthmaster yet: run 'berthmaster db"):
        migrations.check(fresh)


@pytest.mark.parametrize(
    ("schema", "code", "starts"),
    [
        (Schema("0010", "0009"), "0009", True),
        (Schema("0010", "0009"), "0010", True),
        (Schema("0010", "0009"), "0008", False),
        (Schema("0010", "0009"), "0011", False),
        (Schema("0011", "0010"), "0009", False),
    ],
)
def test_code_starts_on_its_own_schema_and_on_later_ones_that_name_it(schema, code, starts):
    assert (schema.refusal(code) == "") == starts
