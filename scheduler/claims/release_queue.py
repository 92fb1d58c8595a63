# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Release the claims of deleted instances in the background."""

from collections import deque
from collections.abc import Callable
from threading import Condition

from oslo_log import log

from inventory.claims.types import ClaimLost
from inventory.engine import DatabaseUnavailable
from inventory.errors import counted
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import Claimer

LOG = log.getLogger(__name__)
# How many may wait for a slow database; claims beyond that stay until their leases end.
MAX_WAITING = 10_000
# How often a release is tried while others change the same claims.
ATTEMPTS = 3
STOP_TIMEOUT = 5.0


class ReleaseQueue:
    """Release claims one after the other, in a thread that exists only while some wait.

    The casts of Nova's services are handled by the threads of requests, which a database that
    hangs would block for minutes.
    """

    def __init__(self, claimer: Callable[[], Claimer | None]) -> None:
        self._claimer = claimer
        self._condition = Condition()
        self._waiting: deque[tuple[str, str]] = deque()
        self._is_working = self._is_full = False
        self._threads = CachedThreadPool()

    def add(self, host: str, uuid: str) -> None:
        """Release the claims for an instance on a host soon; return at once."""
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

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Wait until all are released, for so many seconds at most."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._is_working, timeout):
                LOG.warning(
                    "Claims of %s were not released before shutdown; they stay until their leases"
                    " end",
                    counted(len(self._waiting) + 1, "deleted instance"),
                )

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._waiting:
                    self._is_working = False
                    self._condition.notify_all()
                    return
                host, uuid = self._waiting.popleft()
            problem = self._release(host, uuid)
            # Outside of the handler, where oslo.log would add the error a second time.
            if problem:
                LOG.warning(
                    "The claim of instance %s stays until its lease ends: %s", uuid, problem
                )

    def _release(self, host: str, uuid: str) -> str:
        """Release the claims for an instance on a host; return why it failed, "" if it did not."""
        claimer, problem = self._claimer(), ""
        for _ in range(ATTEMPTS):
            try:
                # All schedulers get the cast: another one may have released them.
                if claimer is None or not claimer.pending([uuid]):
                    return ""
                if claimer.release([uuid], host):
                    LOG.info("Released the claim of instance %s: host %s deleted it", uuid, host)
                return ""
            except ClaimLost as error:
                problem = str(error)
            except DatabaseUnavailable as error:
                return str(error)
            # A thread that ends would release no more.
            except Exception as error:
                return repr(error)
        return problem
