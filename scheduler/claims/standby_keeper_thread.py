# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The thread of the keeper of standbys, in one scheduler of all at a time."""

from collections.abc import Callable
from threading import Event, Thread
from uuid import uuid4

from oslo_log import log

from conf.daemon.state_logger import StateLogger
from inventory import leases
from inventory.claims import standby_rows
from inventory.engine import Database
from scheduler.claims.standby_keeper import StandbyKeeper

LOG = log.getLogger(__name__)
LEASE_NAME = "standbys"
# How many intervals a lease lasts, and the least of it in seconds.
LASTS, LEAST = 3, 30.0
STOP_TIMEOUT = 5.0


class StandbyKeeperThread:
    """Lets a keeper look at all standbys again and again.

    interval returns the seconds between two looks, 0 where this scheduler keeps none; it is asked
    each time, since a reload may change it.
    """

    def __init__(
        self,
        database: Database,
        scheduler: str,
        keeper: StandbyKeeper,
        interval: Callable[[], float],
    ) -> None:
        self._database, self._keeper, self._interval = database, keeper, interval
        self._owner = f"{scheduler} {uuid4().hex[:8]}"
        self._is_ours = False
        self._ended = Event()
        self._state = StateLogger(LOG, "Keeping standbys")
        self._thread = Thread(target=self._run, name="standbys", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and let another scheduler do so at once."""
        self._ended.set()
        if self._thread.ident:
            self._thread.join(STOP_TIMEOUT)
        if self._is_ours:
            text = (
                "This scheduler could not give up its lease for keeping standbys, so another"
                " scheduler takes over later: %s"
            )
            self._state.attempt(
                lambda: leases.release(self._database, LEASE_NAME, self._owner), text
            )

    def _run(self) -> None:
        # A scheduler that is told to keep none may be told otherwise later.
        while not self._ended.wait(self._interval() or LEAST):
            if self._interval():
                text = "Standbys are not kept up to date, trying again: %s"
                self._state.attempt(self._keep, text, reason=text)

    def _keep(self) -> None:
        if not self._database.read(standby_rows.lacking)["protected"]:
            return
        lasts = max(LEAST, LASTS * self._interval())
        owner = leases.hold(self._database, LEASE_NAME, self._owner, lasts)
        self._is_ours = owner == self._owner
        if self._is_ours:
            self._keeper.keep()
