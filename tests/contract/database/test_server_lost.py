# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.engine and scheduler.host_cache when the server goes away. MariaDB only."""

import pytest

from inventory import migrations
from inventory.database_errors import DatabaseUnavailable
from scheduler.host_cache.cache import HostCache
from tests.databases import a_node, open_at, save, serve
from tests.fixtures.daemons.mariadb import PASSWORD
from tests.fixtures.daemons.process import PATIENCE


@pytest.fixture(scope="module")
def server(mariadb):
    """Return the server, which is there again at the end of each test."""
    return mariadb


@pytest.fixture(scope="module")
def database(server):
    database = open_at(server.create_database("lost"))
    migrations.sync(database)
    save(database, a_node())
    serve(database, "h1")
    yield database
    database.close()


def hosts(cache):
    with cache.current() as table:
        return [table.get(row, "host") for row in table.rows()]


def test_a_restarted_server_is_found_again(server, database):
    cache = HostCache(database)
    assert hosts(cache) == ["h1"]
    server.restart()
    # The pool still holds a connection to the old process.
    assert hosts(cache) == ["h1"]
    server.restart()
    save(database, a_node(vcpus=8))


def test_timeouts_in_the_url_are_the_operator_s(server, database):
    own = open_at(server.url("lost") + "&connect_timeout=7&read_timeout=8")
    assert own.read(migrations.revision) is not None
    assert own.engine.url.query["connect_timeout"] == "7"
    assert own.engine.url.query["read_timeout"] == "8"
    assert own.engine.url.query["write_timeout"] == "30"
    own.close()


def test_a_wrong_account_or_database_is_said_in_one_line(server):
    with pytest.raises(DatabaseUnavailable, match="Unknown database 'nope'"):
        open_at(server.url("nope"))
    with pytest.raises(DatabaseUnavailable, match="Access denied for user"):
        open_at(server.url("lost").replace(f":{PASSWORD}@", ":wrong@"))


def test_without_a_server_callers_get_a_clear_error_and_later_an_answer(server, database):
    cache = HostCache(database, timeout=PATIENCE)
    assert hosts(cache) == ["h1"]
    cache._timeout = 0.5
    server.stop()
    try:
        with pytest.raises(DatabaseUnavailable):
            hosts(cache)
        with pytest.raises(DatabaseUnavailable, match=r"Can't connect|Lost connection"):
            database.write(lambda connection: connection.scalar(1))
        with pytest.raises(DatabaseUnavailable, match="Can't connect"):
            open_at(server.url("lost"))
    finally:
        server.start()
    cache = HostCache(database, timeout=PATIENCE)
    assert hosts(cache) == ["h1"]


def test_a_server_that_hangs_costs_a_caller_no_more_than_its_timeout(server, database):
    cache = HostCache(database, timeout=PATIENCE)
    assert hosts(cache) == ["h1"]
    cache._timeout = 0.5
    server.pause()
    try:
        with pytest.raises(DatabaseUnavailable, match=r"no answer within 0\.5 s"):
            hosts(cache)
    finally:
        server.resume()
    assert hosts(HostCache(database, timeout=PATIENCE)) == ["h1"]
