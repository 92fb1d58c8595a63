# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The connection to the database: transactions that are repeated when the database asks for it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api, exception
from oslo_db.sqlalchemy import enginefacade
from pymysql.constants import ER

from inventory import connections

T = TypeVar("T")

# One transaction is tried again a few times while connections are lost; the pauses double from a
# tenth of a second. While others write the same rows, which a cluster notices at the commit only,
# it is tried again in pauses of chance for so many seconds.
_RECONNECTED = api.wrap_db_retry(
    max_retries=5, retry_interval=0.1, max_retry_interval=2, retry_on_disconnect=True
)
_PATIENCE = 30.0
_REPEATED = api.wrap_db_retry(
    max_retries=10_000, retry_interval=0.1, max_retry_interval=1, retry_on_deadlock=True
)
# Errors of a transaction that lost against others: besides a deadlock, what a cluster says of a
# write that did not certify, and a server by default since MariaDB 11 of a row that has changed.
_LOST = frozenset({ER.LOCK_DEADLOCK, ER.ERROR_DURING_COMMIT, ER.CHECKREAD})
# Errors of a server that takes no more connections, of anyone or of this account.
_FULL = frozenset({ER.CON_COUNT_ERROR, 1203, ER.USER_LIMIT_REACHED})
# Errors of an account that may not do something: for a database, a table, a column, a routine.
_DENIED = frozenset(
    {
        ER.DBACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
    }
)
_GONE = (exception.DBConnectionError, exception.DBNonExistentDatabase)
# Kinds of errors that are the server's, not the statement's.
_OF_THE_SERVER = (sa.exc.OperationalError, sa.exc.InternalError, sa.exc.InterfaceError)


class DatabaseUnavailable(Exception):
    """The database did not answer, or not as it should; reason says how it failed.

    brief is what those may know who do not operate it.
    """

    prefix = "the database is not available: "
    brief = "does not answer"

    def __init__(self, reason: str) -> None:
        super().__init__(self.prefix + reason)
        self.reason = reason


class TransactionLost(DatabaseUnavailable):
    """Others wrote the same rows each time that a transaction was tried."""

    prefix = "the database is too busy: "
    brief = "is too busy; try again later"


class Database:
    """Runs work in transactions. Open one per process: an engine does not survive a fork.

    sync_wait is what somebody has chosen for wsrep_sync_wait, None for what we need on a cluster.
    """

    def __init__(self, engine: sa.Engine, sync_wait: int | None = None) -> None:
        self.engine = engine
        if engine.dialect.name == "sqlite":
            _share_sqlite(engine)
        else:
            _isolate_mysql(engine, waits=sync_wait is None)

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), run in one consistent transaction that writes nothing."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), committed.

        work runs again from its start after a deadlock or a lost connection, so it must not change
        anything outside of the database. Raises DatabaseUnavailable when no attempt got through.
        """
        return self._run(work, writes=True)

    def close(self) -> None:
        self.engine.dispose()

    def _run(self, work: Callable[[sa.Connection], T], writes: bool) -> T:
        races = _LostRaces()

        def attempt() -> T:
            try:
                with self.engine.connect() as connection:
                    connection.execution_options(berthmaster_writes=writes)
                    with connection.begin():
                        return work(connection)
            # oslo.db lets some of SQLAlchemy's errors through as they are.
            except (exception.DBError, sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
                translated = races.ended(_translated(error))
                if translated is error:
                    raise
                raise translated from error

        try:
            result: T = _REPEATED(_RECONNECTED(attempt))()
            return result
        except _GONE as error:
            raise DatabaseUnavailable(_cause(error)) from error


class _LostRaces:
    """How often one transaction was ended since others wrote the same rows."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._number = 0

    def ended(self, error: Exception) -> Exception:
        """Return the error of an attempt, or that the transaction is not to be tried again."""
        has_lost, took = isinstance(error, exception.DBDeadlock), time.monotonic() - self._began
        self._number += has_lost
        if has_lost and took > _PATIENCE:
            return TransactionLost(
                f"others wrote the same rows at each of {self._number} attempts in {took:.0f} s;"
                f" try again later ({_cause(error)})"
            )
        return error


def open_database(conf: cfg.ConfigOpts, **instead: int) -> Database:
    """Return the database of the [database] options, some of which instead may replace.

    oslo.db connects once to see whether it is there, and tries again as [database] max_retries
    says. Raises DatabaseUnavailable, also for an account, a database or a URL that is wrong.
    """
    try:
        context = enginefacade.transaction_context()
        context.configure(**_engine_options(conf) | instead)
        url = _url(conf)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        return Database(context.writer.get_engine(), conf.database.mysql_wsrep_sync_wait)
    # oslo.db lets some of SQLAlchemy's errors through as they are.
    except (exception.DBError, sa.exc.SQLAlchemyError) as error:
        raise DatabaseUnavailable(_cause(error)) from error


