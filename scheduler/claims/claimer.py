# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claim decisions in the database before a deadline, spread over equal hosts after conflicts."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from inventory.claims import claims, existing, group_locks, standbys
from inventory.claims.group_locks import GroupUnlisted
from inventory.claims.types import (
    COMING,
    CONFIRMED,
    GROUP,
    Changes,
    ClaimLost,
    ClaimResult,
    Identity,
    Standby,
)
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.protection import KnownSums
from scheduler.wire.errors import ServiceUnavailable

T = TypeVar("T")
# The seconds until the deadline of a request.
Left = Callable[[], float]
Publish = Callable[[Changes], None]
# For how many seconds others wait for a transaction: one that hangs is left to its thread.
PATIENCE = 1.0
# How often the row of a group is made again that others, who saw no claims for it, have deleted.
MAX_GROUP_ATTEMPTS = 10
# More choices than schedulers at work at a time would not help.
MAX_CHOICES = 64
# The number of claims in a row without a conflict after which the choices are halved.
WINS_TO_NARROW = 16
# The seconds of silence after which a database is said not to answer.
LEAST_SILENCE = 1.0


class TooLate(Exception):
    """The deadline of the request has passed; nothing was claimed."""


@dataclass(slots=True)
class SpreadWidth:
    """The number of equal hosts to choose from: doubled by conflicts, halved slowly without."""

    choices: int = 1
    _wins: int = 0

    def lost(self) -> None:
        """Widen the choice after a claim that was lost to another scheduler."""
        self.choices = min(MAX_CHOICES, 2 * self.choices)
        self._wins = 0

    def won(self) -> None:
        """Count a claim that was made."""
        self._wins += 1
        if self._wins >= WINS_TO_NARROW:
            self._wins = 0
            self.choices = max(1, self.choices // 2)


def forever() -> float:
    """Return the seconds that are left without a deadline."""
    return math.inf


def awaited(future: "Future[T]", seconds: float, database: Database | None = None) -> T:
    """Return the result of work on the database; raise an error after some seconds.

    That is DatabaseUnavailable, or what too_long() returns where a database is given.
    """
    began = time.monotonic()
    left = seconds
    # Seconds may be infinite, which no lock takes.
    while left > PATIENCE:
        with suppress(TimeoutError):
            return future.result(PATIENCE)
        left = seconds - (time.monotonic() - began)
    try:
        return future.result(max(0.0, left))
    except TimeoutError:
        future.cancel()
        raise too_long(seconds, database, began) from None


def too_long(seconds: float, database: Database | None, began: float) -> Exception:
    """Return the error of who has waited for a database for some seconds.

    That is TooLate where these were too few to tell that the database does not answer, or it has
    answered others meanwhile. Else it is DatabaseUnavailable.
    """
    if database and (seconds < LEAST_SILENCE or database.answered_at > began):
        return TooLate()
    return DatabaseUnavailable(f"no answer within {max(0.0, seconds):.1f} s")


@contextmanager
def refusing_late() -> Iterator[None]:
    """Raise the error that a caller knows where its deadline has passed."""
    try:
        yield
    except TooLate:
        raise ServiceUnavailable("The request took longer than its caller waits.") from None


class TimedReads:
    """Read like Database for as long as left returns, in seconds."""

    def __init__(self, database: Database, threads: CachedThreadPool, left: Left) -> None:
        self._database = database
        self._threads = threads
        self._left = left

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection); raises DatabaseUnavailable, and TooLate after the deadline."""
        future = self._threads.run(lambda: self._database.read(work))
        return awaited(future, self._left(), self._database)


class Claimer:
    """How a process claims, and what releases its claims. Many threads may use it.

    publish is given what each transaction has changed; it must not block. width is among how many
    equal hosts one is chosen.
    """

    def __init__(
        self, database: Database, settings: ClaimSettings, publish: Publish = lambda _: None
    ) -> None:
        self.settings = settings
        self.width = SpreadWidth()
        self.standby_sums = KnownSums()
        self._database = database
        self._threads = CachedThreadPool()
        self.publish = publish

    def release_stale(self, identity: Identity, left: Left = forever) -> ClaimResult | None:
        """Return the earlier answer to a request, None without; release older claims in its way."""
        if not self.settings.replaces:
            return None
        lease = self.settings.lease
        found = self._write(
            lambda connection: claims.release_stale(connection, identity, lease), left
        )
        if found:
            self.publish(found.changes)
        return found

    def _write(self, work: Callable[[sa.Connection], T], left: Left) -> T:
        """Return work() in a transaction, which is rolled back if it ends after the deadline."""
        future = self._threads.run(lambda: write_until(self._database, work, left))
        return awaited(future, left(), self._database)

    def release(self, uuids: Collection[str]) -> None:
        """Release claims where instances were to come; raises ClaimLost and DatabaseUnavailable."""
        release = partial(claims.release, uuids=uuids, states=COMING)
        self.publish(self._database.write(release))

    def release_lost(self, lost: Collection[tuple[str, str]]) -> Collection[sa.Row[Any]]:
        """Release the claims of instances that hosts have lost, by host and uuid; return them.

        Raises as release() does.
        """
        over, changes = self._database.write(partial(claims.release_lost, lost={*lost}))
        self.publish(changes)
        return over

    def settle_standbys(self, made: Sequence[Standby], ending: Sequence[int]) -> None:
        """Make standbys and end rows of others, all or nothing; raises as release() does."""
        settle = partial(standbys.settle, made=made, ending=ending)
        self.publish(listing_groups(self._database, lambda: self._database.write(settle)))

    def pending(self, uuids: Collection[str]) -> list[sa.Row[Any]]:
        """Return the claims of instances that are not confirmed. Raises DatabaseUnavailable."""
        found, _ = self._database.read(lambda connection: existing.of_instances(connection, uuids))
        return [row for row in found if row.state != CONFIRMED]

    def release_rows(self, pending: Collection[sa.Row[Any]]) -> None:
        """Release what pending() has returned, all or nothing; raises as release() does."""
        self.publish(self._database.write(lambda each: claims.release_rows(each, pending)))


def listing_groups(database: Database, write: Callable[[], T]) -> T:
    """Return what write() does; make the rows of server groups that it lacks."""
    for _ in range(MAX_GROUP_ATTEMPTS):
        try:
            return write()
        except GroupUnlisted as error:
            group_locks.ensure(database, error.uuids)
    raise ClaimLost((), "the row of its server group is deleted again and again", GROUP)


def write_until(database: Database, work: Callable[[sa.Connection], T], left: Left) -> T:
    """Return work() in a transaction; raise TooLate, with nothing written, after the deadline."""

    def until_deadline(connection: sa.Connection) -> T:
        result = work(connection)
        if left() <= 0:
            raise TooLate()
        return result

    if left() <= 0:
        raise TooLate()
    return database.write(until_deadline)
