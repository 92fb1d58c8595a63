# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where pages get their facts: the database, read in short transactions, and the configuration."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import TIMEOUT_MAX, Lock
from typing import Any, TypeVar

from oslo_config import cfg

from conf.service import liveness_limit
from inventory import migrations
from inventory.engine import Database, open_database
from scheduler.hosts.table import HostTable
from scheduler.operators.capacity import Simulator
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.status_pages.errors import TooLate
from scheduler.operators.status_pages.explaining import Explained, Explainer, Question

T = TypeVar("T")
# Seconds: the hosts of a page that takes decisions may be so old.
_MAX_AGE = 5.0


class Source:
    """The database of a configuration, which the first page opens that can."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf
        self._lock = Lock()
        self._database: Database | None = None
        # While plug-ins decide: they read settings of the process.
        self._alone = Lock()
        self._explainer = Explainer()
        self._live: LiveHosts | None = None

    @property
    def liveness_limit(self) -> float:
        return liveness_limit(self.conf)

    @property
    def default_zone(self) -> str:
        return str(self.conf.default_availability_zone)

    def read(self, query: Callable[..., T], *arguments: object) -> T:
        """Return query(connection, *arguments); raises DatabaseUnavailable and SchemaError."""
        return self.database().read(lambda connection: query(connection, *arguments))

    def database(self) -> Database:
        """Return the database; raises DatabaseUnavailable and SchemaError."""
        with self._lock:
            if self._database is None:
                # A page says that it is away, rather than wait as a daemon does.
                found = open_database(self.conf, max_retries=1, retry_interval=0)
                try:
                    migrations.check(found)
                except BaseException:
                    found.close()
                    raise
                self._database = found
            return self._database

    def explain(self, row: Any, question: Question, until: float) -> Explained:
        """Return why a decision was made; raises TooLate and what Explainer.explain() does."""
        with self._turn(until):
            return self._explainer.explain(self.read, row, question, until)

    @contextmanager
    def _turn(self, until: float) -> Iterator[None]:
        """Let plug-ins decide for one page at a time; raises TooLate if none of it is left."""
        if not self._alone.acquire(timeout=min(TIMEOUT_MAX, max(0.0, until - time.monotonic()))):
            raise TooLate
        try:
            yield
        finally:
            self._alone.release()

    @contextmanager
    def live_hosts(self, until: float) -> Iterator[tuple[HostTable, Simulator]]:
        """Yield the hosts as they are, a working copy, and what decides about them.

        Raises TooLate and PluginError besides what read() does.
        """
        with self._turn(until):
            if self._live is None:
                self._live = LiveHosts.of(self.conf, self.database(), _MAX_AGE)
            self._live.mix.refresh()
            with self._live.destinations.host_cache.current() as hosts:
                found = hosts.working_copy()
            yield found, self._live.simulator()
