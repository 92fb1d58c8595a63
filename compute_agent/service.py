# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent as oslo.service runs it, and the one place where its parts are joined.

It is started, stopped and reset in the process that does the work. With native threads that is a
child of the process that made it, so nothing is connected before start(); and with green threads
stop() may come without a start().
"""

from dataclasses import dataclass
from threading import Event

from oslo_config import cfg
from oslo_log import log
from oslo_service.service import ServiceBase

from compute_agent.bus import Bus
from compute_agent.endpoint import HostEndpoint
from compute_agent.host_operations import HostOperations
from compute_agent.manager import Manager
from compute_agent.monitors import loading
from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import Driver
from compute_agent.watching import Watching
from conf import tracing
from conf.stopping import stop_each
from conf.systemd import Notifier
from inventory.engine import Database, open_database
from scheduler.rpc.announcements import Announcements

LOG = log.getLogger(__name__)


class AgentService(ServiceBase):  # type: ignore[misc]  # oslo.service ships no types
    """Runs the parts of the agent between start() and stop() and keeps systemd informed.

    Raises conf.loading.ConfigError for monitors that cannot be made.
    """

    def __init__(self, conf: cfg.ConfigOpts, driver: Driver, notifier: Notifier) -> None:
        self._conf = conf
        self._driver = driver
        self._notifier = notifier
        self._monitors = loading.load(conf, driver)
        self._parts: _Parts | None = None
        self._ended = Event()

    def start(self) -> None:
        """Begin with the work; systemd hears of it once the services are registered."""
        tracing.prepare(self._conf)
        conf, driver, database = self._conf, self._driver, open_database(self._conf)
        bus = Bus(conf, [HostEndpoint(HostOperations(conf, database, driver))])
        announcements = Announcements(lambda: bus.transport, conf.host)
        watching = Watching(conf)
        tell = watching.hearing(announcements.tell)
        tracker = ResourceTracker(conf, database, driver, self._monitors.read, tell)
        manager = Manager(conf, database, driver, tracker, self._ready)
        self._parts = _Parts(database, bus, announcements, manager, watching)
        watching.start(database, manager, bus.listening)
        for part in (bus, announcements, manager):
            part.start()
        self._notifier.watch(manager.alive)

    def stop(self) -> None:
        """End the work, or do nothing if there is none."""
        if self._parts is not None and not self._ended.is_set():
            LOG.info("Stopping")
            self._notifier.stopping()
            parts = self._parts
            each = (parts.manager, parts.announcements, parts.bus, parts.watching)
            stop_each(*(part.stop for part in each), parts.database.close)
        self._ended.set()

    def wait(self) -> None:
        """Return after stop()."""
        self._ended.wait()

    def reset(self) -> None:
        """Answer SIGHUP with an audit, which looks at the options anew."""
        if self._parts is not None:
            self._parts.manager.look_again()

    def _ready(self) -> None:
        hosts = self._driver.hosts()
        more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
        self._notifier.ready(f"Host {hosts[0]}{more}")


@dataclass(frozen=True, slots=True)
class _Parts:
    """What works between start() and stop()."""

    database: Database
    bus: Bus
    announcements: Announcements
    manager: Manager
    watching: Watching
