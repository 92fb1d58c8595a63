# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's databases, in whatever schema they are."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable, allows_writing
from tests.nova_tables import NovaTables


@pytest.fixture
def database(tmp_path: Path) -> Iterator[NovaDatabase]:
    tables = NovaTables(tmp_path / "cell", without=["uuid"])
    tables.add_host("h1", uuid=None)
    tables.add_host("h2", uuid=None, deleted=2)
    with closing(tables), closing(tables.open()) as found:
        yield found


def test_a_column_that_a_release_lacks_is_none(database: NovaDatabase) -> None:
    (row,) = database.rows("compute_nodes", "host", "uuid")
    assert (row.host, row.uuid) == ("h1", None)


def test_a_table_that_is_missing_is_named(database: NovaDatabase) -> None:
    with pytest.raises(NovaDatabaseUnavailable, match=r"database cell1 .* no table floating_ips"):
        database.rows("floating_ips", "host")


def test_a_new_schema_is_seen_when_the_old_one_is_forgotten(
    database: NovaDatabase, tmp_path: Path
) -> None:
    database.rows("compute_nodes", "host")
    with closing(NovaDatabase("same", f"sqlite:///{tmp_path}/cell")) as other:
        other.read(lambda each: each.exec_driver_sql("ALTER TABLE compute_nodes ADD uuid TEXT"))
    assert "uuid" not in database.read(lambda each: database.table(each, "compute_nodes")).c
    database.forget_schema()
    assert "uuid" in database.read(lambda each: database.table(each, "compute_nodes")).c


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql+pymysql://nova:secret@h:port/db", "the URL cannot be read"),
        ("secret", "the URL cannot be read"),
        ("baddriver://nova:secret@h/db", "a driver that is not installed"),
        ("postgresql+psycopg2://nova:secret@h/db", "a driver that is not installed"),
    ],
)
def test_a_url_that_cannot_be_used_is_not_quoted(url: str, why: str) -> None:
    with pytest.raises(NovaDatabaseUnavailable, match=why) as error:
        NovaDatabase("cell1", url)
    assert "secret" not in str(error.value)


def test_a_server_that_does_not_answer_is_one_line() -> None:
    database = NovaDatabase("cell1", "mysql+pymysql://nova:secret@127.0.0.1:1/nova")
    with pytest.raises(NovaDatabaseUnavailable) as error:
        database.rows("services", "host")
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("grant", "writes"),
    [
        ("GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*1'", False),
        ("GRANT SELECT ON `nova`.* TO `a`@`%`", False),
        ("GRANT SELECT, INSERT ON `nova`.* TO `a`@`%`", True),
        ("GRANT SELECT, INSERT ON `placement`.* TO `a`@`%`", False),
        ("GRANT ALL PRIVILEGES ON `nov%`.* TO `a`@`%`", True),
        ("GRANT ALL PRIVILEGES ON *.* TO `a`@`localhost` WITH GRANT OPTION", True),
        ("GRANT SELECT, UPDATE ON `nova`.`instances` TO `a`@`%`", True),
        ("GRANT `a_role` TO `a`@`%`", False),
    ],
)
def test_rights_to_write_are_told_from_rights_to_read(grant: str, writes: bool) -> None:
    assert allows_writing(grant, "nova") is writes


def test_the_underscore_of_a_name_may_be_escaped() -> None:
    assert allows_writing("GRANT ALL PRIVILEGES ON `nova\\_api`.* TO `a`@`%`", "nova_api")
