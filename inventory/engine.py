# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The connection to the database: transactions that are repeated when the database asks for it."""

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api, exception

from conf import loading
from inventory import dialects, mysql_pool
from inventory.database_errors import (
    GONE,
    OF_A_STATEMENT,
    DatabaseMisconfigured,
    DatabaseUnavailable,
    TransactionLost,
    is_away,
    message_of,
    translated,
)
from inventory.dialects import current_time, utc_now
from inventory.errors import counted
from inventory.tables import idempotency_keys

T = TypeVar("T")
# That of oslo.log would cost commands a part of their start.
LOG = logging.getLogger(__name__)

# A transaction is repeated a few times while connections are lost, in pauses that double from a
# tenth of a second; at the start of a daemon as long as that waits for its database. While others
# write the same rows, which a cluster notices at the commit only, it is repeated in random pauses
# for _CONFLICT_TIMEOUT seconds. All is counted here: oslo.db logs a traceback of a hundred lines at
# the end of its own count.
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


@dataclass(slots=True)
class _Failures:
    """How often a transaction has lost to others, and its connection.

    patience is how long it goes on in seconds although the database is away.
    """

    patience: float = 0.0
    began: float = field(default_factory=time.monotonic)
    conflicts: int = 0
    losses: int = 0

    def count(self, error: Exception) -> Exception:
        """Return the error to raise; oslo.db repeats deadlocks and lost connections."""
        found, seconds = translated(error), time.monotonic() - self.began
        if self.patience and is_away(error):
            found = exception.DBConnectionError(error)
        if isinstance(found, exception.DBDeadlock):
            self.conflicts += 1
            if seconds > _CONFLICT_TIMEOUT:
                attempts = counted(self.conflicts, "attempt")
                return TransactionLost(
                    f"other programs wrote the same rows in each of {attempts} in {seconds:.0f} s;"
                    f" try again later ({message_of(found)})"
                )
        elif isinstance(found, exception.DBConnectionError):
            self.losses += 1
            if self.losses > _RECONNECTIONS and seconds > self.patience:
                return DatabaseUnavailable(message_of(error))
            if self.losses == _RECONNECTIONS and self.patience:
                limit = "" if math.isinf(self.patience) else f" up to {self.patience:g} s"
                LOG.warning("Waiting%s for the database: %s", limit, message_of(error))
        return found


class Database:
    """Runs work in transactions. Open one per process: an engine does not survive a fork.

    sync_wait is the configured mysql_wsrep_sync_wait, None for the value that claims need.
    """

    def __init__(self, engine: sa.Engine, sync_wait: int | None = None) -> None:
        self.engine = engine
        # When a transaction has last succeeded, by the monotonic clock.
        self.answered_at = -math.inf
        # When a connection was last found lost, by the same clock.
        self.lost_at = -math.inf
        self._patience = 0.0
        if engine.dialect.name == "sqlite":
            dialects.share_sqlite(engine)
        else:
            _check_version(engine.dialect)
            dialects.isolate_mysql(engine, waits=sync_wait is None)

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Let transactions in the block wait so long for a database that is away.

        It is for the start of a process: later its callers have deadlines of their own.
        """
        self._patience = seconds
        try:
            yield
        finally:
            self._patience = 0.0

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
            now = current_time(connection, utc_now)
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
            return current_time(connection).replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        self.engine.dispose()

    def _run(self, work: Callable[[sa.Connection], T], writes: bool) -> T:
        failures = _Failures(self._patience)

        def attempt() -> T:
            try:
                with self.engine.connect() as connection:
                    connection.execution_options(berthmaster_writes=writes)
                    with connection.begin():
                        return work(connection)
            # oslo.db lets some of SQLAlchemy's errors through as they are.
            except (*OF_A_STATEMENT, sa.exc.StatementError, sa.exc.TimeoutError) as error:
                instead = failures.count(error)
                if failures.losses:
                    self.lost_at = time.monotonic()
                if instead is error:
                    raise
                raise instead from error

        try:
            result: T = _REPEATED(_RECONNECTED(attempt))()
            self.answered_at = time.monotonic()
            return result
        except GONE as error:
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
    DatabaseUnavailable, also for a wrong account or database, and DatabaseMisconfigured for a URL.
    """
    url = _url(conf)
    if problem := _driver_problem(url):
        raise _misconfigured(conf, problem)
    try:
        options = _engine_options(conf, url) | instead
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        return Database(make_engine(**options), conf.database.mysql_wsrep_sync_wait)
    # oslo.db lets some of SQLAlchemy's errors through as they are.
    except (exception.DBError, sa.exc.SQLAlchemyError) as error:
        raise DatabaseUnavailable(message_of(error)) from error
    # Drivers are called with the parameters of the URL.
    except TypeError as error:
        raise _misconfigured(conf, f"its driver refuses a parameter: {error}") from error


