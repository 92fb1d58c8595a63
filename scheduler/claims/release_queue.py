# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Release the claims of deleted instances in the background, many together, by one scheduler."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from typing import NamedTuple
from uuid import uuid4

from oslo_log import log

from inventory import leases
from inventory.claims.types import ClaimLost
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.engine import Database
from inventory.errors import counted, some
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import Claimer

LOG = log.getLogger(__name__)
# How many may wait for a slow database; claims beyond that stay until their leases end.
MAX_WAITING = 10_000
# How many are released in one transaction, and for how many seconds they are collected.
MAX_BATCH, COLLECTING = 500, 0.5
# How often a release is tried at once while others change the same claims, and after how many
# seconds one that failed is tried again.
ATTEMPTS, RETRY = 3, 2.0
STOP_TIMEOUT = 5.0
# All schedulers get the cast. For how many seconds others leave its claim to the one that releases.
GRACE = 3.0
LEASE_NAME, LEASE = "claim releases", 10.0


class Deleted(NamedTuple):
    """An instance that its host has deleted; until is when the lease of its claim has ended."""

    host: str
    uuid: str
    until: float


class Failure(NamedTuple):
    """Why claims were not released: for all of a batch alike, and whether it may work later."""

    problem: str
    is_common: bool = False
    is_passing: bool = False


class ReleaseLease:
    """The lease of the scheduler that releases; it is asked for when there is something to do."""

    def __init__(self, database: Database, scheduler: str) -> None:
        self._database = database
        self._owner = f"{scheduler} {uuid4().hex[:8]}"
        self._until = -math.inf

    def hold(self) -> bool:
        """Return whether this process has the lease; raises DatabaseUnavailable."""
        began = time.monotonic()
        if began < self._until - LEASE / 2:
            return True
        is_ours = leases.hold(self._database, LEASE_NAME, self._owner, LEASE) == self._owner
        self._until = began + LEASE if is_ours else -math.inf
        return is_ours


class ReleaseQueue:
    """Release claims, in a thread that exists only while some wait.

    The casts of Nova's services are handled by the threads of requests, which a database that
    hangs would block for minutes. is_ours is whether this scheduler is the one that releases;
    what another one has not released after a while is released here. What fails for want of a
    database, or since others change the claims, is tried again as long as their leases last.
    """

    def __init__(
        self, claimer: Callable[[], Claimer | None], is_ours: Callable[[], bool] = lambda: True
    ) -> None:
        self._claimer = claimer
        self._is_ours = is_ours
        self._condition = Condition()
        self._new: deque[Deleted] = deque()
        # Those that another scheduler is to release, and until when.
        self._left: deque[tuple[float, Deleted]] = deque()
        self._batch: Sequence[Deleted] = ()
        # Those of the batch that are tried again, and whether the last batch had any.
        self._again: list[Deleted] = []
        self._is_retrying = False
        self._is_working = self._is_full = self._is_stopping = False
        self._threads = CachedThreadPool()

    def add(self, host: str, uuid: str) -> None:
        """Release the claims for an instance on a host soon; return at once."""
        claimer = self._claimer()
        if claimer is None:
            return
        deleted = Deleted(host, uuid, time.monotonic() + claimer.settings.lease)
        with self._condition:
            is_full = self._number() >= MAX_WAITING
            if is_full and not self._is_full:
                LOG.warning(
                    "Claims of deleted instances stay until their leases end: too many releases"
                    " are waiting"
                )
            self._is_full = is_full
            if is_full:
                return
            self._new.append(deleted)
            if self._is_working:
                return
            self._is_working = True
        self._threads.run(self._work)

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Wait until all are released, at most for this number of seconds."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
            if not self._condition.wait_for(lambda: not self._is_working, timeout):
                LOG.warning(
                    "Claims of %s were not released before shutdown; they stay until their leases"
                    " end",
                    counted(self._number(), "deleted instance"),
                )

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._new and not self._left:
                    self._is_working = False
                    self._condition.notify_all()
                    return
                pause = RETRY if self._is_retrying else COLLECTING
                self._condition.wait_for(lambda: self._is_stopping, pause)
                new = [self._new.popleft() for _ in range(min(MAX_BATCH, len(self._new)))]
                due = self._left_behind()
                self._batch = [*new, *due]
            if new and not self._releases():
                until = time.monotonic() + GRACE
                with self._condition:
                    self._left.extend((until, each) for each in new)
                    self._batch = due
            if self._batch:
                self._release(self._batch)
                with self._condition:
                    self._new.extendleft(reversed(self._again))
                    self._is_retrying = bool(self._again)
                    self._again, self._batch = [], ()

    def _number(self) -> int:
        return len(self._new) + len(self._left) + len(self._batch)

    def _left_behind(self) -> list[Deleted]:
        """Return those that another scheduler should have released by now."""
        now, found = time.monotonic(), []
        while self._left and (self._is_stopping or self._left[0][0] <= now):
            found.append(self._left.popleft()[1])
        return found

    def _releases(self) -> bool:
        """Return whether to release now."""
        try:
            return self._is_stopping or self._is_ours()
        # The release logs what is wrong; a thread that ends would release no more.
        except Exception:
            return True

    def _release(self, batch: Sequence[Deleted]) -> None:
        """Release claims together, else one by one; keep for later, or warn of, those that stay."""
        failure = self._failure_to_release(batch)
        if failure and not failure.is_common and len(batch) > 1:
            for each in batch:
                self._release([each])
        elif failure:
            may_retry, now = failure.is_passing and not self._is_stopping, time.monotonic()
            lasting = [each for each in batch if may_retry and now < each.until]
            self._retry(lasting, failure.problem)
            if ending := some(each.uuid for each in batch if each not in lasting):
                problem = failure.problem
                LOG.warning(
                    "Claims of instances %s stay until their leases end: %s", ending, problem
                )

    def _retry(self, lasting: Sequence[Deleted], problem: str) -> None:
        """Have claims released with the next batch; say so when that begins."""
        self._again.extend(lasting)
        if lasting and not self._is_retrying:
            self._is_retrying = True
            LOG.warning(
                "Claims of deleted instances, such as %s, stay for now; the release is tried"
                " again until the leases end: %s",
                lasting[0].uuid,
                problem,
            )

    def _failure_to_release(self, batch: Sequence[Deleted]) -> Failure | None:
        """Release claims in one transaction; return what has prevented it."""
        claimer, problem = self._claimer(), ""
        if claimer is None:
            return None
        for _ in range(ATTEMPTS):
            try:
                if found := claimer.release_lost([(each.host, each.uuid) for each in batch]):
                    released = some(f"{row.instance_uuid} on {row.host}" for row in found)
                    LOG.info("Released claims of deleted instances: %s", released)
                return None
            except ClaimLost as error:
                problem = str(error)
            except StatementRefused as error:
                return Failure(str(error))
            except DatabaseUnavailable as error:
                return Failure(str(error), is_common=True, is_passing=True)
            # A thread that ends would release no more.
            except Exception as error:
                return Failure(repr(error))
        return Failure(problem, is_passing=True)
