# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The database of a simulated cloud: SQLite in memory, below the product's own Database.

Writing transactions run one after the other, in the order of the seed; others may wait for the turn
as for locked rows. A reading one sees one state, and its answer may come late. MariaDB locks rows,
not everything: transactions that interleave statement by statement are for the real storms.
"""

import re
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from eventlet.event import Event
from oslo_db.exception import DBConnectionError, DBDeadlock
from oslo_db.sqlalchemy import exc_filters

from inventory import dialects
from inventory.engine import Database
from tests.databases import empty_tables
from tests.simulation.kernel import EPOCH, Actor, Simulator

# As of MariaDB: for how many seconds a transaction waits for locked rows, how long one may pause
# that has locked them, and after how many seconds without an answer a connection is given up.
LOCK_WAIT, IDLE, READ_TIMEOUT = 5.0, 30.0, 30.0
# How many states of the past there are for late readers.
PAST = 20

# The tables whose rows are checked.
CHECKED = re.compile("compute_nodes|allocations|instances|standbys")

# Faults that a transaction may meet, each once.
DEADLOCK, LOST_BEFORE, LOST_AFTER, UNCERTIFIED, LATE, KILL_BEFORE, KILL_AFTER = FAULTS = (
    *("deadlock", "lost before commit", "lost after commit", "not certified", "late reader"),
    *("killed before commit", "killed after commit"),
)

# Processes that share a file need it to begin in turn, with statements of its own.
dialects.share_sqlite = lambda _engine: None


class SimulatedDatabase:
    """One database for all actors; committed is called when CHECKED may have changed."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._dialect = _dialect()
        # No compiled statement is ever dropped.
        self._compiled = dict[Any, Any]()
        # One connection for all histories: SQLite has parsed their statements by then.
        self.rows = in_memory(simulator)
        self.rows.deserialize(empty_tables())
        self._first_rows = _rows(self.rows)
        self.reset()

    def reset(self) -> None:
        """Begin a history with empty tables."""
        if self.rows.in_transaction:
            self.rows.rollback()
        for table in self._first_rows:
            self.rows.execute(f"DELETE FROM {table}")
        for table, rows in self._first_rows.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.rows.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        self.committed: Callable[[], None] = lambda: None
        # The actors that are killed by their own commits are given to kill.
        self.kill: Callable[[Actor], None] = self.simulator.kill
        self.silent_until = 0.0
        # What the next transactions of an actor meet, by its name.
        self.armed: dict[str, list[str]] = {}
        self.keeps_past = False
        self._past: deque[bytes] = deque(maxlen=PAST)
        self._holder: Session | None = None
        self._queue: list[tuple[Actor, Event]] = []

    def open(self, **options: Any) -> Database:
        """Return the database as a process opens it, with options of its connections."""
        options |= {"compiled_cache": self._compiled}
        return Database(_Engine(self, self._dialect, options))

    def acquire(self, session: "Session") -> None:
        """Wait until no other transaction is under way."""
        until = time.monotonic() + LOCK_WAIT
        while self._holder is not None:
            holder = self._holder
            if holder.actor.is_dead or self.simulator.now - holder.used_at > IDLE:
                holder.lose()
                continue
            left = until - time.monotonic()
            if left <= 0:
                self.simulator.log("waits too long for locked rows")
                raise DBDeadlock()
            event = Event()
            self._queue.append((self.simulator.actor, event))
            event.wait(min(left, 1.0))
        self._holder = session
        session.used_at = self.simulator.now

    def release(self, session: "Session") -> None:
        """Let the others have the turn; which one gets it is the simulator's choice."""
        if self._holder is session:
            self._holder = None
            waiting, self._queue = self._queue, []
            for actor, event in waiting:
                self.simulator.call_as(actor, 0.0, _send, event)

    def holds(self, session: "Session") -> bool:
        """Return whether a transaction still has the turn."""
        return self._holder is session

    def take(self, *faults: str) -> str | None:
        """Return the next of these faults that is armed for the running actor, which is over."""
        armed = self.armed.get(self.simulator.actor.name, [])
        for each in armed:
            if each in faults:
                armed.remove(each)
                self.simulator.log(f"! {each}")
                return each
        return None

    def answer(self) -> None:
        """Wait as long as the database is silent; give up after a while."""
        if (left := self.silent_until - self.simulator.now) > 0:
            self.simulator.log("! no answer of the database")
            time.sleep(min(left, READ_TIMEOUT))
            raise DBConnectionError()

    def after_commit(self, is_checked: bool) -> None:
        """Keep the state for late readers, and have it checked."""
        if self.keeps_past:
            self._past.append(self.rows.serialize())
        if is_checked:
            self.committed()

    def late(self) -> sqlite3.Connection:
        """Return a state of the past."""
        found = in_memory(self.simulator)
        found.deserialize(self.simulator.order.choice([*self._past]))
        return found

    @property
    def has_past(self) -> bool:
        """Whether there is a state that is some transactions old."""
        return len(self._past) > 1


