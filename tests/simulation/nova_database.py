# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The databases of a simulated Nova cloud: SQLite in memory, behind a dialect of SQLAlchemy's.

Nova writes each row at once. A transaction that reads sees one state, and waits before and after it
as for a server.
"""

import sqlite3
import time
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from tests.nova_tables import NovaTables
from tests.simulation.database import READ_TIMEOUT, in_memory
from tests.simulation.kernel import EPOCH, Simulator
from tests.simulation.plan import NOVA_LOST, NOVA_SILENCE

API, CELL = "api", "cell1"
# The databases of the present history by their names, which URLs have as the hosts.
_OPEN: dict[str, "NovaRows"] = {}


def url(name: str) -> str:
    """Return the URL of one of the databases."""
    return f"simulated://{name}"


class NovaRows:
    """One database of Nova's."""

    silent_until = 0.0

    def __init__(self, simulator: Simulator, name: str) -> None:
        self.simulator = simulator
        self.connection = in_memory(simulator)
        self.connection.deserialize(_empty(name == API))
        # The names of the actors whose next transactions are lost.
        self.lost: list[str] = []
        _OPEN[name] = self

    def add(self, table: str, skew: float = 0.0, **values: Any) -> int:
        """Insert a row, by a clock that is so many seconds ahead; return its number."""
        columns = {each[1] for each in self.connection.execute(f"PRAGMA table_info({table})")}
        stamps = dict.fromkeys(("created_at", "updated_at"), self.stamp(skew))
        row = {
            name: each
            for name, each in ({"deleted": 0} | stamps | values).items()
            if name in columns
        }
        marks = ", ".join("?" * len(row))
        text = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        return self.connection.execute(text, [*row.values()]).lastrowid or 0

    def change(self, table: str, key: tuple[str, object], skew: float = 0.0, **values: Any) -> None:
        """Write columns of the rows that have a value in a column, and stamp them."""
        changed = {"updated_at": self.stamp(skew)} | values
        text = ", ".join(f"{name} = ?" for name in changed)
        where = f"UPDATE {table} SET {text} WHERE {key[0]} = ?"
        self.connection.execute(where, [*changed.values(), key[1]])

    def remove(self, table: str, key: tuple[str, object]) -> None:
        """Delete the rows that have a value in a column."""
        self.connection.execute(f"DELETE FROM {table} WHERE {key[0]} = ?", [key[1]])

    def stamp(self, skew: float = 0.0) -> str:
        """Return the time as Nova stamps it, in whole seconds, as SQLAlchemy stores it."""
        now = datetime.fromtimestamp(int(EPOCH + self.simulator.now + skew), UTC)
        return f"{now:%Y-%m-%d %H:%M:%S.000000}"

    def answer(self) -> None:
        """Wait for an answer, which may not come."""
        simulator = self.simulator
        simulator.pause()
        if (left := self.silent_until - simulator.now) > 0:
            simulator.log(f"! no answer of {NOVA_SILENCE}")
            time.sleep(min(left, READ_TIMEOUT))
            raise sqlite3.OperationalError("no answer")
        if simulator.actor.name in self.lost:
            simulator.log(f"! {NOVA_LOST}")
            self.lost.remove(simulator.actor.name)
            raise sqlite3.OperationalError("connection lost")


class _Session:
    """A connection as SQLAlchemy has it."""

    def __init__(self, rows: NovaRows) -> None:
        self.begin, self._rows = rows.answer, rows

    def cursor(self) -> sqlite3.Cursor:
        return self._rows.connection.cursor()

    def commit(self) -> None:
        self._rows.simulator.pause()

    def rollback(self) -> None:
        """Nothing to do: nothing was written."""

    close = rollback


class Dialect(SQLiteDialect_pysqlite):
    """SQLite whose databases are those of the present history."""

    supports_statement_cache = True

    @classmethod
    def get_pool_class(cls, url: sa.URL) -> Any:
        return sa.pool.NullPool

    def create_connect_args(self, url: sa.URL) -> Any:
        return [url.host], {}

    def connect(self, *names: Any, **_options: Any) -> Any:
        return _Session(_OPEN[names[0]])

    def on_connect(self) -> Any:
        return None

    def do_begin(self, dbapi_connection: Any) -> None:
        dbapi_connection.begin()


registry.register("simulated", __name__, Dialect.__name__)


@cache
def _empty(is_api: bool) -> bytes:
    """Return a database with all tables and no rows, as its file would be."""
    made = NovaTables("sqlite://", api=is_api)
    connection: Any = made.engine.raw_connection().driver_connection
    found: bytes = connection.serialize()
    made.close()
    return found
