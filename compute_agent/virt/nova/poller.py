# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Polls of one of Nova's databases, or of Placement, in a thread of its own."""

import time
from collections.abc import Callable
from enum import Enum
from threading import Event, Thread
from typing import NamedTuple

from oslo_log import log

from conf.daemon.state_logger import StateLogger, one_line

LOG = log.getLogger(__name__)


# The share of the time that quick polls take at most.
QUICK_SHARE = 0.1


class Depth(Enum):
    """What a poll reads: states of services and aggregates alone, what changed, or everything."""

    QUICK = "quick"
    CHANGES = "changes"
    WHOLE = "whole"


class Intervals(NamedTuple):
    """Seconds between two polls of each depth."""

    quick: float
    changes: float
    whole: float


class Poller:
    """Calls poll(depth) again and again, and switched() when is_lost changes.

    is_lost is whether there was no answer for more than limit. Times are in seconds. failure says
    why the last poll failed, "" if it did not.
    """

    def __init__(
        self,
        name: str,
        poll: Callable[[Depth], None],
        switched: Callable[[], None],
        limit: float,
        intervals: Intervals,
    ) -> None:
        self.failure = "it has not been read yet"
        self.is_lost = True
        # Set when the first poll is over, whatever came of it.
        self.tried = Event()
        # When the last poll began that is over, whatever came of it, by time.monotonic(). Before
        # that it is when it was started: there is a failure then, and nothing old is known.
        self.tried_at = float("-inf")
        self._poll = poll
        self._switched = switched
        self._limit = limit
        self._intervals = intervals
        self._quick_due = float("-inf")
        self._stopped, self._hurried = Event(), Event()
        self._state = StateLogger(LOG, f"Reading {name}")
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.tried_at = time.monotonic()
        self._thread.start()

    def hurry(self) -> None:
        """Poll at once, and call switched() after that."""
        self._hurried.set()

    def stop(self) -> None:
        """End after the poll that is under way; do not wait for it."""
        self._stopped.set()
        self._hurried.set()
        self.tried.set()

    def _run(self) -> None:
        succeeded = read_whole = float("-inf")
        while not self._stopped.is_set():
            is_hurried = self._hurried.is_set()
            self._hurried.clear()
            if self._stopped.is_set():
                return
            began = time.monotonic()
            # After an outage, too: what happened meanwhile may have stamps of any kind.
            whole = bool(self.failure) or began - read_whole >= self._intervals.whole
            self.failure = self._try(Depth.WHOLE if whole else Depth.CHANGES)
            if not self.failure:
                succeeded, read_whole = began, began if whole else read_whole
            self.tried_at = began
            is_lost = time.monotonic() - succeeded > self._limit
            if is_lost != self.is_lost or is_hurried:
                self.is_lost = is_lost
                self._switched()
            self.tried.set()
            self._rest(began + self._intervals.changes)

    def _rest(self, until: float) -> None:
        """Poll quickly until then, by time.monotonic(); less long if hurried, or if that fails."""
        while True:
            due = until if self.failure else min(until, self._quick_due)
            self._hurried.wait(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            if self._hurried.is_set() or began >= until:
                return
            try:
                self._poll(Depth.QUICK)
            # The next poll finds out whether it fails, too.
            except Exception:
                return
            took = time.monotonic() - began
            self._quick_due = began + max(self._intervals.quick, took / QUICK_SHARE)

    def _try(self, depth: Depth) -> str:
        try:
            self._poll(depth)
        # The end of this thread would be the end of all polls.
        except Exception as error:
            reason = one_line(error)
            if not self._stopped.is_set():
                self._state.failed(
                    reason, "Trying again every %g s: %s", self._intervals.changes, reason
                )
            return reason
        self._state.recovered()
        return ""
