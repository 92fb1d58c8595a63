# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The connection to the database: transactions that are repeated when the database asks for it."""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api, exception
from pymysql.constants import ER

from inventory import mysql_pool, session_setup
from inventory.errors import counted
from inventory.tables import idempotency_keys, utc_moment, utc_now

T = TypeVar("T")

# A transaction is repeated a few times while connections are lost, in pauses that double from a
# tenth of a second. While others write the same rows, which a cluster notices at the commit only,
# it is repeated in random pauses for _CONFLICT_TIMEOUT seconds. Both are counted here: oslo.db logs
# a traceback of a hundred lines at the end of its own count.
_RECONNECTIONS = 5
_RECONNECTED = api.wrap_db_retry(
    max_retries=10_000, retry_interval=0.1, max_retry_interval=2, retry_on_disconnect=True
)
_CONFLICT_TIMEOUT = 30.0
_REPEATED = api.wrap_db_retry(
    max_retries=10_000, retry_interval=0.1, max_retry_interval=1, retry_on_deadlock=True
)
# Longer than any transaction is repeated.
_KEYS_KEPT = timedelta(days=1)
# Errors of a transaction in conflict with others: a deadlock, a write that a cluster did not
# certify and, by default since MariaDB 11, a row that has changed.
_LOST = frozenset({ER.LOCK_DEADLOCK, ER.ERROR_DURING_COMMIT, ER.CHECKREAD})
# Errors of a server that has too many connections, in all or of this account.
_FULL = frozenset({ER.CON_COUNT_ERROR, 1203, ER.USER_LIMIT_REACHED})
# Errors of an account that lacks a right on a database, a table, a column or a routine.
_DENIED = frozenset(
    {
        ER.DBACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
    }
)
# Errors of a value that a column does not take.
_REFUSED = frozenset(
    {
        ER.WARN_DATA_OUT_OF_RANGE,
        ER.WARN_DATA_TRUNCATED,
        ER.TRUNCATED_WRONG_VALUE,
        ER.TRUNCATED_WRONG_VALUE_FOR_FIELD,
        ER.INVALID_CHARACTER_STRING,
        ER.DATA_TOO_LONG,
    }
)
_GONE = (exception.DBConnectionError, exception.DBNonExistentDatabase)
# What _run() or its callers handle; the text of any other error has the statement and its values.
_HANDLED = (*_GONE, exception.DBDuplicateEntry)
# Errors of the server, not of the statement.
_OF_THE_SERVER = (sa.exc.OperationalError, sa.exc.InternalError, sa.exc.InterfaceError)
_OF_A_STATEMENT = (exception.DBError, exception.DBInvalidUnicodeParameter, sa.exc.DBAPIError)


class DatabaseUnavailable(Exception):
    """The database did not answer, or with an error; reason is for operators, brief for tenants."""

    prefix = "the database is not available: "
    brief = "does not answer"

    def __init__(self, reason: str) -> None:
        super().__init__(self.prefix + reason)
        self.reason = reason


class TransactionLost(DatabaseUnavailable):
    """Other transactions wrote the same rows at every attempt."""

    prefix = "the database is too busy: "
    brief = "is too busy; try again later"


class StatementRefused(DatabaseUnavailable):
    """The database refused a statement, as with a value that a column cannot hold."""

    prefix = "the database refused a statement: "
    brief = "refused what the request needs"


class DataRefused(StatementRefused):
    """The database does not take a value; the text names the column, not the rest of the row."""

    prefix = "the database refuses a value: "


@dataclass(slots=True)
class _Failures:
    """How often a transaction has lost to others, and its connection."""

    began: float = field(default_factory=time.monotonic)
    conflicts: int = 0
    losses: int = 0

    def count(self, error: Exception) -> Exception:
        """Return the error to raise; oslo.db repeats deadlocks and lost connections."""
        translated = _translated(error)
        if isinstance(translated, exception.DBDeadlock):
            self.conflicts, seconds = self.conflicts + 1, time.monotonic() - self.began
            if seconds > _CONFLICT_TIMEOUT:
                return _conflict(translated, self.conflicts, seconds)
        elif isinstance(translated, exception.DBConnectionError):
            self.losses += 1
            if self.losses > _RECONNECTIONS:
                return DatabaseUnavailable(message_of(error))
        return translated


