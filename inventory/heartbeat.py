# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a daemon: a thread that tells the database again and again that it is alive."""

from collections.abc import Iterable
from threading import Event, Thread

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


class Heartbeat:
    """Registers services and beats for them. It waits for nothing but the database."""

    def __init__(
        self, database: Database, hosts: Iterable[str], kind: tuple[str, str], interval: float
    ) -> None:
        self.ids: list[int] = []
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
        alive = self._database.write(lambda connection: services.beat(connection, self.ids))
        if alive < len(self.ids):
            LOG.warning("A service row of this host was deleted; creating it again")
            self._register()
