# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a daemon: a thread that stamps its service rows, and detects duplicates.

It also reports the release, the name, the start and the last error of the daemon.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from random import uniform
from threading import Lock

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry
from oslo_log import log

from conf.daemon.log_records import Problem, last_problem
from conf.daemon.periodic_thread import PeriodicThread
from conf.daemon.state_logger import StateLogger
from inventory import daemon_facts, outages, services
from inventory.dialects import current_time, utc_now
from inventory.engine import Database

LOG = log.getLogger(__name__)
VERSION = 3
# The first versions whose agents count claims, and what is held for standbys.
COUNTING_CLAIMS, COUNTING_STANDBYS = 2, 3
# Longest wait for a beat in stop(), in seconds: a database that hangs would hold it for minutes.
STOP_TIMEOUT = 5.0
# Seconds after which one that failed is sent again: at once when the database is back, and not by
# all daemons at the same moment.
RETRY = (0.5, 1.5)
# CERTAIN heartbeats of others during WINDOW of our own mean that another process sends them for the
# same services. A restart, or a commit that is made twice, makes fewer.
CERTAIN = 3
WINDOW = 6


class DuplicateDetector:
    """Detects from report counts that another process beats for the same services."""

    def __init__(self) -> None:
        self.found = False
        self._last: int | None = None
        self._foreign: deque[int] = deque(maxlen=WINDOW)

    def note(self, count: int, own: int) -> None:
        """Note the count after a heartbeat of ours, which has added own to it."""
        if self._last is not None:
            self._foreign.append(max(0, count - self._last - own))
        self._last = count
        foreign = sum(self._foreign)
        self.found = foreign >= CERTAIN or (self.found and foreign > 0)

    def forget(self) -> None:
        """Start again with the next count, since the rows are new."""
        self._last = None


