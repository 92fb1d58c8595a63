# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a scheduler needs to be well: its broker, its database, its view of the hosts."""

import time

from oslo_config import cfg

from conf.health import Check
from inventory import clock
from inventory.engine import Database
from scheduler.host_view import HostView
from scheduler.rpc.broker_check import BrokerCheck
from scheduler.rpc.server import RpcServer

# Seconds: an older view is read again when somebody asks for it, though nobody asks for hosts.
REFRESH_AFTER = 5.0


class SchedulerChecks:
    """Asks the parts of a scheduler."""

    def __init__(
        self, conf: cfg.ConfigOpts, database: Database, view: HostView, server: RpcServer
    ) -> None:
        self._database = database
        self._view = view
        self._server = server
        self._broker = BrokerCheck(conf)
        # How far the database's clock is ahead of the monotonic one.
        self._ahead: float | None = None

    @property
    def all(self) -> dict[str, Check]:
        """The checks by their parts."""
        return {"broker": self._ask_broker, "database": self._ask_database, "view": self._ask_view}

    def database_time(self) -> float | None:
        """Return the database's time in seconds since 1970, None if it was never asked."""
        return None if self._ahead is None else time.monotonic() + self._ahead

    def close(self) -> None:
        """Give back what the checks have opened."""
        self._broker.close()

    def _ask_broker(self) -> str | None:
        self._broker.greet()
        return None if self._server.connected() else "requests are not received: not subscribed yet"

    def _ask_database(self) -> None:
        self._ahead = clock.read(self._database) - time.monotonic()

    def _ask_view(self) -> None:
        """Read it if it is old, which raises DatabaseUnavailable where that cannot be."""
        with self._view.current(REFRESH_AFTER):
            pass
