# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of the standbys in the database, which are those of all schedulers."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from prometheus_client.core import GaugeMetricFamily

from inventory.claims import standby_rows
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import counted
from inventory.objects.standby import PREFERRED, REQUIRED
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import awaited

# Seconds: between two reads, and of waiting for one.
INTERVAL = 10.0
TIMEOUT = 2.0


class StandbyMetrics:
    """A Prometheus collector; without an answer of the database its metrics have no values."""

    def __init__(self, database: Database) -> None:
        self.timeout = TIMEOUT
        self._database = database
        self._threads = CachedThreadPool()
        self._read_at = float("-inf")
        self._answer: Future[Mapping[str, int]] | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics, read again if they are old."""
        found = self._counts()
        protected = GaugeMetricFamily(
            "berthmaster_protected_instances", "Instances that are to have standbys."
        )
        lacking = GaugeMetricFamily(
            "berthmaster_protected_instances_without_standby",
            "Protected instances that have no standby.",
            labels=["mode"],
        )
        if found is not None:
            protected.add_metric([], found["protected"])
            for mode in (REQUIRED, PREFERRED):
                lacking.add_metric([mode], found.get(mode, 0))
        yield protected
        yield lacking

    def check(self) -> str | None:
        """Return how many instances lack a standby that they have to have, if any does."""
        found = self._counts()
        number = found.get(REQUIRED, 0) if found else 0
        if not number:
            return None
        have = counted(number, "instance has", "instances have")
        return f"{have} no standby that is required: see 'berthmaster failover status --without'"

    def _counts(self) -> Mapping[str, int] | None:
        now = time.monotonic()
        # One at a time: a database that hangs shall not cost a thread for each look.
        is_running = self._answer is not None and not self._answer.done()
        if self._answer is None or (not is_running and now - self._read_at >= INTERVAL):
            self._read_at = now
            self._answer = self._threads.run(lambda: self._database.read(standby_rows.lacking))
        try:
            return awaited(self._answer, self.timeout)
        except DatabaseUnavailable:
            # The check of the database says so; the next look reads again.
            self._read_at = float("-inf")
            return None
