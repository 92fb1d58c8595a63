# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Watch the claims of schedulers that have died, in one of those that live.

A scheduler watches the claims that it has made. If it dies before it answers, nobody builds by its
answer, and the instance may be deleted long before the claim's lease ends.
"""

from collections.abc import Callable
from uuid import uuid4

from oslo_log import log

from conf.daemon.periodic_thread import PeriodicThread
from conf.daemon.state_logger import StateLogger
from inventory import leases
from inventory.claims import existing
from inventory.engine import Database
from scheduler.claims.claim_reconciler import ClaimReconciler

LOG = log.getLogger(__name__)
# The lease of which one scheduler of all does this, and its seconds.
NAME, LEASE = "claims of dead schedulers", 30.0
# Seconds between two looks.
INTERVAL = 10.0
# Seconds after which a claim is nearly always confirmed, or released by the scheduler that made it.
AGE = 15.0
# Seconds that a stop waits for a look under way.
STOP_TIMEOUT = 1.0


class ClaimAdoption:
    """A thread that hands old pending claims of any scheduler to the claim reconciler."""

    def __init__(
        self,
        database: Database,
        host: str,
        reconciler: ClaimReconciler,
        enabled: Callable[[], bool],
    ) -> None:
        self._database = database
        self._owner = f"{host} {uuid4().hex[:8]}"
        self._reconciler = reconciler
        self._enabled = enabled
        self._state = StateLogger(LOG, "Looking for claims of dead schedulers")
        self._thread = PeriodicThread("claim-adoption", self._attempt, INTERVAL)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop(STOP_TIMEOUT)

    def look(self) -> None:
        """Have claims watched, if this is the scheduler that does; raises DatabaseUnavailable."""
        if not self._enabled():
            return
        if leases.hold(self._database, NAME, self._owner, LEASE) == self._owner:
            ages = self._database.read(existing.waiting)
            self._reconciler.adopt({uuid: age for uuid, age in ages.items() if age >= AGE})

    def _attempt(self) -> None:
        self._state.attempt(self.look, "Cannot look for claims of dead schedulers: %s")
