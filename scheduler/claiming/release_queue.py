# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims of instances that are gone, released behind the back of whoever says so."""

from collections import deque
from collections.abc import Callable
from threading import Condition

from oslo_log import log

from inventory.claims import ClaimLost
from inventory.engine import DatabaseUnavailable
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claiming.claimer import Claimer

LOG = log.getLogger(__name__)
# How many may wait for a database that is slow; those beyond are left to their leases.
MAX_WAITING = 10_000
# How often a release is tried while others change the same claims.
ATTEMPTS = 3
# Seconds that a stop waits for what is left.
PATIENCE = 5.0


class ReleaseQueue:
    """Releases claims one after the other, in a thread that there is only while some wait.

    What Nova's services tell comes in the places of requests. A database that hangs would keep
    these for minutes.
    """

    def __init__(self, claimer: Callable[[], Claimer | None]) -> None:
        self._claimer = claimer
        self._condition = Condition()
        self._waiting: deque[tuple[str, str]] = deque()
        self._is_working = self._is_full = False
        self._threads = CachedThreadPool()

    def add(self, host: str, uuid: str) -> None:
        """Release what is claimed on a host for an instance soon; returns at once."""
        with self._condition:
            is_full = len(self._waiting) >= MAX_WAITING
            if is_full and not self._is_full:
                LOG.warning(
                    "Claims of deleted instances stay until their leases end: too many wait"
                )
            self._is_full = is_full
            if is_full:
                return
            self._waiting.append((host, uuid))
            if self._is_working:
                return
            self._is_working = True
        self._threads.run(self._work)

    def stop(self, patience: float = PATIENCE) -> None:
        """Wait until all are released, for so many seconds at most."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._is_working, patience):
                LOG.warning("%s claims stay until their leases end", len(self._waiting) + 1)

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._waiting:
                    self._is_working = False
                    self._condition.notify_all()
                    return
                host, uuid = self._waiting.popleft()
            problem = self._problem(host, uuid)
            # Outside of the handler, where oslo.log would add the error a second time.
            if problem:
                LOG.warning(
                    "The claim of instance %s stays until its lease ends: %s", uuid, problem
                )

    def _problem(self, host: str, uuid: str) -> str:
        """Release a claim; return what was in the way, nothing if none is left."""
        claimer, problem = self._claimer(), ""
        for _ in range(ATTEMPTS):
            try:
                # All schedulers hear of it: another one may have been faster.
                if claimer is None or not claimer.pending([uuid]):
                    return ""
                if claimer.release([uuid], host):
                    LOG.info("Host %s has lost instance %s: its claim has ended", host, uuid)
                return ""
            except ClaimLost as error:
                problem = str(error)
            except DatabaseUnavailable as error:
                return str(error)
            # A thread that ends would release no more.
            except Exception as error:
                return repr(error)
        return problem
