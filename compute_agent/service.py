# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent as oslo.service runs it, and the one place where its parts are joined.

It is started, stopped and reset in the process that does the work. With native threads that is a
child of the process that made it, so nothing is connected before start(); and with green threads
stop() may come without a start().
"""

from collections.abc import Callable, Sequence
from threading import Event

from oslo_config import cfg
from oslo_log import log
from oslo_service.service import ServiceBase

from compute_agent import identity
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.audit.transaction import AuditResult
from compute_agent.endpoint import HostEndpoint
from compute_agent.manager import Manager
from compute_agent.monitoring import Monitoring
from compute_agent.monitors import monitor_loading
from compute_agent.rpc_server import AgentRpcServer
from compute_agent.virt.driver import Driver
from conf.daemon import tracing
from conf.daemon.process import stop_each
from conf.daemon.systemd import Notifier
from inventory.engine import open_database
from scheduler.messaging.change_publisher import ChangePublisher

LOG = log.getLogger(__name__)


class AgentService(ServiceBase):  # type: ignore[misc]  # oslo.service ships no types
    """Runs the parts of the agent between start() and stop() and keeps systemd informed.

    Raises conf.loading.ConfigError for monitors that cannot be made.
    """

    def __init__(self, conf: cfg.ConfigOpts, driver: Driver, notifier: Notifier) -> None:
        self._conf = conf
        self._driver = driver
        self._notifier = notifier
        self._monitors = monitor_loading.load(conf, driver)
        self._manager: Manager | None = None
        self._steps: Sequence[Callable[[], object]] = ()
        self._ended = Event()

    def start(self) -> None:
        """Start all parts; systemd is notified once the services are registered."""
        tracing.prepare(self._conf)
        conf, driver, database = self._conf, self._driver, open_database(self._conf)
        rpc_server = AgentRpcServer(conf, [HostEndpoint(conf, database, driver)])
        publisher = ChangePublisher(lambda: rpc_server.transport, conf.host)
        monitoring = Monitoring(conf, driver)

        def publish(result: AuditResult) -> None:
            monitoring.stored(result)
            publisher.publish(result)

        tracker = ResourceTracker(conf, database, driver, self._monitors.read, publish)
        manager = Manager(conf, database, driver, tracker, self._ready)
        self._manager = manager
        parts = manager, publisher, rpc_server, monitoring
        self._steps = (*(part.stop for part in parts), database.close)
        monitoring.start(database, manager, rpc_server.listening)
        for part in (rpc_server, publisher, manager):
            part.start()
        self._notifier.watch(manager.alive)

    def stop(self) -> None:
        """Stop all parts; do nothing before start()."""
        if self._steps and not self._ended.is_set():
            LOG.info("Stopping")
            self._notifier.stopping()
            stop_each(*self._steps)
            LOG.info("Stopped")
        self._ended.set()

    def wait(self) -> None:
        """Return after stop()."""
        self._ended.wait()

    def reset(self) -> None:
        """Audit at once on SIGHUP, with the options as they are now."""
        if self._manager is not None:
            self._manager.audit_now()

    def _ready(self) -> None:
        self._notifier.ready(f"Host {identity.shortened(self._driver.hosts())}")
