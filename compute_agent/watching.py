# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How an agent is watched: its measures and its health, on [status] bind if that is set."""

from collections.abc import Callable

from oslo_config import cfg
from prometheus_client import ProcessCollector

from compute_agent.health import AgentChecks
from compute_agent.manager import Manager
from compute_agent.measures import Measures
from compute_agent.storing import Stored
from conf.health import Health
from conf.status_server import StatusServer, new_registry
from inventory.engine import Database


class Watching:
    """Watches one agent; without [status] bind it does nothing."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._registry = new_registry()
        self._measures = Measures(self._registry)
        self._checks: AgentChecks | None = None
        self._server: StatusServer | None = None

    def hearing(self, tell: Callable[[Stored], None]) -> Callable[[Stored], None]:
        """Return what counts the rows that are told of, and tells of them."""
        return self._measures.hearing(tell) if self._conf.status.bind else tell

    def start(self, database: Database, manager: Manager, listening: Callable[[], bool]) -> None:
        """Begin to show it, before the first audit; raises ConfigError.

        listening says whether operations over RPC are received.
        """
        if not self._conf.status.bind:
            return
        manager.witness = self._measures.audited
        self._checks = AgentChecks(self._conf, database, listening, self._measures)
        health = Health(self._checks.all)
        self._registry.register(health)
        ProcessCollector(registry=self._registry)
        self._server = StatusServer(self._conf, self._registry, health)
        self._server.start()

    def stop(self) -> None:
        """Show nothing any more."""
        if self._server is not None:
            self._server.stop()
        if self._checks is not None:
            self._checks.close()
