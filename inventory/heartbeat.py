# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a daemon: a thread that tells the database again and again that it is alive."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Event, Thread

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry
from oslo_log import log

from inventory import services
from inventory.engine import Database

LOG = log.getLogger(__name__)
VERSION = 2
# The first release whose agents count claims.
COUNTING_CLAIMS = 2
# How long a stop waits for a beat. A database that hangs would keep it for minutes.
PATIENCE = 5.0
# So many heartbeats of somebody else during so many of our own make it certain that there is one. A
# restart or a commit that is made twice makes fewer.
CERTAIN = 3
WINDOW = 6


class Rivals:
    """Whether somebody else beats for the same services, as their counts tell."""

    def __init__(self) -> None:
        self.there = False
        self._last: int | None = None
        self._strange: deque[int] = deque(maxlen=WINDOW)

    def note(self, count: int, own: int) -> None:
        """Take in the count after a heartbeat of ours, which has added own to it."""
        if self._last is not None:
            self._strange.append(max(0, count - self._last - own))
        self._last = count
        seen = sum(self._strange)
        self.there = seen >= CERTAIN or (self.there and seen > 0)

    def forget(self) -> None:
        """Begin anew with the next count, of rows that are others now."""
        self._last = None


class Heartbeat:
    """Registers services and beats for them. It waits for nothing but the database.

    on_rivals is called when it turns out that somebody else beats for them too, and when that is
    over. Without it that is in order, as for workers of one scheduler.
    """

    def __init__(
        self,
        database: Database,
        hosts: Iterable[str],
        kind: tuple[str, str],
        interval: float,
        on_rivals: Callable[[], None] | None = None,
    ) -> None:
        self.ids: list[int] = []
        self.rivals = Rivals()
        self._on_rivals = on_rivals
        self._database = database
        self._hosts = list(hosts)
        self._kind = kind
        self._interval = interval
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Register the services, beat once and keep beating; raises when the first beat fails."""
        try:
            self._register()
        # Another worker of this daemon was quicker. Only a new transaction sees its row.
        except DBDuplicateEntry:
            self._register()
        self._database.write(lambda connection: services.beat(connection, self.ids))
        self._thread.start()

    def stop(self, patience: float = PATIENCE) -> None:
        """End the beat and wait for its thread, for so many seconds at most."""
        self._stopped.set()
        if self._thread.ident:
            self._thread.join(patience)
            if self._thread.is_alive():
                LOG.warning("Heartbeat still waits for the database; stopping without it")

    def _register(self) -> None:
        self.ids = self._database.write(
            lambda connection: services.register(connection, self._hosts, self._kind, VERSION)
        )

    def _run(self) -> None:
        failing = False
        while not self._stopped.wait(self._interval):
            failure = self._failure()
            # Outside of the handler, where oslo.log would add the error a second time.
            if failure and not failing:
                LOG.warning(
                    "Heartbeat failed, trying again every %s s: %s", self._interval, failure
                )
            elif failing and not failure:
                LOG.info("Heartbeat recovered")
            failing = bool(failure)

    def _failure(self) -> str:
        """Beat; return what went wrong, or nothing."""
        try:
            self._beat()
        # A thread that ends would mark a healthy host as down for good.
        except Exception as error:
            return str(error) or repr(error)
        return ""

    def _beat(self) -> None:
        def work(connection: sa.Connection) -> tuple[int, int]:
            alive = services.beat(connection, self.ids)
            return alive, services.beats(connection, self.ids) if self._on_rivals else 0

        alive, count = self._database.write(work)
        if alive < len(self.ids):
            LOG.warning("A service row of this host was deleted; creating it again")
            self._register()
            self.rivals.forget()
        elif self._on_rivals is not None:
            before = self.rivals.there
            self.rivals.note(count, alive)
            if self.rivals.there != before:
                self._on_rivals()