def start_patience(conf: cfg.ConfigOpts) -> float:
    """Return how many seconds a daemon that starts waits for its database."""
    retries = conf.database.max_retries
    return math.inf if retries < 0 else float(retries * conf.database.retry_interval)


# Claims write with JSON_TABLE. By whether it is MariaDB.
_LEAST_VERSIONS = {True: (10, 6), False: (8, 0, 19)}


def _engine_options(conf: cfg.ConfigOpts, url: sa.URL) -> dict[str, object]:
    names = (
        "connection mysql_sql_mode mysql_wsrep_sync_wait connection_recycle_time max_pool_size"
        " max_overflow pool_timeout connection_debug connection_trace connection_parameters"
        " max_retries retry_interval"
    )
    options = {name: conf.database[name] for name in names.split() if name in conf.database}
    # It would yield to green threads, which run whenever one waits for the server anyway.
    options["thread_checkin"] = False
    if url.get_backend_name() in ("mysql", "mariadb"):
        parameters = options["connection_parameters"] or urlencode(dialects.timeouts(url))
        options["connection_parameters"] = f"{parameters}&plugin={mysql_pool.PLUGIN}"
    return options


def _url(conf: cfg.ConfigOpts) -> sa.URL:
    try:
        return sa.make_url(conf.database.connection)
    # Its message quotes a wrong port, which may be a part of the password.
    except (ValueError, sa.exc.ArgumentError):
        raise _misconfigured(conf, "the value cannot be read as a URL") from None


def _misconfigured(conf: cfg.ConfigOpts, problem: str) -> DatabaseMisconfigured:
    """Return the error for a URL, whose text is not shown since it has a password."""
    where = loading.source(conf, "database", "connection")
    return DatabaseMisconfigured(f"option [database] connection in {where}: {problem}")


def _driver_problem(url: sa.URL) -> str:
    """Return what is wrong with the driver of a URL, or ""."""
    if url.get_backend_name() in ("mysql", "mariadb") and url.get_driver_name() == "mysqldb":
        return _mysqldb_problem()
    try:
        dialect = url.get_dialect()
        dialect.import_dbapi()
        if dialect.name in ("mysql", "mariadb", "sqlite") and not dialect.is_async:
            return ""
        problem = "names a driver that Berthmaster cannot use"
    except (ImportError, sa.exc.NoSuchModuleError):
        problem = "names no driver that is installed"
    return f"{url.drivername}:// {problem}: begin it with mysql+pymysql:// or sqlite:///"


def _mysqldb_problem() -> str:
    """Return why mysqldb cannot be used: it is not here, or would stop green threads; or ""."""
    instead = "or begin [database] connection with mysql+pymysql://"
    if find_spec("MySQLdb") is None:
        return (
            "its driver mysqldb is not installed: install berthmaster[mysqlclient],"
            f" which needs a compiler and the client library of MariaDB or MySQL, {instead}"
        )
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("socket"):
        return (
            "its driver mysqldb would stop all green threads while one waits for the server: set"
            f" [DEFAULT] concurrency_backend = threading, {instead}"
        )
    return ""


def _check_version(dialect: sa.Dialect) -> None:
    """Raise DatabaseUnavailable for a server that is too old; oslo.db has asked it already."""
    is_mariadb = bool(getattr(dialect, "is_mariadb", False))
    least, version = _LEAST_VERSIONS[is_mariadb], dialect.server_version_info
    if version is not None and version[: len(least)] < least:
        name, found = ("MySQL", "MariaDB")[is_mariadb], ".".join(map(str, version))
        wanted = ".".join(map(str, least))
        raise DatabaseUnavailable(f"the server is {name} {found}, and {wanted} or later is needed")