class Session:
    """A connection as SQLAlchemy has it: what it does waits for the turn, and meets the faults.

    It stands for that of a pool, too, which would cost more than the statements of a transaction.
    """

    is_valid = True

    def __init__(self, database: SimulatedDatabase) -> None:
        self._database = database
        self._target = database.rows
        self._writes = False
        self._changes = 0
        self._is_checked = False
        self.actor = database.simulator.actor
        self.used_at = 0.0
        # For oslo.db, which notes errors there.
        self.info: dict[str, Any] = {}

    def begin(self, writes: bool) -> None:
        """Begin a transaction when no other one is under way."""
        database, simulator = self._database, self._database.simulator
        self.actor, self._writes, self._is_checked = simulator.actor, writes, False
        simulator.pause()
        database.answer()
        if not writes and database.has_past and database.take(LATE):
            self._target = database.late()
        else:
            self._target = database.rows
            database.acquire(self)
        self._target.execute("BEGIN")
        self._changes = self._target.total_changes

    def execute_next(self, statement: str) -> None:
        """Wait as for an answer of the database before each statement that writes."""
        self._check()
        simulator = self._database.simulator
        if simulator.recording:
            simulator.log(" ".join(statement.split())[:90])
        if self._writes:
            is_read = statement.startswith("SELECT")
            self._is_checked |= not is_read and CHECKED.search(statement) is not None
            simulator.pause()
            self._check()
            self.used_at = simulator.now
            if self._database.take(DEADLOCK):
                self.lose()
                raise DBDeadlock()

    def commit(self) -> None:
        """Commit, or not, and have the answer, or not."""
        database, actor = self._database, self.actor
        if self._writes:
            database.simulator.pause()
            self._check()
            fault = database.take(LOST_BEFORE, UNCERTIFIED, KILL_BEFORE)
            if fault:
                self.lose()
                if fault == KILL_BEFORE:
                    database.kill(actor)
                    time.sleep(0)
                raise DBDeadlock() if fault == UNCERTIFIED else DBConnectionError()
        self._target.commit()
        changed = self._target.total_changes != self._changes
        database.release(self)
        if self._writes and changed:
            database.simulator.log("COMMIT")
            database.after_commit(self._is_checked)
            fault = database.take(LOST_AFTER, KILL_AFTER)
            if fault == KILL_AFTER:
                database.kill(actor)
            elif fault:
                raise DBConnectionError()
        database.simulator.pause()

    def rollback(self) -> None:
        """Undo the transaction, if it is still under way."""
        if self._target is not self._database.rows or self._database.holds(self):
            self.lose()

    def lose(self) -> None:
        """Undo the transaction and let others go on, as the database does by itself."""
        if self._target.in_transaction:
            self._target.rollback()
        self._database.release(self)

    def _check(self) -> None:
        if self._target is self._database.rows and not self._database.holds(self):
            raise DBConnectionError()

    def cursor(self) -> sqlite3.Cursor:
        """Return a cursor of SQLite."""
        found = self._target.cursor(_Cursor)
        found.before = self.execute_next
        return found

    # What is under way when a connection is given back is undone.
    close = rollback

    def _close_special(self, transaction_reset: bool) -> None:
        """Be given back after that."""


class _Cursor(sqlite3.Cursor):
    """A cursor that waits before each statement, less dearly than an event of SQLAlchemy."""

    before: Callable[[str], None]

    def execute(self, statement: str, parameters: Any = ()) -> "_Cursor":
        self.before(statement)
        return super().execute(statement, parameters)

    def executemany(self, statement: str, parameters: Any) -> "_Cursor":
        self.before(statement)
        return super().executemany(statement, parameters)


class _Connection(sa.Connection):
    """Tells its session whether a transaction writes."""

    def _begin_impl(self, transaction: Any) -> None:
        session: Any = self.connection
        session.begin(self.get_execution_options().get("berthmaster_writes", False))
        super()._begin_impl(transaction)


class _Engine(sa.Engine):
    """An engine without a pool and without events but for errors."""

    _connection_cls = _Connection

    def __init__(self, database: SimulatedDatabase, dialect: sa.Dialect, options: Any) -> None:
        pool, self._database = sa.pool.NullPool(lambda: Session(database)), database
        super().__init__(pool, dialect, sa.make_url("sqlite://"), execution_options=options)

    def raw_connection(self) -> Any:
        return Session(self._database)


def _send(event: Event) -> None:
    if not event.ready():
        event.send()


def _dialect() -> sa.Dialect:
    """Return what SQLAlchemy knows of SQLite, after it has asked it."""
    engine = sa.create_engine("sqlite://")
    # As the product's engines have it: errors of drivers become those of oslo.db.
    sa.event.listen(engine, "handle_error", exc_filters.handler, retval=True)
    engine.connect().close()
    return engine.dialect


def _rows(connection: sqlite3.Connection) -> dict[str, list[Any]]:
    """Return all rows by their tables."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}


def in_memory(simulator: Simulator) -> sqlite3.Connection:
    """Return a connection of SQLite whose clock is that of the history."""
    found = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=10_000
    )

    def strftime(form: str, _now: str) -> str:
        second, fraction = divmod(round(1e6 * (EPOCH + simulator.now)), 10**6)
        return _to_the_second(form, second).replace("~", f".{fraction // 1000:03d}")

    found.create_function("strftime", 2, strftime)
    return found


@lru_cache(maxsize=1000)
def _to_the_second(form: str, seconds: int) -> str:
    """Return the time in a form of SQLite, with ~ for a fraction of a second."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form.replace("%f", "%S~"))
