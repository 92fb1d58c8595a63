# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A plug-in for SQLAlchemy's connections to MariaDB and MySQL: every character, few round trips.

By default SQLAlchemy pings the server before each use of a connection and rolls back after each:
two of the seven round trips of a claim. Here only connections that were idle for a while are
pinged. A transaction that meets a lost connection is repeated, see inventory.engine, and SQLAlchemy
replaces all others that are as old.
"""

import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE
from pymysql.converters import convert_datetime
from sqlalchemy.dialects import plugins

from conf import private_apis

# For engines by the URL: ...?plugin=PLUGIN.
PLUGIN = "berthmaster"
# Idle seconds after which a connection is pinged before its next use.
TRUSTED = 1.0
SharingConnection = private_apis.sharing_tls_context(Connection)


class PooledConnections(sa.CreateEnginePlugin):
    """A plug-in for engines whose users end each transaction, as `with connection.begin()` does."""

    def update_url(self, url: sa.URL) -> sa.URL:
        """Return the URL unchanged: the plug-in has no parameters."""
        return url

    def handle_pool_kwargs(self, pool_cls: type[sa.Pool], pool_args: dict[str, Any]) -> None:
        """Replace the settings of oslo.db."""
        # The connection that was used last needs no ping.
        pool_args.update(pre_ping=False, reset_on_return=None, use_lifo=True)

    def engine_created(self, engine: sa.Engine) -> None:
        """Listen to the use of connections."""
        sa.event.listen(engine, "checkin", _note_use)
        sa.event.listen(
            engine,
            "checkout",
            lambda connection, record, _: _ping_if_idle(engine.dialect, connection, record),
        )
        sa.event.listen(engine, "do_connect", _ask_for_utf8mb4)
        if engine.dialect.driver == "pymysql":
            sa.event.listen(engine, "do_connect", _connect)


plugins.register(PLUGIN, __name__, PooledConnections.__name__)


def _note_use(_: Any, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _ping_if_idle(
    dialect: sa.Dialect, connection: Any, record: sa.pool.ConnectionPoolEntry
) -> None:
    """Raise InvalidatePoolError, so that the pool connects again, unless the server answers."""
    used = record.info.get("used")
    if used is None or time.monotonic() - used < TRUSTED:
        return
    try:
        dialect.do_ping(connection)
    # Whatever the error: a new connection may work.
    except Exception as error:
        raise sa.exc.InvalidatePoolError() from error


def _ask_for_utf8mb4(
    _dialect: sa.Dialect, _record: Any, _args: list[Any], options: dict[str, Any]
) -> None:
    """Make the connection carry every character, whatever the URL or the default of oslo.db says.

    With utf8 a server refuses the row of a guest that has an emoji in its name.
    """
    # A collation of another character set would be an error.
    options.pop("collation", None)
    options.update(charset="utf8mb4", use_unicode=True)


def _connect(_dialect: sa.Dialect, _record: Any, args: list[Any], options: dict[str, Any]) -> Any:
    connection = SharingConnection(*args, **options)
    connection.decoders[FIELD_TYPE.DATETIME] = _moment
    return connection


def _moment(text: str) -> Any:
    """Parse a DATETIME; PyMySQL's own conversion takes a fifth of the time to read all hosts."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return convert_datetime(text)
