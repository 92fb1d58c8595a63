# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.engine when the server takes no more connections. MariaDB only."""

from contextlib import ExitStack

import pymysql
import pytest
import sqlalchemy as sa

from inventory.database_errors import DatabaseUnavailable
from tests.databases import open_at

ACCOUNT = "few"


@pytest.fixture
def url_of_few(mariadb):
    """Yield the URL of an account that may hold one connection and is no administrator."""
    mariadb.execute(f"CREATE USER {ACCOUNT} IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1")
    url = sa.make_url(mariadb.url("")).set(username=ACCOUNT, password="few")
    yield url.render_as_string(hide_password=False)
    mariadb.execute(f"DROP USER {ACCOUNT}")


def one(connection):
    return connection.scalar(sa.text("SELECT 1"))


def test_an_account_with_all_its_connections_gets_an_error_at_once(url_of_few):
    database = open_at(url_of_few)

    def while_one_is_held(_):
        with pytest.raises(DatabaseUnavailable, match="max_user_connections") as error:
            database.read(one)
        assert "1226" in error.value.reason

    database.read(while_one_is_held)
    assert database.read(one) == 1
    database.close()


def test_a_server_that_is_full_is_not_available(mariadb, url_of_few):
    mariadb.execute(f"ALTER USER {ACCOUNT} WITH MAX_USER_CONNECTIONS 0")
    database = open_at(url_of_few)
    database.close()
    with ExitStack() as held:
        # The least that there may be.
        mariadb.execute("SET GLOBAL max_connections = 10")
        held.callback(mariadb.execute, "SET GLOBAL max_connections = DEFAULT")
        fill(held, sa.make_url(url_of_few))
        with pytest.raises(DatabaseUnavailable, match="Too many connections"):
            database.read(one)


def fill(held, address):
    """Hold connections until there are no more to be had."""
    account = {"user": address.username, "password": address.password}
    try:
        for _ in range(20):
            connection = pymysql.connect(host=address.host, port=address.port, **account)
            held.callback(connection.close)
    except pymysql.err.OperationalError:
        return
    pytest.fail("the server is not full")


def test_a_right_that_is_missing_is_named(mariadb):
    url = sa.make_url(mariadb.create_database("denied"))
    statements = (
        "CREATE TABLE denied.t (id INT)",
        "CREATE USER reader IDENTIFIED BY 'reader'",
        "GRANT SELECT ON denied.* TO reader",
    )
    with pymysql.connect(unix_socket=str(mariadb.socket), user="root") as connection:
        for statement in statements:
            connection.cursor().execute(statement)
    database = open_at(url.set(username="reader", password="reader").render_as_string(False))
    with pytest.raises(DatabaseUnavailable, match=r"lacks a right.*INSERT command denied"):
        database.write(lambda connection: connection.execute(sa.text("INSERT INTO t VALUES (1)")))
    database.close()
    mariadb.execute("DROP USER reader")
