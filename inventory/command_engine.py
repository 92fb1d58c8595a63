# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An engine for a command, which makes a few transactions and ends.

oslo.db's own imports SQLAlchemy's ORM, a third of the processor time of a command. Here are the
settings of oslo.db that commands need; its errors are the same ones. See also inventory.engine.
"""

from typing import Any

import sqlalchemy as sa
from oslo_db.sqlalchemy import exc_filters


def single_engine(
    connection: str,
    mysql_sql_mode: str | None = None,
    mysql_wsrep_sync_wait: int | None = None,
    connection_parameters: str | None = None,
    **_: object,
) -> sa.Engine:
    """Return an engine with one connection at a time, which has been made once.

    Takes the options of oslo.db; those about pools and repetitions are for daemons. Raises errors
    of oslo.db and SQLAlchemy.
    """
    url = sa.make_url(connection)
    if connection_parameters:
        url = url.update_query_string(connection_parameters, append=True)
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        _begin_explicitly(engine)
    else:
        engine = sa.create_engine(url, pool_size=1)
        _set_up_sessions(engine, mysql_sql_mode, mysql_wsrep_sync_wait)
    exc_filters.register_engine(engine)
    engine.connect().close()
    return engine


def _begin_explicitly(engine: sa.Engine) -> None:
    """Let SQLAlchemy begin transactions: sqlite3 would begin them late, at the first change."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")


def _set_up_sessions(engine: sa.Engine, sql_mode: str | None, sync_wait: int | None) -> None:
    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            if sql_mode is not None:
                cursor.execute("SET SESSION sql_mode = %s", [sql_mode])
            if sync_wait is not None:
                cursor.execute("SET SESSION wsrep_sync_wait = %s", [sync_wait])