class Database:
    """Runs work in transactions. Open one per process: an engine does not survive a fork.

    sync_wait is the configured mysql_wsrep_sync_wait, None for the value that claims need.
    """

    def __init__(self, engine: sa.Engine, sync_wait: int | None = None) -> None:
        self.engine = engine
        # When a transaction has last succeeded, by the monotonic clock.
        self.answered_at = -math.inf
        if engine.dialect.name == "sqlite":
            session_setup.share_sqlite(engine)
        else:
            _check_version(engine.dialect)
            session_setup.isolate_mysql(engine, waits=sync_wait is None)

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), run in one consistent transaction that writes nothing."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), committed.

        work runs again from its start after a deadlock or a lost connection, so it must not change
        anything outside of the database. Raises DatabaseUnavailable when no attempt got through,
        and DBDuplicateEntry.
        """
        return self._run(work, writes=True)

    def write_once(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), committed once even if a lost connection hides the commit.

        write() repeats it then: it would find its own work done and refuse, as with "there is an
        aggregate already". Here each attempt writes a key, which tells a later one of the commit.
        """
        key, table = str(uuid4()), idempotency_keys
        results: list[T] = []

        def attempt(connection: sa.Connection) -> T:
            known = sa.select(table.c.key).where(table.c.key == key)
            if results and connection.scalar(known) is not None:
                return results[-1]
            now: datetime = connection.execute(sa.select(utc_now())).scalar_one()
            connection.execute(sa.delete(table).where(table.c.created_at < now - _KEYS_KEPT))
            connection.execute(sa.insert(table).values(key=key, created_at=now))
            results.append(work(connection))
            return results[-1]

        return self.write(attempt)

    def now(self) -> float:
        """Return the database's time in seconds since 1970.

        Not repeated, unlike read(). Raises errors of oslo.db and SQLAlchemy.
        """
        with self.engine.connect() as connection, connection.begin():
            now: datetime = connection.execute(sa.select(utc_moment())).scalar_one()
        return now.replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        self.engine.dispose()

    def _run(self, work: Callable[[sa.Connection], T], writes: bool) -> T:
        failures = _Failures()

        def attempt() -> T:
            try:
                with self.engine.connect() as connection:
                    connection.execution_options(berthmaster_writes=writes)
                    with connection.begin():
                        return work(connection)
            # oslo.db lets some of SQLAlchemy's errors through as they are.
            except (*_OF_A_STATEMENT, sa.exc.StatementError, sa.exc.TimeoutError) as error:
                translated = failures.count(error)
                if translated is error:
                    raise
                raise translated from error

        try:
            result: T = _REPEATED(_RECONNECTED(attempt))()
            self.answered_at = time.monotonic()
            return result
        except _GONE as error:
            raise DatabaseUnavailable(message_of(error)) from error


def pooled_engine(**options: object) -> sa.Engine:
    """Return an engine of oslo.db for these options of its own."""
    # Here, since it imports SQLAlchemy's ORM, which a command would wait for.
    from oslo_db.sqlalchemy import enginefacade

    context = enginefacade.transaction_context()
    context.configure(**options)
    engine: sa.Engine = context.writer.get_engine()
    return engine


def open_database(
    conf: cfg.ConfigOpts, make_engine: Callable[..., sa.Engine] = pooled_engine, **instead: int
) -> Database:
    """Return the database of the [database] options; those in instead replace configured ones.

    make_engine connects once, and oslo.db's repeats it as [database] max_retries says. Raises
    DatabaseUnavailable, also for a wrong account, database or URL.
    """
    try:
        options = _engine_options(conf) | instead
        url = _url(conf)
        _check_driver(url)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        return Database(make_engine(**options), conf.database.mysql_wsrep_sync_wait)
    # oslo.db lets some of SQLAlchemy's errors through as they are.
    except (exception.DBError, sa.exc.SQLAlchemyError) as error:
        raise DatabaseUnavailable(message_of(error)) from error


# Claims write with JSON_TABLE. By whether it is MariaDB.
_LEAST_VERSIONS = {True: (10, 6), False: (8, 0, 19)}
# Without them a server that accepts a connection and never answers blocks its caller. Seconds.
_MYSQL_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30}


def _engine_options(conf: cfg.ConfigOpts) -> dict[str, object]:
    names = (
        "connection mysql_sql_mode mysql_wsrep_sync_wait connection_recycle_time max_pool_size"
        " max_overflow pool_timeout connection_debug connection_trace connection_parameters"
        " max_retries retry_interval"
    )
    options = {name: conf.database[name] for name in names.split() if name in conf.database}
    # It would yield to green threads, which run whenever one waits for the server anyway.
    options["thread_checkin"] = False
    url = _url(conf)
    if url.get_backend_name() in ("mysql", "mariadb"):
        # A parameter of the URL must not be given twice.
        ours = {name: each for name, each in _MYSQL_TIMEOUTS.items() if name not in url.query}
        parameters = options["connection_parameters"] or urlencode(ours)
        options["connection_parameters"] = f"{parameters}&plugin={mysql_pool.PLUGIN}"
    return options


