# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reads of the database for which nobody waits longer than for the answer that they are for."""

import math
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from inventory.engine import Database, DatabaseUnavailable
from scheduler.cached_thread_pool import CachedThreadPool

T = TypeVar("T")


def in_time(threads: CachedThreadPool, seconds: float, work: Callable[[], T]) -> T:
    """Return work(), which asks the database; it is left to itself after so many seconds.

    A database that hangs must not hang who waits. Raises DatabaseUnavailable then.
    """
    if seconds == math.inf:
        return work()
    try:
        return threads.run(work).result(max(0.0, seconds))
    except TimeoutError:
        raise DatabaseUnavailable(f"no answer within {max(0.0, seconds):.1f} s") from None


class TimedReads:
    """Reads as Database does, in threads that are left to themselves where the database hangs.

    left returns for how many seconds somebody waits.
    """

    def __init__(
        self, database: Database, threads: CachedThreadPool, left: Callable[[], float]
    ) -> None:
        self._database = database
        self._threads = threads
        self._left = left

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection); raises DatabaseUnavailable, also when nobody waits any more."""
        return in_time(self._threads, self._left(), lambda: self._database.read(work))
