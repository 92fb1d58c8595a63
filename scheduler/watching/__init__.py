# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a scheduler process is watched: its measures, its health, its part of the report on SIGUSR2.

Without [status] bind there is the report alone, which costs a few bytes.
"""

from collections.abc import Sequence

from oslo_config import cfg
from prometheus_client import Gauge, ProcessCollector

from conf.health import Health
from conf.status_server import StatusServer, new_registry
from inventory.engine import Database
from scheduler.course import Witness
from scheduler.host_view import HostView
from scheduler.rpc.server import RpcServer
from scheduler.watching.health import SchedulerChecks
from scheduler.watching.hosts import HostMeasures
from scheduler.watching.measures import Measures
from scheduler.watching.report import Report

__all__ = ["Watching"]


class Watching:
    """Watches one process; its witnesses are for whoever answers requests."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._registry = new_registry()
        self._report = Report()
        self.witnesses: Sequence[Witness] = (self._report,)
        if conf.status.bind:
            self.witnesses = (self._report, Measures(self._registry))
        self._checks: SchedulerChecks | None = None
        self._server: StatusServer | None = None

    def start(self, database: Database, view: HostView, requests: RpcServer) -> None:
        """Begin to show it, where somebody wants to see it; raises ConfigError."""
        self._report.register(view, requests)
        if not self._conf.status.bind:
            return
        self._checks = SchedulerChecks(self._conf, database, view, requests)
        health = Health(self._checks.all)
        # In this order they are collected: what is unhealthy is noted, and the view read, first.
        self._registry.register(health)
        self._registry.register(HostMeasures(view, self._conf, self._checks.database_time))
        Gauge(
            "berthmaster_requests_in_flight",
            "Requests that were taken and are not answered yet.",
            registry=self._registry,
        ).set_function(lambda: requests.in_flight)
        ProcessCollector(registry=self._registry)
        ports = self._conf.scheduler.workers
        self._server = StatusServer(self._conf, self._registry, health, ports)
        self._server.start()

    def stop(self) -> None:
        """Show nothing any more."""
        if self._server is not None:
            self._server.stop()
        if self._checks is not None:
            self._checks.close()
