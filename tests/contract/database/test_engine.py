# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.engine."""

from contextlib import closing
from threading import Barrier, Event, Thread
from uuid import uuid4

import pytest
import sqlalchemy as sa
from oslo_db import exception

from inventory import compute_nodes
from inventory.database_errors import DatabaseUnavailable, TransactionLost
from inventory.engine import Database, open_database
from inventory.tables import compute_nodes as table
from tests.databases import a_conf, a_node, open_at, save
from tests.fixtures.daemons.process import PATIENCE

WRITERS, TIMES = 4, 15


def in_threads(*works):
    """Run functions at the same time and return what they raised."""
    errors = []

    def run(work):
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def vcpus(connection, host="h1"):
    return connection.scalar(sa.select(table.c.vcpus).where(table.c.host == host))


def set_vcpus(connection, value, host="h1"):
    connection.execute(sa.update(table).where(table.c.host == host).values(vcpus=value))


def test_what_was_written_is_committed(url, database):
    save(database, a_node(vcpus=3))
    other = open_at(url)
    assert other.read(vcpus) == 3
    other.close()


def test_a_work_that_raises_leaves_nothing_behind(database):
    save(database, a_node(vcpus=3))

    def work(connection):
        set_vcpus(connection, 99)
        raise LookupError("half way")

    with pytest.raises(LookupError, match="half way"):
        database.write(work)
    assert database.read(vcpus) == 3


def test_reading_sees_one_moment_only(url, database):
    save(database, a_node(vcpus=1))
    other = open_at(url)

    def twice(connection):
        first = vcpus(connection)
        other.write(lambda c: set_vcpus(c, 2))
        return first, vcpus(connection)

    assert database.read(twice) == (1, 1)
    assert database.read(vcpus) == 2
    other.close()


def test_several_writers_at_once_lose_nothing(url, database):
    save(database, a_node(vcpus=0))

    def count_up():
        own = open_at(url)
        for _ in range(TIMES):
            own.write(lambda c: c.execute(sa.update(table).values(vcpus=table.c.vcpus + 1)))
        own.close()

    assert in_threads(*[count_up] * WRITERS) == []
    assert database.read(vcpus) == WRITERS * TIMES


def test_writers_that_read_first_lose_nothing_either(url, database):
    save(database, a_node(vcpus=0))

    def count_up():
        own = open_at(url)
        for _ in range(TIMES):
            own.write(read_then_write)
        own.close()

    def read_then_write(connection):
        found = connection.scalar(sa.select(table.c.vcpus).with_for_update())
        set_vcpus(connection, found + 1)

    assert in_threads(*[count_up] * WRITERS) == []
    assert database.read(vcpus) == WRITERS * TIMES


def test_errors_that_trying_again_does_not_mend_are_raised_at_once(database):
    attempts = []

    def work(connection):
        attempts.append(1)
        connection.execute(sa.text("INSERT INTO revisions (name, revision) VALUES ('a', 1)"))
        connection.execute(sa.text("INSERT INTO revisions (name, revision) VALUES ('a', 1)"))

    with pytest.raises(exception.DBDuplicateEntry):
        database.write(work)
    assert len(attempts) == 1


def test_a_deadlock_is_survived_by_beginning_again(url, database):
    if database.engine.dialect.name == "sqlite":
        assert_writers_take_turns(url, database)
        return
    save(database, a_node("h1", vcpus=0), a_node("h2", vcpus=0))
    ids = {row.host: row.id for row in database.read(compute_nodes.all_live)}
    barrier = Barrier(2, timeout=PATIENCE)
    attempts = []

    def count_up(connection, host):
        # By id: in a table of two rows MariaDB may look at, and so lock, both to find one by name.
        where = table.c.id == ids[host]
        connection.execute(sa.update(table).where(where).values(vcpus=table.c.vcpus + 1))

    def crosswise(first, second):
        own, mine = open_at(url), []

        def work(connection):
            attempts.append(first)
            mine.append(first)
            count_up(connection, first)
            if len(mine) == 1:
                barrier.wait()
            count_up(connection, second)

        own.write(work)
        own.close()

    assert in_threads(lambda: crosswise("h1", "h2"), lambda: crosswise("h2", "h1")) == []
    assert len(attempts) == 3
    assert database.read(lambda c: (vcpus(c, "h1"), vcpus(c, "h2"))) == (2, 2)


