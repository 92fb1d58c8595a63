# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names are compared exactly in every column of texts, on a new database and on an upgraded one.

The columns come from the tables of the code, so a new column is checked as well.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import migrations
from inventory.engine import Database
from inventory.tables import metadata
from tests.databases import execute, open_at
from tests.fixtures.daemons.mariadb import MariaDB

# Case, accents, blanks at the end, one character in two forms, characters that fold to several.
ALIKE = ["rack", "Rack", "räck", "ra\u0308ck", "rack ", "rack\t", "strasse", "straße", ""]

COLUMNS = [
    column
    for table in metadata.sorted_tables
    for column in table.columns
    if isinstance(column.type, sa.String)
]


def of_kind(column: sa.Column[Any], number: int) -> Any:
    """Return a value that a column may have, another one for each number."""
    kind = column.type
    if isinstance(kind, sa.String):
        return str(number)
    if isinstance(kind, sa.DateTime):
        return sa.func.current_timestamp()
    if isinstance(kind, sa.LargeBinary):
        return b""
    return False if isinstance(kind, sa.Boolean) else number


def needed(table: sa.Table) -> list[sa.Column[Any]]:
    return [each for each in table.columns if not each.nullable]


def share_a_key(column: sa.Column[Any], other: sa.Column[Any]) -> bool:
    """Return whether a key has both columns."""
    unique = (sa.UniqueConstraint, sa.PrimaryKeyConstraint)
    found = (each.columns for each in column.table.constraints if isinstance(each, unique))
    return any(column.name in each and other.name in each for each in found)


def write(connection: sa.Connection, column: sa.Column[Any]) -> None:
    """Write a row for each of the texts; if a key has the column, that alone tells the rows apart.

    All other columns differ, since they may have keys of their own.
    """
    for key in column.table.foreign_keys:
        parent = key.column.table
        for number, _ in enumerate(ALIKE, 1):
            row = {each.name: of_kind(each, number) for each in needed(parent)}
            connection.execute(sa.insert(parent).values(**row))
    for number, text in enumerate(ALIKE, 1):
        row = {
            each.name: of_kind(each, 1 if share_a_key(column, each) else number)
            for each in needed(column.table)
        }
        connection.execute(sa.insert(column.table).values(**row | {column.name: text}))


def check(database: Database, column: sa.Column[Any]) -> None:
    """Check that texts which are alike stay apart in whatever SQL compares."""
    database.write(lambda connection: write(connection, column))

    def work(connection: sa.Connection) -> None:
        groups = sa.select(column, sa.func.count()).group_by(column)
        assert {*connection.execute(groups)} == {(text, 1) for text in ALIKE}
        assert len(connection.scalars(sa.select(column).distinct()).all()) == len(ALIKE)
        for text in ALIKE:
            for condition in (column == text, column.in_([text])):
                assert connection.scalars(sa.select(column).where(condition)).all() == [text]
            begins = sa.select(column).where(column.startswith(text, autoescape=True))
            found = {*connection.scalars(begins)}
            assert found == {each for each in ALIKE if each.startswith(text)}
        other = column.table.alias()
        joined = sa.select(column).join(other, other.c[column.name] == column)
        assert sorted(connection.scalars(joined)) == sorted(ALIKE)
        in_order = connection.scalars(sa.select(column).order_by(column)).all()
        assert in_order == sorted(ALIKE)

    database.read(work)


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_texts_that_are_alike_stay_apart(database: Database, column: sa.Column[Any]) -> None:
    check(database, column)


def test_tables_of_an_earlier_schema_are_converted(old_schema: Database) -> None:
    migrations.sync(old_schema)
    for column in COLUMNS:
        check(old_schema, column)
        for table in reversed(metadata.sorted_tables):
            execute(old_schema, f"DELETE FROM {table.name}")


@pytest.mark.daemons
def test_a_conversion_may_take_longer_than_any_other_answer(mariadb: MariaDB) -> None:
    """Here it waits for a reader; a large table is copied for minutes."""
    url = mariadb.create_database(f"test_{uuid4().hex}")
    with closing(open_at(f"{url}&read_timeout=1")) as hasty, ThreadPoolExecutor() as threads:
        migrations.sync(hasty)
        execute(hasty, "ALTER TABLE aggregates CONVERT TO CHARACTER SET utf8mb4")
        with hasty.engine.connect() as reader, reader.begin():
            reader.execute(sa.text("SELECT * FROM aggregates"))
            synced = threads.submit(migrations.sync, hasty)
            with pytest.raises(TimeoutError):
                synced.result(timeout=2.5)
        assert synced.result() == (migrations.HEAD, migrations.HEAD)
        migrations.check(hasty)
