# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What SQLite is told otherwise than MariaDB and MySQL: sessions, the clock, how texts compare.

SQLite is for one machine; MariaDB and MySQL may be a cluster that writes at all members.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.expression import FunctionElement

# Longest wait for a row that another transaction has locked, and longest pause of a transaction
# that has locked rows. Seconds.
_LOCK_WAIT = 5
_IDLE = 30
# Without them a server that accepts a connection and never answers blocks its caller. Seconds.
_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30}
# Bytes of an aggregated value.
_LONGEST_VALUE = 2**30
# At a member of a cluster, reads (1), updates and deletes (2) wait until it has applied what other
# members have committed. Inserts need not wait: they are certified.
_SYNC_WAIT = 3


class utc_now(FunctionElement[datetime]):
    """The database's clock in UTC and whole seconds: the clocks of machines are never compared."""

    type: sa.types.TypeEngine[Any] = sa.DateTime()
    inherit_cache = True
    mysql = "UTC_TIMESTAMP()"
    # In the very form in which SQLAlchemy stores a DateTime, since SQLite compares texts.
    sqlite = "strftime('%Y-%m-%d %H:%M:%S.000000', 'now')"


class utc_moment(utc_now):
    """The same clock with fractions of a second."""

    inherit_cache = True
    mysql = "UTC_TIMESTAMP(6)"
    sqlite = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


def current_time(connection: sa.Connection, clock: type[utc_now] = utc_moment) -> datetime:
    """Return the database's time."""
    found: datetime = connection.execute(sa.select(clock())).scalar_one()
    return found


@compiles(utc_now, "mysql")
@compiles(utc_now, "mariadb")
def _utc_now_mysql(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.mysql


@compiles(utc_now, "sqlite")
def _utc_now_sqlite(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.sqlite


def exact_collation(dialect: sa.Dialect) -> str:
    """Return the collation by which texts are equal only if they are the same, blanks included.

    So names compare in SQL as they do in Python and in SQLite.
    """
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


@compiles(CreateTable, "mysql")
@compiles(CreateTable, "mariadb")
def _create_table(element, compiler, **kw):  # type: ignore[no-untyped-def]
    statement = compiler.visit_create_table(element, **kw).rstrip()
    # Of another program's tables, as tests make them, the collation is that program's.
    is_ours = "mysql_charset" in element.element.kwargs
    return f"{statement} COLLATE {exact_collation(compiler.dialect)}" if is_ours else statement


def timeouts(url: sa.URL) -> dict[str, int]:
    """Return timeouts for a driver of MariaDB or MySQL, but those that its URL has."""
    if url.get_backend_name() not in ("mysql", "mariadb"):
        return {}
    return {name: each for name, each in _TIMEOUTS.items() if name not in url.query}


def share_sqlite(engine: sa.Engine) -> None:
    """Configure SQLite so that several processes share a file.

    A transaction that reads first and writes later fails at once if another one wrote in between;
    one that takes the write lock at its beginning waits instead.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection, _record):  # type: ignore[no-untyped-def]
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # LIKE would ignore the case of ASCII letters, and lower() know no others.
        connection.execute("PRAGMA case_sensitive_like = ON")
        connection.create_function("lower", 1, _lower, deterministic=True)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection):  # type: ignore[no-untyped-def]
        if connection.get_execution_options().get("berthmaster_writes"):
            # oslo.db's own listener has just begun a transaction that has no lock yet.
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _lower(value: object) -> str | None:
    return None if value is None else str(value).lower()


def isolate_mysql(engine: sa.Engine, waits: bool) -> None:
    """Use READ COMMITTED for writing transactions and REPEATABLE READ for reading ones.

    So locked rows are read as they are then, and no gaps between rows are locked, which would make
    unrelated transactions wait. It needs a binary log without statements, the default everywhere.
    waits: read what other members of a cluster have committed.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection, _record):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            # Again, since an init_command of the URL may have set another one.
            cursor.execute("SET NAMES utf8mb4")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT}")
            # Longer lists of JSON would be cut.
            cursor.execute(f"SET SESSION group_concat_max_len = {_LONGEST_VALUE}")
            if getattr(engine.dialect, "is_mariadb", False):
                # A process that hangs in a transaction must not block all others.
                cursor.execute(f"SET SESSION idle_write_transaction_timeout = {_IDLE}")
            cursor.execute("SHOW SESSION VARIABLES LIKE 'wsrep_on'")
            if waits and any(value == "ON" for _, value in cursor.fetchall()):
                cursor.execute(f"SET SESSION wsrep_sync_wait = {_SYNC_WAIT}")

    # oslo.db has opened a connection already, without the listener above.
    engine.dispose()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection):  # type: ignore[no-untyped-def]
        if not connection.get_execution_options().get("berthmaster_writes"):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