def assert_writers_take_turns(url, database):
    """SQLite has one lock: who comes second waits at its beginning, so there are no deadlocks."""
    save(database, a_node(vcpus=0))
    inside, order = Event(), []

    def first(connection):
        inside.set()
        order.append("first begins")
        set_vcpus(connection, 1)
        order.append("first ends")

    def second(connection):
        order.append("second begins")
        set_vcpus(connection, vcpus(connection) + 1)

    def late():
        assert inside.wait(PATIENCE)
        own = open_at(url)
        own.write(second)
        own.close()

    assert in_threads(lambda: database.write(first), late) == []
    assert order == ["first begins", "first ends", "second begins"]
    assert database.read(vcpus) == 2


def test_the_error_of_a_database_that_is_gone_says_why():
    error = DatabaseUnavailable("no route")
    assert str(error) == "the database is not available: no route"
    assert error.reason == "no route"


def test_a_closed_database_connects_again_when_it_is_used(database):
    save(database, a_node(vcpus=5))
    database.close()
    assert database.read(vcpus) == 5
    assert isinstance(database, Database)


def test_every_transaction_that_writes_sees_what_others_have_committed(database):
    """The first one as well, whose connection oslo.db has made."""
    if database.engine.dialect.name == "sqlite":
        return

    def level(connection):
        return connection.scalar(sa.text("SELECT @@session.tx_isolation"))

    connections = [database.engine.connect() for _ in range(3)]
    assert {level(each) for each in connections} == {"READ-COMMITTED"}
    for each in connections:
        each.close()


def signalled(number, times):
    """Return work that the server ends so many times with an error of this number."""
    left = [number] * times

    def work(connection):
        if left:
            connection.execute(
                sa.text(
                    f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {left.pop()}, MESSAGE_TEXT = 'x'"
                )
            )
        return "done"

    return work


@pytest.mark.daemons
@pytest.mark.parametrize("number", [1213, 1180, 1020])
def test_a_write_that_does_not_certify_is_tried_again_for_long(mariadb_database, number):
    assert mariadb_database.write(signalled(number, 8)) == "done"


@pytest.mark.daemons
def test_a_transaction_that_always_loses_gets_an_error_that_says_so(mariadb_database, monkeypatch):
    monkeypatch.setattr("inventory.engine._CONFLICT_TIMEOUT", 0.5)
    with pytest.raises(
        TransactionLost, match=r"too busy: other programs wrote the same rows in each of"
    ):
        mariadb_database.write(signalled(1213, 10_000))


@pytest.mark.daemons
@pytest.mark.parametrize("number", [1290, 1047, 1969, 3100])
def test_what_a_server_cannot_do_now_is_said_in_one_line(mariadb_database, number):
    with pytest.raises(DatabaseUnavailable, match=f"not available.*{number}") as caught:
        mariadb_database.write(signalled(number, 10_000))
    assert "\n" not in str(caught.value)


@pytest.mark.daemons
def test_a_caller_without_a_connection_of_the_pool_gets_an_error(mariadb):
    url = mariadb.create_database("pool")
    few = {"max_pool_size": 1, "max_overflow": 0, "pool_timeout": 1}
    database = open_database(a_conf(connection=url, **few))
    with pytest.raises(DatabaseUnavailable, match="all connections of this process are in use"):
        database.read(lambda _: database.read(lambda c: c.scalar(sa.text("SELECT 1"))))
    database.close()


@pytest.fixture
def mariadb_database(mariadb):
    with closing(open_at(mariadb.create_database(f"engine_{uuid4().hex}"))) as database:
        yield database
