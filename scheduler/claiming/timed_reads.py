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
        seconds = self._left()
        if seconds == math.inf:
            return self._database.read(work)
        seconds = max(0.0, seconds)
        try:
            return self._threads.run(lambda: self._database.read(work)).result(seconds)
        except TimeoutError:
            raise DatabaseUnavailable(f"no answer within {seconds:.1f} s") from None
