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

from inventory.claims import claims, existing, standbys
from inventory.claims.types import (
    COMING,
    CONFIRMED,
    ClaimLost,
    ClaimRequest,
    ClaimResult,
    Identity,
    Standby,
)
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.objects.instance_group import InstanceGroup
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.protection import KnownSums
from scheduler.claims.rounds import (
    PATIENCE,
    Decide,
    Left,
    Publish,
    Rounds,
    TooLate,
    listing_groups,
    write_until,
)
from scheduler.wire.errors import ServiceUnavailable

T = TypeVar("T")
# More choices than schedulers at work at a time would not help.
MAX_CHOICES = 64
# The number of claims in a row without a conflict after which the choices are halved.
WINS_TO_NARROW = 16
# The seconds of silence after which a database is said not to answer.
LEAST_SILENCE = 1.0


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


def awaited(
    future: "Future[T]",
    seconds: float,
    database: Database | None = None,
    look: Callable[[], None] = lambda: None,
) -> T:
    """Return the result of work on the database; raise an error after some seconds.

    That is TooLate where a database is given, and the seconds were too few to tell that it does not
    answer, or it has answered others meanwhile. Else it is DatabaseUnavailable. look is called now
    and then.
    """
    began = time.monotonic()
    left = seconds
    while left > PATIENCE:
        with suppress(TimeoutError):
            return future.result(PATIENCE)
        look()
        left = seconds - (time.monotonic() - began)
    try:
        return future.result(max(0.0, left))
    except TimeoutError:
        future.cancel()
        if database and (seconds < LEAST_SILENCE or database.answered_at > began):
            raise TooLate() from None
        raise DatabaseUnavailable(f"no answer within {max(0.0, seconds):.1f} s") from None


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
    """Claim for the requests of a process. Many threads may use it.

    publish is given what each transaction has changed; it must not block.
    """

    def __init__(
        self, database: Database, settings: ClaimSettings, publish: Publish = lambda _: None
    ) -> None:
        self.settings = settings
        self.width = SpreadWidth()
        self.standby_sums = KnownSums()
        self._database = database
        self._threads = CachedThreadPool()
        self._rounds = Rounds(database, self._threads.run, publish)
        self._publish = publish

    def claim(self, request: ClaimRequest, left: Left = forever) -> ClaimResult:
        """Claim for all instances of a request; see decide_and_claim()."""
        result = self.decide_and_claim(lambda _: request, left)
        assert result is not None
        return result

    def decide_and_claim(
        self,
        decide: Decide,
        left: Left = forever,
        group: InstanceGroup | None = None,
        project: str | None = None,
    ) -> ClaimResult | None:
        """Decide in the next round and claim for all instances of a request, or for none.

        decide is given the members of the group and the reserved places of the project, by the
        newest claims. left returns the seconds until its deadline. It is asked again before the
        commit: a claim must not be made when the caller has given up. Raises ClaimLost,
        PendingClaim, Outdated, PartlyAnswered, TooLate and DatabaseUnavailable.
        """
        seconds = left()
        if seconds <= 0:
            raise TooLate()
        rounds = self._rounds
        try:
            future = rounds.submit(decide, left, group, project)
            result = awaited(future, seconds, self._database, rounds.begin_next)
        except ClaimLost:
            self.width.lost()
            raise
        if result is not None and not result.repeated:
            self.width.won()
        return result

    def release_stale(self, identity: Identity, left: Left = forever) -> ClaimResult | None:
        """Return the earlier answer to a request, None without; release older claims in its way."""
        if not self.settings.replaces:
            return None
        lease = self.settings.lease
        found = self._write(
            lambda connection: claims.release_stale(connection, identity, lease), left
        )
        if found:
            self._publish(found.changes)
        return found

    def _write(self, work: Callable[[sa.Connection], T], left: Left) -> T:
        """Return work() in a transaction, which is rolled back if it ends after the deadline."""
        future = self._threads.run(lambda: write_until(self._database, work, left))
        return awaited(future, left(), self._database)

    def release(self, uuids: Collection[str]) -> None:
        """Release claims where instances were to come; raises ClaimLost and DatabaseUnavailable."""
        release = partial(claims.release, uuids=uuids, states=COMING)
        self._publish(self._database.write(release))

    def release_lost(self, lost: Collection[tuple[str, str]]) -> Collection[sa.Row[Any]]:
        """Release the claims of instances that hosts have lost, by host and uuid; return them.

        Raises as release() does.
        """
        over, changes = self._database.write(partial(claims.release_lost, lost={*lost}))
        self._publish(changes)
        return over

    def settle_standbys(self, made: Sequence[Standby], ending: Sequence[int]) -> None:
        """Make standbys and end rows of others, all or nothing; raises as release() does."""
        settle = partial(standbys.settle, made=made, ending=ending)
        self._publish(listing_groups(self._database, lambda: self._database.write(settle)))

    def pending(self, uuids: Collection[str]) -> list[sa.Row[Any]]:
        """Return the claims of instances that are not confirmed. Raises DatabaseUnavailable."""
        found, _ = self._database.read(lambda connection: existing.of_instances(connection, uuids))
        return [row for row in found if row.state != CONFIRMED]

    def release_rows(self, pending: Collection[sa.Row[Any]]) -> None:
        """Release what pending() has returned, all or nothing; raises as release() does."""
        self._publish(self._database.write(lambda each: claims.release_rows(each, pending)))
