# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent needs to be well: its broker, its database, its hypervisor."""

import time
from collections.abc import Callable

from oslo_config import cfg

from compute_agent.measures import Measures
from conf.compute_agent import audit_interval
from conf.health import Check
from inventory import clock
from inventory.engine import Database
from scheduler.rpc.broker_check import BrokerCheck

# After so many intervals without an audit something is wrong, whatever it is.
MOST_MISSED = 3
# Seconds that an audit may take besides.
PATIENCE = 60.0


class AgentChecks:
    """Asks the parts of an agent. listening says whether operations over RPC are received."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        listening: Callable[[], bool],
        measures: Measures,
    ) -> None:
        self._conf = conf
        self._database = database
        self._listening = listening
        self._measures = measures
        self._broker = BrokerCheck(conf)

    @property
    def all(self) -> dict[str, Check]:
        """The checks by their parts."""
        return {
            "broker": self._ask_broker,
            "database": self._ask_database,
            "hypervisor": self._ask_hypervisor,
        }

    def close(self) -> None:
        """Give back what the checks have opened."""
        self._broker.close()

    def _ask_broker(self) -> str | None:
        self._broker.greet()
        return None if self._listening() else "operations are not received: not subscribed yet"

    def _ask_database(self) -> None:
        clock.read(self._database)

    def _ask_hypervisor(self) -> str | None:
        """Look at what audits have come across: they ask the hypervisor often enough."""
        measures, interval = self._measures, audit_interval(self._conf)
        if measures.failure or measures.audited_at is None or interval is None:
            return measures.failure
        age = time.monotonic() - measures.audited_at
        # The database is to blame then, and says so itself.
        if measures.lacks_database or age <= MOST_MISSED * interval + PATIENCE:
            return None
        return f"the last audit ended {age:.0f} s ago, one is due every {interval} s"
