# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics, health and report of a scheduler process; without [status] bind the report alone."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from oslo_config import cfg
from oslo_reports.guru_meditation_report import TextGuruMeditation
from oslo_reports.models.with_default_views import ModelWithDefaultViews
from prometheus_client import Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily

from conf.daemon.health import Check, Health
from conf.daemon.status_server import StatusServer, new_registry
from inventory.engine import Database
from scheduler.host_cache.cache import HostCache
from scheduler.messaging.broker_check import BrokerCheck
from scheduler.messaging.intake import Intake
from scheduler.monitoring.claim_metrics import ClaimMetrics
from scheduler.monitoring.host_metrics import HostMetrics
from scheduler.monitoring.request_metrics import RequestMetrics
from scheduler.monitoring.standby_metrics import HeldMetrics, ReservationMetrics, StandbyMetrics
from scheduler.operators.status_pages.page_process import PageProcess
from scheduler.request_trace import RequestObserver, RequestTrace

# Seconds: an older cache is read again by the check, even without requests.
REFRESH_AFTER = 5.0
# How many finished requests the report has.
LAST = 10


class Monitoring:
    """Monitor one process; its observers get all requests."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._pages = PageProcess.of(conf)
        self._registry = new_registry()
        self._report = Report()
        self.observers: Sequence[RequestObserver] = (self._report,)
        if conf.status.bind:
            self.observers = (self._report, RequestMetrics(self._registry))
        self._started = ExitStack()

    def start(
        self,
        database: Database,
        host_cache: HostCache,
        requests: Intake,
        dropped: Mapping[str, Callable[[], int]],
    ) -> None:
        """Serve metrics and health if that is configured; raises ConfigError.

        dropped returns by kind how many items of background work were lost.
        """
        # The section is made in the handler of the signal.
        TextGuruMeditation.register_section(
            "Scheduler",
            lambda: ModelWithDefaultViews(data=self._report.facts(host_cache, requests)),
        )
        if not self._conf.status.bind:
            return
        checks = SchedulerChecks(self._conf, database, host_cache, requests)
        self._started.callback(checks.broker.close)
        health = Health(checks.all)
        # Collected in this order: the checks refresh the cache before its metrics are read.
        self._registry.register(health)
        self._registry.register(HostMetrics(host_cache, self._conf, checks.database_time))
        self._registry.register(ClaimMetrics(database))
        self._registry.register(checks.standbys)
        self._registry.register(HeldMetrics(database))
        self._registry.register(ReservationMetrics(database))
        self._registry.register(DroppedMetrics(dropped))
        Gauge(
            "berthmaster_requests_in_flight",
            "Requests that were received but not answered yet.",
            registry=self._registry,
        ).set_function(lambda: requests.in_flight)
        ProcessCollector(registry=self._registry)
        workers = self._conf.scheduler.workers
        server = StatusServer(self._conf, self._registry, health, workers, self._pages)
        self._started.callback(self.reset)
        self._started.callback(server.stop)
        server.start()

    def reset(self) -> None:
        """Let the next page be made by the configuration as it is then."""
        if self._pages is not None:
            self._pages.stop()

    def stop(self) -> None:
        self._started.close()


class DroppedMetrics:
    """A Prometheus collector that counts lost items of background work."""

    def __init__(self, dropped: Mapping[str, Callable[[], int]]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterator[CounterMetricFamily]:
        for kind, number in self._dropped.items():
            text = f"Lost {kind}: the queue was full, or they could not be sent."
            yield CounterMetricFamily(f"berthmaster_{kind}_dropped", text, number())


class SchedulerChecks:
    """The checks of its broker, its database and its host cache."""

    def __init__(
        self, conf: cfg.ConfigOpts, database: Database, host_cache: HostCache, server: Intake
    ) -> None:
        self._database = database
        self._host_cache = host_cache
        self._server = server
        self.broker = BrokerCheck(conf)
        self.standbys = StandbyMetrics(database)
        # How far the database's clock is ahead of the monotonic one.
        self._ahead: float | None = None
        # By the names of the parts.
        self.all: dict[str, Check] = {
            "broker": self._check_broker,
            "database": self._check_database,
            "view": self._check_host_cache,
            "standbys": self.standbys.check,
        }

    def database_time(self) -> float | None:
        """Return the database's time in seconds since 1970, None before the first check."""
        return None if self._ahead is None else time.monotonic() + self._ahead

    def _check_broker(self) -> str | None:
        self.broker.probe()
        return None if self._server.connected() else "requests are not received: not subscribed yet"

    def _check_database(self) -> None:
        self._ahead = self._database.now() - time.monotonic()

    def _check_host_cache(self) -> None:
        # Raises DatabaseUnavailable if it is old and cannot be read.
        with self._host_cache.current(REFRESH_AFTER):
            pass


class Report:
    """An observer that remembers the last requests."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=LAST)

    def on_finished(self, trace: RequestTrace) -> None:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        first = trace.instance_uuids[0] if trace.instance_uuids else None
        line = f"{at} {first or '(no uuid)'} {trace.outcome} in {1000 * trace.total:.1f} ms"
        self._last.append(line)

    def facts(self, host_cache: HostCache, requests: Intake) -> dict[str, object]:
        """Return the section of the report on SIGUSR2, without locking anything."""
        return {
            "seconds since the host cache was read": f"{host_cache.age:.1f}",
            "requests in flight": requests.in_flight,
            "last requests": list(self._last),
        }
