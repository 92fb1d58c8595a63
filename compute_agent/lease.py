# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The lease with which one of several agents of a cloud does the work, and others stand by."""

import time
from uuid import uuid4

from oslo_log import log

from inventory import leases
from inventory.engine import Database, DatabaseUnavailable

LOG = log.getLogger(__name__)


class Lease:
    """A lease of so many seconds; whoever has it renews it well before.

    It counts as lost as soon as it may be over for others, by the clock of this machine.
    """

    def __init__(self, database: Database, name: str, host: str, seconds: float) -> None:
        self._database = database
        self._name = name
        # The same host may have several by mistake.
        self._owner = f"{host} {uuid4().hex[:8]}"
        self._seconds = seconds
        self._until = float("-inf")
        # Who had it when it was asked for last.
        self._holder = ""

    @property
    def held(self) -> bool:
        return time.monotonic() < self._until

    def renew(self) -> bool:
        """Take or renew it; return whether it is held. Raises DatabaseUnavailable."""
        # Before the question, so that it ends here no later than for others.
        began = time.monotonic()
        holder = leases.hold(self._database, self._name, self._owner, self._seconds)
        is_ours = holder == self._owner
        self._until = began + self._seconds if is_ours else float("-inf")
        if holder != self._holder:
            self._holder = holder
            if is_ours:
                LOG.info("Taking over lease %s for %g s at a time", self._name, self._seconds)
            else:
                agent = holder.partition(" ")[0]
                LOG.info("Standing by: the agent of %s has lease %s", agent, self._name)
        return is_ours

    def release(self) -> None:
        """Let another have it at once; nothing if that cannot be said."""
        if self._holder == self._owner:
            self._until = float("-inf")
            try:
                leases.release(self._database, self._name, self._owner)
            except DatabaseUnavailable as error:
                LOG.debug("Cannot give up lease %s: %s", self._name, error)
