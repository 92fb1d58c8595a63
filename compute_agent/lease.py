# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The lease with which one of several agents of a cloud does the work, and others stand by."""

import time
from collections.abc import Callable
from uuid import uuid4

from oslo_log import log

from conf.daemon.periodic_thread import PeriodicThread
from conf.daemon.state_logger import StateLogger
from inventory import leases
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database

LOG = log.getLogger(__name__)
# Another agent notices within this time, in seconds, that the one that did the work has died. It
# has 5 s in all to take over.
SECONDS = 3.0
# Between two questions. Several may fail before the lease is lost.
INTERVAL = SECONDS / 6
# Seconds that a stop waits for a question under way.
STOP_TIMEOUT = 2.0


class Lease:
    """A thread that takes or renews the lease again and again, so that nothing else delays it.

    It counts as lost as soon as it may be over for others, by the clock of this machine. changed is
    called when it was taken, or was found to be another's.
    """

    def __init__(self, database: Database, name: str, host: str, seconds: float = SECONDS) -> None:
        self.changed: Callable[[], None] = lambda: None
        # Counts how often it was taken: between two terms another may have had it.
        self.term = 0
        self._database = database
        self._name = name
        # The same host may have several by mistake.
        self._owner = f"{host} {uuid4().hex[:8]}"
        self._seconds = seconds
        self._until = float("-inf")
        # Who had it when it was asked for last, and whether the last question was answered.
        self._holder = ""
        self._answered = False
        self._state = StateLogger(LOG, f"Asking for lease {name}")
        self._thread = PeriodicThread("lease", self._ask, INTERVAL, at_once=True)

    @property
    def held(self) -> bool:
        return time.monotonic() < self._until

    @property
    def is_anothers(self) -> bool:
        """Whether another agent does the work, as far as is known."""
        return self._answered and self._holder != self._owner

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask no more, and let another have it at once; nothing if that cannot be said."""
        self._thread.stop(STOP_TIMEOUT)
        if self._holder == self._owner:
            self._until = float("-inf")
            try:
                leases.release(self._database, self._name, self._owner)
            except DatabaseUnavailable as error:
                LOG.debug("Cannot give up lease %s: %s", self._name, error)

    def renew(self) -> bool:
        """Take or renew it; return whether it is held. Raises DatabaseUnavailable."""
        # Before the question, so that it ends here no later than for others.
        began, was_held = time.monotonic(), self.held
        holder = leases.hold(self._database, self._name, self._owner, self._seconds)
        is_ours, self._answered = holder == self._owner, True
        if is_ours and not was_held:
            self.term += 1
        self._until = began + self._seconds if is_ours else float("-inf")
        if holder != self._holder:
            self._holder = holder
            self._log(is_ours)
        return is_ours

    def _ask(self) -> None:
        before = self.term, self.is_anothers
        if self._state.attempt(self.renew, "Cannot ask for lease %s: %s", self._name):
            self._answered = False
        if (self.term, self.is_anothers) != before:
            self.changed()

    def _log(self, is_ours: bool) -> None:
        if is_ours:
            LOG.info("Taking over lease %s for %g s at a time", self._name, self._seconds)
        else:
            agent = self._holder.partition(" ")[0]
            LOG.info("Standing by: the agent of %s holds lease %s", agent, self._name)