def _url(conf: cfg.ConfigOpts) -> sa.URL:
    try:
        return sa.make_url(conf.database.connection)
    # Its message quotes a wrong port, which may be a part of the password.
    except ValueError:
        raise DatabaseUnavailable("[database] connection cannot be read as a URL") from None


def _check_driver(url: sa.URL) -> None:
    """Raise DatabaseUnavailable for a driver that is not here, or that stops green threads."""
    if url.get_backend_name() not in ("mysql", "mariadb") or url.get_driver_name() != "mysqldb":
        return
    instead = "or begin [database] connection with mysql+pymysql://"
    if find_spec("MySQLdb") is None:
        raise DatabaseUnavailable(
            "its driver mysqldb is not installed: install berthmaster[mysqlclient],"
            f" which needs a compiler and the client library of MariaDB or MySQL, {instead}"
        )
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("socket"):
        raise DatabaseUnavailable(
            "its driver mysqldb would stop all green threads while one waits for the server: set"
            f" [DEFAULT] concurrency_backend = threading, {instead}"
        )


def _check_version(dialect: sa.Dialect) -> None:
    """Raise DatabaseUnavailable for a server that is too old; oslo.db has asked it already."""
    is_mariadb = bool(getattr(dialect, "is_mariadb", False))
    least, version = _LEAST_VERSIONS[is_mariadb], dialect.server_version_info
    if version is not None and version[: len(least)] < least:
        name, found = ("MySQL", "MariaDB")[is_mariadb], ".".join(map(str, version))
        wanted = ".".join(map(str, least))
        raise DatabaseUnavailable(f"the server is {name} {found}, and {wanted} or later is needed")


def _conflict(error: Exception, attempts: int, seconds: float) -> TransactionLost:
    return TransactionLost(
        f"others wrote the same rows at each of {counted(attempts, 'attempt')} in {seconds:.0f} s;"
        f" try again later ({message_of(error)})"
    )


def _translated(error: Exception) -> Exception:
    """Return the error to raise in place of one of oslo.db or SQLAlchemy."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnavailable(
            "all connections of this process are in use: raise [database] max_pool_size, or send"
            f" fewer requests at a time ({message_of(error)})"
        )
    number, cause = _number(error), getattr(error, "inner_exception", None) or error
    if number in _LOST or isinstance(error, exception.DBDeadlock):
        lost: Exception = exception.DBDeadlock(error)
        return lost
    if number in _DENIED:
        return DatabaseUnavailable(
            f"the account of [database] connection lacks a right: {message_of(error)}"
        )
    if isinstance(error, exception.DBInvalidUnicodeParameter):
        return DataRefused("a text has a lone half of a character (a surrogate of UTF-16)")
    if is_refusal(error):
        return DataRefused(message_of(error))
    # Errors that oslo.db has a class for are raised as they are.
    is_named = isinstance(error, exception.DBError) and type(error) is not exception.DBError
    if number in _FULL or (isinstance(cause, _OF_THE_SERVER) and not is_named):
        return DatabaseUnavailable(message_of(error))
    return error if isinstance(error, _HANDLED) else StatementRefused(message_of(error))


def execute_each(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], str]]:
    """Execute a statement for many rows; return those that the database refuses, with the reason.

    A refused row costs no other one anything.
    """
    try:
        with connection.begin_nested():
            connection.execute(statement, rows)
    except _OF_A_STATEMENT as error:
        if not is_refusal(error):
            raise
        if len(rows) == 1:
            return [(rows[0], message_of(error))]
        return [refused for row in rows for refused in execute_each(connection, statement, [row])]
    return []


def is_refusal(error: Exception) -> bool:
    """Return whether an error of a statement is about its values, so that others may go through."""
    of_values = (exception.DBDataError, exception.DBInvalidUnicodeParameter)
    return isinstance(error, of_values) or _number(error) in _REFUSED


def _number(error: Exception) -> int | None:
    """Return the number of an error of the server."""
    original = getattr(getattr(error, "inner_exception", None) or error, "orig", None)
    number = original.args[0] if original is not None and original.args else None
    return number if isinstance(number, int) else None


def message_of(error: Exception) -> str:
    """Return what the database said, without the statement and its values."""
    cause = getattr(error, "inner_exception", None) or error
    original = getattr(cause, "orig", None) or cause
    return " ".join(str(original).split())
