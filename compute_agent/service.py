# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent as oslo.service runs it: started, stopped and reset in the process that does the work.

With native threads that is a child of the process that made it, so nothing is connected before
start(); and with green threads stop() may come without a start().
"""

from threading import Event

from oslo_config import cfg
from oslo_log import log
from oslo_service.service import ServiceBase

from compute_agent.manager import Manager
from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import Driver
from conf.systemd import Notifier
from inventory.engine import Database, open_database

LOG = log.getLogger(__name__)


class AgentService(ServiceBase):  # type: ignore[misc]  # oslo.service ships no types
    """Runs the manager between start() and stop() and keeps systemd informed."""

    def __init__(self, conf: cfg.ConfigOpts, driver: Driver, notifier: Notifier) -> None:
        self._conf = conf
        self._driver = driver
        self._notifier = notifier
        self._database: Database | None = None
        self._manager: Manager | None = None
        self._ended = Event()

    def start(self) -> None:
        """Begin with the work; systemd hears of it once the services are registered."""
        self._database = open_database(self._conf)
        tracker = ResourceTracker(self._conf, self._database, self._driver)
        self._manager = Manager(self._conf, self._database, self._driver, tracker, self._ready)
        self._manager.start()
        self._notifier.watch(self._manager.alive)

    def stop(self) -> None:
        """End the work, or do nothing if there is none."""
        if self._manager is not None and not self._ended.is_set():
            LOG.info("Stopping")
            self._notifier.stopping()
            self._manager.stop()
        if self._database is not None:
            self._database.close()
        self._ended.set()

    def wait(self) -> None:
        """Return after stop()."""
        self._ended.wait()

    def reset(self) -> None:
        """Answer SIGHUP: nothing is left to do, since each audit looks at the options anew."""

    def _ready(self) -> None:
        hosts = self._driver.hosts()
        more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
        self._notifier.ready(f"Host {hosts[0]}{more}")
