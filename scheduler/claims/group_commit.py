# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Group commit: claims that wait at the same time are made in one transaction."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import sqlalchemy as sa

from inventory.claims import claims
from inventory.claims.types import Changes, ClaimLost, ClaimRequest, ClaimResult
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.engine import Database

# How many requests are claimed for in one transaction at most.
MAX_BATCH = 64
# How many transactions are under way at most: while one waits for the disk, another is prepared.
MAX_UNDER_WAY = 2

Left = Callable[[], float]
Begin = Callable[[Callable[[], None]], object]
Publish = Callable[[Changes], None]


class TooLate(Exception):
    """The deadline of the request has passed; nothing was claimed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    request: ClaimRequest
    left: Left
    # Its result is None for a request that has to be claimed by itself.
    result: "Future[ClaimResult | None]" = field(default_factory=Future)


class GroupCommit:
    """Make claims together, in the order in which they came. Many threads may use it.

    Nobody waits for others to come: a batch is what has come until it begins. begin calls what it
    is given in another thread, soon. publish is given what each transaction has changed.
    """

    def __init__(self, database: Database, begin: Begin, publish: Publish = lambda _: None) -> None:
        self._database = database
        self._begin = begin
        self._publish = publish
        self._lock = Lock()
        self._waiting: deque[_Waiting] = deque()
        self._under_way = 0
        self._is_beginning = False

    def submit(self, request: ClaimRequest, left: Left) -> "Future[ClaimResult | None]":
        """Claim for a request without group and documents; return the future of the result.

        It is None if the request has to be claimed by itself. left returns the seconds until the
        deadline, which is asked again before the commit. The future raises ClaimLost, TooLate and
        DatabaseUnavailable; if it is cancelled in time, nothing is claimed.
        """
        waiting = _Waiting(request, left)
        with self._lock:
            self._waiting.append(waiting)
            begins = not self._is_beginning and self._under_way < MAX_UNDER_WAY
            self._is_beginning |= begins
            self._under_way += begins
        if begins:
            self._begin(self._work)
        return waiting.result

    def _work(self) -> None:
        while batch := self._next():
            self._commit(batch)

    def _next(self) -> list[_Waiting]:
        """Return what waits; count one transaction less under way if that is nothing."""
        batch: list[_Waiting] = []
        with self._lock:
            self._is_beginning = False
            while self._waiting and len(batch) < MAX_BATCH:
                first = self._waiting.popleft()
                if first.result.set_running_or_notify_cancel():
                    batch.append(first)
            self._under_way -= not batch
        return batch

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        results: Sequence[ClaimResult | BaseException | None]
        changes: Changes = {}
        try:
            results, changes = self._database.write(partial(_claim_each, batch=batch))
        except BaseException as error:
            # One of them may be in the way of the others, unless all wait for the database.
            is_down = isinstance(error, DatabaseUnavailable)
            is_about_one = isinstance(error, StatementRefused) or not is_down
            results = [None if is_about_one and len(batch) > 1 else error] * len(batch)
        for each, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                each.result.set_exception(result)
            else:
                each.result.set_result(result)
        self._publish(changes)


def _claim_each(
    connection: sa.Connection, batch: Sequence[_Waiting]
) -> tuple[list[ClaimResult | ClaimLost | None], Changes]:
    done = claims.claim_each(connection, [each.request for each in batch])
    if any(each.left() <= 0 for each in batch):
        raise TooLate()
    return done