# Seconds: of a wait for a row that another transaction has locked, and of a transaction that has
# locked some and does nothing.
_LOCK_WAIT = 5
_IDLE = 30
# A server that accepts a connection and never answers would block its caller for ever. Seconds.
_MYSQL_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30}


def _engine_options(conf: cfg.ConfigOpts) -> dict[str, object]:
    names = (
        "connection mysql_sql_mode mysql_wsrep_sync_wait connection_recycle_time max_pool_size"
        " max_overflow pool_timeout connection_debug connection_trace connection_parameters"
        " max_retries retry_interval"
    )
    options = {name: conf.database[name] for name in names.split() if name in conf.database}
    # It would let green threads go on, which they do whenever one waits for the server.
    options["thread_checkin"] = False
    url = _url(conf)
    if url.get_backend_name() in ("mysql", "mariadb"):
        # What the URL says itself must not be said twice.
        ours = {name: each for name, each in _MYSQL_TIMEOUTS.items() if name not in url.query}
        parameters = options["connection_parameters"] or urlencode(ours)
        options["connection_parameters"] = f"{parameters}&plugin={connections.PLUGIN}"
    return options


def _url(conf: cfg.ConfigOpts) -> sa.URL:
    try:
        return sa.make_url(conf.database.connection)
    # It quotes what it took for the port, which may be the password.
    except ValueError:
        raise DatabaseUnavailable("[database] connection cannot be read as a URL") from None


def _share_sqlite(engine: sa.Engine) -> None:
    """Let several processes share an SQLite file.

    A transaction that reads first and writes later fails at once when another one wrote in
    between, without waiting; one that takes the write lock at its beginning waits instead.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection, _record):  # type: ignore[no-untyped-def]
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection):  # type: ignore[no-untyped-def]
        if connection.get_execution_options().get("berthmaster_writes"):
            # oslo.db's own listener has just begun a transaction that has no lock yet.
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("BEGIN IMMEDIATE")


# What waits at a member of a cluster for all that other members have answered: the first statement
# of a transaction where it reads (1), updates or deletes (2). Others are inserts, which certify.
_SYNC_WAIT = 3


def _isolate_mysql(engine: sa.Engine, waits: bool) -> None:
    """Let who writes see what others have committed, and who reads see all at one moment.

    Rows that were locked are read as they are then, and nothing but rows is locked: gaps between
    them are what makes strangers wait for each other. It needs no statements in the binary log,
    as in all default settings. waits: at a member of a cluster, see what others have answered.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection, _record):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT}")
            if getattr(engine.dialect, "is_mariadb", False):
                # Who is frozen in the middle of a transaction must not hold up everybody else.
                cursor.execute(f"SET SESSION idle_write_transaction_timeout = {_IDLE}")
            cursor.execute("SHOW SESSION VARIABLES LIKE 'wsrep_on'")
            if waits and any(value == "ON" for _, value in cursor.fetchall()):
                cursor.execute(f"SET SESSION wsrep_sync_wait = {_SYNC_WAIT}")

    # oslo.db has connected already, to see whether there is a server.
    engine.dispose()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection):  # type: ignore[no-untyped-def]
        if not connection.get_execution_options().get("berthmaster_writes"):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _translated(error: Exception) -> Exception:
    """Return what an error of the database means to who has asked."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnavailable(
            "all connections of this process are in use: raise [database] max_pool_size, or send"
            f" fewer requests at a time ({_cause(error)})"
        )
    number, cause = _number(error), getattr(error, "inner_exception", None) or error
    if number in _LOST or isinstance(error, exception.DBDeadlock):
        lost: Exception = exception.DBDeadlock(error)
        return lost
    if number in _DENIED:
        return DatabaseUnavailable(
            f"the account of [database] connection lacks a right: {_cause(error)}"
        )
    # What oslo.db has a name for is for those who know it.
    is_named = isinstance(error, exception.DBError) and type(error) is not exception.DBError
    if number in _FULL or (isinstance(cause, _OF_THE_SERVER) and not is_named):
        return DatabaseUnavailable(_cause(error))
    return error


def _number(error: Exception) -> int | None:
    """Return the number of an error of the server."""
    original = getattr(getattr(error, "inner_exception", None) or error, "orig", None)
    number = original.args[0] if original is not None and original.args else None
    return number if isinstance(number, int) else None


def _cause(error: Exception) -> str:
    cause = getattr(error, "inner_exception", None) or error
    original = getattr(cause, "orig", None) or cause
    return " ".join(str(original).split())
