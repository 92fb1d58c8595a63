# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the claims in the database, which are those of all schedulers."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily

from inventory.claims import existing
from inventory.claims.existing import PendingClaims
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import awaited

T = TypeVar("T")
# Seconds: between two reads, since each costs the database some time, and of waiting for one.
INTERVAL = 30.0
TIMEOUT = 2.0
METRICS = (
    ("berthmaster_pending_claims", "Claims whose instances no agent has seen yet."),
    ("berthmaster_pending_claims_overdue", "Pending claims whose lease has ended."),
    (
        "berthmaster_pending_claims_oldest_age_seconds",
        "Age of the oldest pending claim; 0 if no claim is pending.",
    ),
)


class SpacedReads(Generic[T]):
    """What a query returns, read again by who asks for it once it is older than an interval."""

    def __init__(
        self, database: Database, query: Callable[[sa.Connection], T], interval: float
    ) -> None:
        self.timeout = TIMEOUT
        self._database, self._query, self._interval = database, query, interval
        self._threads = CachedThreadPool()
        self._read_at = float("-inf")
        self._answer: Future[T] | None = None

    def latest(self) -> T | None:
        """Return what the query has returned, None while the database does not answer."""
        now = time.monotonic()
        # One at a time: a database that hangs shall not cost a thread for each look.
        is_running = self._answer is not None and not self._answer.done()
        if self._answer is None or (not is_running and now - self._read_at >= self._interval):
            self._read_at = now
            self._answer = self._threads.run(lambda: self._database.read(self._query))
        try:
            return awaited(self._answer, self.timeout)
        except DatabaseUnavailable:
            # Health says so; the next look reads again.
            self._read_at = float("-inf")
            return None


class ClaimMetrics(SpacedReads[PendingClaims]):
    """A Prometheus collector; without an answer of the database its metrics have no values."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, existing.pending, INTERVAL)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        pending = self.latest()
        for number, (name, text) in enumerate(METRICS):
            yield GaugeMetricFamily(name, text, None if pending is None else pending[number])