class Heartbeat:
    """Registers services and beats for them. It waits for nothing but the database.

    on_duplicate is called when another process starts or stops to beat for them. Without it that
    is allowed, as for workers of one scheduler.
    """

    def __init__(
        self,
        database: Database,
        hosts: Iterable[str],
        kind: tuple[str, str],
        interval: float,
        on_duplicate: Callable[[], None] | None = None,
    ) -> None:
        self.ids: list[int] = []
        self.duplicates = DuplicateDetector()
        self._on_duplicate = on_duplicate
        # Up to which age in seconds a heartbeat counts as alive; 0 excuses nobody.
        self.limit = 0.0
        # The [DEFAULT] host of the daemon, which may serve other hosts.
        self.daemon_host: str | None = None
        # Asked before each beat.
        self.allowed: Callable[[], bool] = lambda: True
        self._database = database
        self._hosts = list(hosts)
        self._dead: frozenset[str] = frozenset()
        self._ids_by_host: dict[str, int] = {}
        # Those of ids that are not dead.
        self._beating: list[int] = []
        # Of which services the last count of beats was.
        self._counted: Sequence[int] = ()
        # The rows that have the start and the last error of this process, and that error.
        self._reported: tuple[Sequence[int], Problem | None] = ((), None)
        self._created = time.monotonic()
        # When the last one was written, by the monotonic clock and by the database's.
        self._written: tuple[float, datetime] | None = None
        self._registering, self._sending = Lock(), Lock()
        self._kind = kind
        self._interval = interval
        self._state = StateLogger(LOG, "Heartbeat")
        self._thread = PeriodicThread("heartbeat", self._attempt, interval)

    def start(self) -> None:
        """Register the services, beat once and keep beating; raises when the first beat fails."""
        self._register()
        self._send()
        self._thread.start()

    def serve(self, hosts: Iterable[str], dead: Collection[str] = ()) -> None:
        """Beat for the services of these hosts from now on, but not of those that are dead.

        After start() the services of new hosts are registered; others are left as they are.
        """
        names, gone = list(hosts), frozenset(dead)
        if (names, gone) == (self._hosts, self._dead):
            return
        before = self._hosts, self._dead
        self._hosts, self._dead = names, gone
        try:
            if self._thread.ident:
                self._register()
        except Exception:
            self._hosts, self._dead = before
            raise

    def catch_up(self, clock_was_set: bool = False) -> None:
        """Send the heartbeat that is overdue, if one is, before those of hosts are read.

        So it is also if the database's clock was set. Raises DatabaseUnavailable.
        """
        if self._written is None or not self.allowed():
            return
        late = time.monotonic() - self._written[0] > outages.LATE * self._interval
        if late or clock_was_set or self._was_away():
            self._beat()

    def ids_by_host(self) -> dict[str, int]:
        """Return the ids of the services by their hosts."""
        return dict(self._ids_by_host)

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop, and wait for the thread for timeout seconds at most."""
        self._thread.stop(timeout)
        if self._thread.is_alive():
            LOG.warning(
                "The heartbeat still waits for the database; stopping without a last heartbeat"
            )

    def _register(self) -> None:
        with self._registering:
            hosts, dead = self._hosts, self._dead
            try:
                self.ids = self._write_rows(hosts)
            # Another worker of this daemon has made it. Only a new transaction sees its row.
            except DBDuplicateEntry:
                self.ids = self._write_rows(hosts)
            self._ids_by_host = dict(zip(hosts, self.ids, strict=True))
            alive = self._ids_by_host.items()
            self._beating = [number for host, number in alive if host not in dead]

    def _write_rows(self, hosts: Sequence[str]) -> list[int]:
        return self._database.write(
            lambda connection: services.register(connection, hosts, self._kind, VERSION)
        )

    def _attempt(self) -> None:
        text = "Heartbeat failed, trying again every second or so: %s"
        failure = self._state.attempt(self._beat, text, reason=text)
        self._thread.interval = uniform(*RETRY) if failure else self._interval

    def _beat(self) -> None:
        if not self.allowed():
            self.duplicates.forget()
            return
        ids, alive, count = self._send()
        if ids is not self._counted:
            self.duplicates.forget()
            self._counted = ids
        if alive < len(ids):
            LOG.warning("A service row of this host was deleted; creating it again")
            self._register()
            self.duplicates.forget()
        elif self._on_duplicate is not None:
            before = self.duplicates.found
            self.duplicates.note(count, alive)
            if self.duplicates.found != before:
                self._on_duplicate()

    def _was_away(self) -> bool:
        """Return whether the database was away since the last heartbeat."""
        return self._written is not None and self._database.lost_at > self._written[0]

    def _may_be_excused(self, now: datetime) -> bool:
        """Return whether heartbeats may be old for no fault of their senders."""
        if self._written is None or not self.limit:
            return False
        sent_at, stamp = self._written
        # The database's clock was set, or that of this machine stood still as the database's did.
        drift = (now - stamp).total_seconds() - (time.monotonic() - sent_at)
        return self._was_away() or abs(drift) > self._interval

    def _send(self) -> tuple[Sequence[int], int, int]:
        """Beat; return for which rows, how many of them exist, and all their beats if wanted."""
        with self._sending:
            return self._send_now()

    def _send_now(self) -> tuple[Sequence[int], int, int]:
        ids, problem = self._beating, last_problem()
        is_new = ids is not self._reported[0] or problem is not self._reported[1]

        def work(connection: sa.Connection) -> tuple[int, int, datetime]:
            now = current_time(connection, utc_now)
            if self._may_be_excused(now):
                outages.excuse(connection, self.limit, self._interval)
            facts = daemon_facts.release(self.daemon_host)
            if is_new:
                uptime = time.monotonic() - self._created
                facts |= daemon_facts.history(connection, uptime, problem)
            alive = services.beat(connection, ids, facts)
            return alive, services.beats(connection, ids) if self._on_duplicate else 0, now

        alive, count, now = self._database.write(work)
        self._written = time.monotonic(), now
        self._reported = ids, problem
        return ids, alive, count
