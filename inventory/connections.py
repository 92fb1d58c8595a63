# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How connections to a MariaDB or MySQL server are made and kept, at the least cost.

By default SQLAlchemy asks the server before each use of a connection whether it is still there,
and to roll back after each: of a claim these were two of seven round trips. Here it is asked about
what has not been used for a while. Who meets a connection that was lost since begins again, see
inventory.engine, and SQLAlchemy replaces all others that are as old.
"""

import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE
from pymysql.converters import convert_datetime
from sqlalchemy.dialects import plugins

# For engines by the URL: ...?plugin=PLUGIN.
PLUGIN = "berthmaster"
# For how long a connection is taken to be there without asking. Seconds.
TRUSTED = 1.0


class KeptConnections(sa.CreateEnginePlugin):
    """A plug-in for engines whose users end each transaction, as `with connection.begin()` does.

    A connection that is dropped instead of closed would come back with its transaction open.
    """

    def update_url(self, url: sa.URL) -> sa.URL:
        """Return the URL, in which nothing else is for this plug-in."""
        return url

    def handle_pool_kwargs(self, pool_cls: type[sa.Pool], pool_args: dict[str, Any]) -> None:
        """Replace what oslo.db asks for."""
        # The one that was used last is the one that needs no question.
        pool_args.update(pre_ping=False, reset_on_return=None, use_lifo=True)

    def engine_created(self, engine: sa.Engine) -> None:
        """Listen to what becomes of connections."""
        sa.event.listen(engine, "checkin", _note_use)
        sa.event.listen(
            engine,
            "checkout",
            lambda connection, record, _: _ask_after_silence(engine.dialect, connection, record),
        )
        if engine.dialect.driver == "pymysql":
            sa.event.listen(engine, "do_connect", _connect)


plugins.register(PLUGIN, __name__, KeptConnections.__name__)


def _note_use(_: Any, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _ask_after_silence(
    dialect: sa.Dialect, connection: Any, record: sa.pool.ConnectionPoolEntry
) -> None:
    """Raise what makes the pool connect anew, unless the server answers."""
    # A new one has not been used yet.
    used = record.info.get("used")
    if used is None or time.monotonic() - used < TRUSTED:
        return
    try:
        dialect.do_ping(connection)
    # Whatever it is: another connection would do.
    except Exception as error:
        raise sa.exc.InvalidatePoolError() from error


class _SharingConnection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """One that prepares for TLS without reading the certificates of the system yet again.

    Where the URL asks for nothing PyMySQL uses TLS with servers that offer it, looks at no
    certificate, and yet reads all of them for every connection: 40 ms of CPU time, in which green
    threads wait.
    """

    _context: Any = None

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        """Override what is private to PyMySQL; a release without it is as slow as it was."""
        if sslp:
            return super()._create_ssl_ctx(sslp)
        if _SharingConnection._context is None:
            _SharingConnection._context = super()._create_ssl_ctx(sslp)
        return _SharingConnection._context


def _connect(_dialect: sa.Dialect, _record: Any, args: list[Any], options: dict[str, Any]) -> Any:
    connection = _SharingConnection(*args, **options)
    connection.decoders[FIELD_TYPE.DATETIME] = _moment
    return connection


def _moment(text: str) -> Any:
    """Return what PyMySQL's own conversion does, which takes a fifth of reading all hosts."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return convert_datetime(text)
