# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of the agent: audits, broker, database, hypervisor."""

import time
from collections.abc import Callable, Iterable, Iterator

from oslo_config import cfg
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric

from compute_agent.audit.transaction import AuditResult
from compute_agent.manager import Manager
from compute_agent.virt.driver import Driver, DriverError
from conf.compute_agent import audit_interval
from conf.daemon.health import Health
from conf.daemon.state_logger import one_line
from conf.daemon.status_server import StatusServer, new_registry
from inventory import compute_nodes
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.messaging.broker_check import BrokerCheck

# Seconds.
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
MIB, GIB = 2**20, 2**30
# By metric: the columns of what nodes have, use and overcommit, and the bytes that these count.
RESOURCES = {
    "vcpus": (*compute_nodes.RESOURCES["vcpus"], 1),
    "memory_bytes": (*compute_nodes.RESOURCES["memory"], MIB),
    "disk_bytes": (*compute_nodes.RESOURCES["disk"], GIB),
}
FIGURES = ("running_vms", *(name for *names, _ in RESOURCES.values() for name in names))
# Intervals without an audit after which the agent is unhealthy.
MAX_MISSED = 3
# Seconds that an audit may take in addition.
AUDIT_TIMEOUT = 60.0


class AgentMetrics:
    """Counts audits and rows written; a collector for a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._audits = Counter(
            "berthmaster_audits", "Audits, failed audits included.", registry=registry
        )
        self._seconds = Histogram(
            "berthmaster_audit_seconds",
            "Duration of an audit, of all nodes or of some nodes.",
            registry=registry,
            buckets=BUCKETS,
        )
        self._failures = Counter(
            "berthmaster_audit_failures",
            "Audits that failed, by the service that did not answer.",
            ["cause"],
            registry=registry,
        )
        for cause in ("hypervisor", "database", "other"):
            self._failures.labels(cause)
        self._rows = Counter(
            "berthmaster_rows_written", "Rows of nodes and instances.", registry=registry
        )
        # Their FIGURES by the ids of their rows.
        self._nodes: dict[int, dict[str, float]] = {}
        self._connected = False
        # Why the last audit failed, unless the database was the cause.
        self.failure = "no audit has ended yet"
        # Whether the database was the cause.
        self.lacks_database = False
        # When the last successful audit ended, on the monotonic clock.
        self.audited_at: float | None = None
        # Whether another agent does the work.
        self._stands_by = False
        registry.register(self)

    def audited(self, seconds: float, error: Exception | None) -> None:
        """Count a finished audit, by the cause of its failure."""
        self._stands_by = False
        self._audits.inc()
        self._seconds.observe(seconds)
        self.lacks_database = isinstance(error, DatabaseUnavailable)
        if error is None:
            self.failure, self._connected, self.audited_at = "", True, time.monotonic()
        elif self.lacks_database:
            self._failures.labels("database").inc()
        else:
            hypervisor = isinstance(error, DriverError)
            self._failures.labels("hypervisor" if hypervisor else "other").inc()
            self._connected = self._connected and not hypervisor
            self.failure = one_line(error)

    def stood_by(self, error: Exception | None) -> None:
        """Note that another agent does the work, and why this one could not take over, if so."""
        self._stands_by, self.audited_at = True, None
        self.failure, self._connected = one_line(error) if error else "", error is None
        # They are another's now.
        self._nodes.clear()

    def stored(self, result: AuditResult) -> None:
        """Count the rows that an audit has written."""
        self._rows.inc(len(result.nodes) + len(result.instances))
        for row in result.nodes:
            self._nodes.pop(row.id, None)
            if not row.deleted:
                self._nodes[row.id] = {name: getattr(row, name) or 0 for name in FIGURES}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "berthmaster_hypervisor_connected",
            "1 if the hypervisor answered at the last audit.",
            float(self._connected),
        )
        yield GaugeMetricFamily(
            "berthmaster_standing_by",
            "1 if this agent stands by: another agent with the same task is at work, and this"
            " agent would take over.",
            float(self._stands_by),
        )
        yield GaugeMetricFamily(
            "berthmaster_audit_age_seconds",
            "Time since the end of the last successful audit; absent before the first audit.",
            None if self.audited_at is None else time.monotonic() - self.audited_at,
        )
        yield from self._collect_nodes(tuple(self._nodes.values()))

    def _collect_nodes(self, nodes: tuple[dict[str, float], ...]) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("berthmaster_nodes", "Nodes of this agent.", len(nodes))
        guests = sum(each["running_vms"] for each in nodes)
        yield GaugeMetricFamily("berthmaster_guests", "Guests on the nodes of this agent.", guests)
        for name, (total, used, ratio, unit) in RESOURCES.items():
            gauge = GaugeMetricFamily(
                f"berthmaster_node_{name}",
                "What the nodes of this agent have, use, and may allocate with their allocation"
                " ratios.",
                labels=["kind"],
            )
            gauge.add_metric(["total"], sum(each[total] * unit for each in nodes))
            gauge.add_metric(["used"], sum(each[used] * unit for each in nodes))
            limit = sum(each[total] * each[ratio] * unit for each in nodes)
            gauge.add_metric(["limit"], limit)
            yield gauge

    def check_hypervisor(self, interval: float | None) -> str | None:
        """Return a problem by the audits, made at this interval: they ask it often enough."""
        if self.failure or self.audited_at is None or interval is None:
            return self.failure
        age = time.monotonic() - self.audited_at
        # The check of the database reports that itself.
        if self.lacks_database or age <= MAX_MISSED * interval + AUDIT_TIMEOUT:
            return None
        return f"the last audit ended {age:.0f} s ago, an audit is due every {interval} s"


class DriverMetrics:
    """Metrics of the driver's own; a collector for a registry."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        return self._driver.metrics()


class Monitoring:
    """Metrics and health of one agent; without [status] bind it does nothing."""

    def __init__(self, conf: cfg.ConfigOpts, driver: Driver) -> None:
        self._conf = conf
        self._driver = driver
        self._registry = new_registry()
        self._metrics = AgentMetrics(self._registry)
        self._broker: BrokerCheck | None = None
        self._server: StatusServer | None = None

    def stored(self, result: AuditResult) -> None:
        """Count the rows that an audit has written."""
        if self._conf.status.bind:
            self._metrics.stored(result)

    def start(self, database: Database, manager: Manager, listening: Callable[[], bool]) -> None:
        """Start the status server, before the first audit; raises ConfigError.

        listening says whether operations over RPC are received.
        """
        if not self._conf.status.bind:
            return
        manager.observer = self._metrics.audited
        manager.standby_observer = self._metrics.stood_by
        self._broker = BrokerCheck(self._conf)
        health = self._health(self._broker, database, listening)
        self._registry.register(health)
        self._registry.register(DriverMetrics(self._driver))
        ProcessCollector(registry=self._registry)
        self._server = StatusServer(self._conf, self._registry, health)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        if self._broker is not None:
            self._broker.close()

    def _health(
        self, broker: BrokerCheck, database: Database, listening: Callable[[], bool]
    ) -> Health:
        def check_broker() -> str | None:
            broker.probe()
            return None if listening() else "operations are not received: not subscribed yet"

        def check_database() -> None:
            database.now()

        return Health(
            {
                "broker": check_broker,
                "database": check_database,
                "hypervisor": lambda: self._metrics.check_hypervisor(audit_interval(self._conf)),
            }
        )
