# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A database of Nova's on a real server: read, and never written."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from tests.contract.database.conftest import NewDatabase
from tests.fixtures.daemons.mariadb import MariaDB

Write = Callable[[str], None]


@pytest.fixture
def url(new_database: NewDatabase) -> str:
    return new_database()


@pytest.fixture
def write(url: str) -> Iterator[Write]:
    """Run a statement as Nova does, on a table of mappings with one row."""
    engine = sa.create_engine(url)

    def run(statement: str) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)

    run("CREATE TABLE host_mappings (id INTEGER PRIMARY KEY, host VARCHAR(255), cell_id INTEGER)")
    run("INSERT INTO host_mappings VALUES (1, 'h1', 1)")
    yield run
    engine.dispose()


@pytest.fixture
def database(url: str) -> Iterator[NovaDatabase]:
    with closing(NovaDatabase("nova_api", url)) as found:
        yield found


def test_a_fingerprint_changes_with_every_row(write: Write, database: NovaDatabase) -> None:
    def fingerprint() -> object:
        columns = "host", "cell_id"
        return database.read(lambda each: database.fingerprint(each, "host_mappings", *columns))

    seen = [fingerprint()]
    assert fingerprint() == seen[0]
    for statement in (
        "INSERT INTO host_mappings VALUES (2, 'h2', 1)",
        "UPDATE host_mappings SET cell_id = 2 WHERE id = 2",
        "UPDATE host_mappings SET cell_id = NULL WHERE id = 1",
        "DELETE FROM host_mappings WHERE id = 1",
        "DELETE FROM host_mappings",
    ):
        write(statement)
        seen.append(fingerprint())
    assert len(set(seen)) == len(seen)


def test_fingerprints_by_host_tell_where_a_row_has_changed(
    write: Write, database: NovaDatabase
) -> None:
    def fingerprints() -> dict[str, object]:
        found = database.read(
            lambda each: database.fingerprints(each, "host_mappings", "id", "cell_id")
        )
        return dict(found)

    write("INSERT INTO host_mappings VALUES (2, 'h2', 1), (3, 'h2', 1), (4, NULL, 1)")
    before = fingerprints()
    assert before.keys() == {"h1", "h2"}
    assert fingerprints() == before
    write("UPDATE host_mappings SET cell_id = NULL WHERE id = 3")
    changed = fingerprints()
    assert (changed["h1"], changed["h2"] == before["h2"]) == (before["h1"], False)
    # Two that change their places are no news in all together.
    write("UPDATE host_mappings SET host = CASE host WHEN 'h1' THEN 'h2' ELSE 'h1' END")
    assert {host for host, each in fingerprints().items() if each != changed[host]} == {"h1", "h2"}


@pytest.fixture
def reader(mariadb: MariaDB, url: str) -> Iterator[str]:
    """The URL of the same database with an account that may only read it."""
    parsed = sa.make_url(url)
    mariadb.execute_as_root("CREATE USER 'reader'@'%' IDENTIFIED BY 'a password'")
    mariadb.execute_as_root(f"GRANT SELECT ON `{parsed.database}`.* TO 'reader'@'%'")
    own = parsed.set(username="reader", password="a password")
    yield own.render_as_string(hide_password=False)
    mariadb.execute_as_root("DROP USER 'reader'@'%'")


@pytest.mark.daemons
@pytest.mark.parametrize("new_database", ["mariadb"], indirect=True)
def test_nothing_is_written_whatever_the_account_may(
    write: Write, database: NovaDatabase, reader: str
) -> None:
    assert database.may_write()
    with pytest.raises(NovaDatabaseUnavailable, match="READ ONLY"):
        database.read(lambda each: each.exec_driver_sql("DELETE FROM host_mappings"))
    with closing(NovaDatabase("nova_api", reader)) as other:
        assert not other.may_write()
        assert [row.host for row in other.rows("host_mappings", "host")] == ["h1"]
