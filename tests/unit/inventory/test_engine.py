# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.engine and inventory.tables on SQLite."""

import re
import shutil
import sqlite3
import sys
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import aiosqlite

from inventory import migrations
from inventory.database_errors import DatabaseMisconfigured, DatabaseUnavailable
from inventory.dialects import utc_now
from inventory.engine import Database
from tests.databases import open_at


def test_the_directory_of_an_embedded_database_is_made(tmp_path):
    database = open_at(f"sqlite:///{tmp_path}/new/deeper/berthmaster.sqlite")
    migrations.sync(database)
    migrations.check(database)
    database.close()
    assert (tmp_path / "new" / "deeper" / "berthmaster.sqlite").stat().st_size > 0


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path):
    directory = tmp_path / "a directory"
    directory.mkdir()
    with pytest.raises(DatabaseUnavailable, match="unable to open database file"):
        open_at(f"sqlite:///{directory}")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "the value cannot be read as a URL"),
        ("mysql+pymysql:nova:secret@host", "the value cannot be read as a URL"),
        # The port may be a part of the password.
        ("mysql+pymysql://nova:secret", "the value cannot be read as a URL"),
        ("baddriver://nova:secret@host", "baddriver:// names no driver that is installed"),
        ("mysql+no://nova:secret@host", r"mysql\+no:// names no driver that is installed"),
        ("postgresql://nova:secret@host", "postgresql:// names no driver that is installed"),
        ("mysql+pymysql://nova:secret@127.0.0.1:1/x?chraset=utf8", "driver refuses a parameter"),
    ],
)
def test_a_url_that_cannot_be_used_is_not_called_an_unavailable_database(url, problem):
    refused = rf"^option \[database\] connection in .+: .*{problem}"
    with pytest.raises(DatabaseMisconfigured, match=refused) as caught:
        open_at(url)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_driver_that_waits_for_nobody_is_refused(monkeypatch):
    monkeypatch.setattr(aiosqlite.SQLiteDialect_aiosqlite, "import_dbapi", lambda: sqlite3)
    with pytest.raises(DatabaseMisconfigured, match="a driver that Berthmaster cannot use: begin"):
        open_at("sqlite+aiosqlite:///x")


def test_a_driver_that_is_not_installed_is_named_with_what_brings_it(monkeypatch):
    monkeypatch.setattr("inventory.engine.find_spec", lambda _: None)
    with pytest.raises(DatabaseUnavailable, match=r"install berthmaster\[mysqlclient\]"):
        open_at("mysql+mysqldb://nova:secret@127.0.0.1:1/nova")


def test_a_driver_that_would_stop_green_threads_is_refused(monkeypatch):
    patched = SimpleNamespace(is_monkey_patched=lambda module: module == "socket")
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patched)
    monkeypatch.setattr("inventory.engine.find_spec", lambda _: object())
    with pytest.raises(DatabaseUnavailable, match=r"set \[DEFAULT\] concurrency_backend = thr"):
        open_at("mysql+mysqldb://nova:secret@127.0.0.1:1/nova")


def test_a_database_that_vanishes_is_unavailable(tmp_path):
    database = open_at(f"sqlite:///{tmp_path}/state/file.sqlite")
    migrations.sync(database)
    database.close()
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(DatabaseUnavailable) as caught:
        database.read(migrations.revision)
    assert "unable to open database file" in caught.value.reason
    assert "\n" not in str(caught.value)


def test_the_clock_of_the_database_is_in_the_form_of_a_stored_moment(tmp_path):
    # SQLite compares texts: another form would sort before or after every stored moment.
    database = open_at(f"sqlite:///{tmp_path}/file.sqlite")
    query = sa.select(sa.cast(utc_now(), sa.String))
    text = database.read(lambda connection: connection.scalar(query))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000000", text)
    moment = database.read(lambda connection: connection.scalar(sa.select(utc_now())))
    assert moment.tzinfo is None
    database.close()


def a_server(version, is_mariadb):
    """Return an engine of a server of a version, which is never connected to."""
    engine = sa.create_engine("mysql+pymysql://nobody@127.0.0.1:1/nothing")
    engine.dialect.server_version_info = version
    engine.dialect.is_mariadb = is_mariadb
    return engine


@pytest.mark.parametrize(
    ("version", "is_mariadb", "said"),
    [
        ((10, 5, 29), True, r"MariaDB 10\.5\.29, and 10\.6 or later"),
        ((8, 0, 18), False, r"MySQL 8\.0\.18, and 8\.0\.19 or later"),
        ((5, 7), False, r"MySQL 5\.7, and 8\.0\.19 or later"),
    ],
)
def test_a_server_that_is_too_old_is_refused_with_its_version(version, is_mariadb, said):
    with pytest.raises(DatabaseUnavailable, match=said):
        Database(a_server(version, is_mariadb))


@pytest.mark.parametrize(
    ("version", "is_mariadb"), [((10, 6, 0), True), ((11, 4), True), ((8, 4), False)]
)
def test_a_server_that_is_new_enough_is_not(version, is_mariadb):
    Database(a_server(version, is_mariadb)).close()
