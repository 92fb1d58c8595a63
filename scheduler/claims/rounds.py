# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rounds: requests that wait at the same time are decided in turn and claimed in one transaction.

So none is decided on a host cache that lacks what this process has claimed before, and thirty of
them cost one commit.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import Lock
from time import monotonic, sleep
from typing import TypeVar

import sqlalchemy as sa
from oslo_log import log

from inventory.claims import claims, group_locks
from inventory.claims.group_locks import GroupMembers, GroupUnlisted
from inventory.claims.places import FreePlaces
from inventory.claims.types import GROUP, Changes, ClaimLost, ClaimRequest, ClaimResult
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.engine import Database
from inventory.objects.instance_group import InstanceGroup

LOG = log.getLogger(__name__)
T = TypeVar("T")
# How many requests are decided in one round at most.
MOST_REQUESTS = 64
# For how many seconds others wait for a transaction: one that hangs is left to its thread.
PATIENCE = 1.0
# How often the row of a group is made again that others, who saw no claims for it, have deleted.
MAX_GROUP_ATTEMPTS = 10

# The seconds until the deadline of a request.
Left = Callable[[], float]
Begin = Callable[[Callable[[], None]], object]
Publish = Callable[[Changes], None]


class TooLate(Exception):
    """The deadline of the request has passed; nothing was claimed."""


@dataclass(frozen=True, slots=True)
class NewestClaims:
    """What is claimed beyond the host cache, with what was decided in the round before.

    The rows of the members of a round's groups and of the free places of its projects; None where
    no project has reservations.
    """

    members: GroupMembers = field(default_factory=GroupMembers)
    places: FreePlaces | None = None

    def add(self, request: ClaimRequest) -> None:
        """Add what is going to be claimed for a request."""
        self.members.add(request)
        if self.places is not None:
            self.places.add(request)


# Decides and returns what is to be claimed, None for nothing.
Decide = Callable[[NewestClaims], ClaimRequest | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    decide: Decide
    left: Left
    group: InstanceGroup | None
    project: str | None
    result: "Future[ClaimResult | None]" = field(default_factory=Future)


# A request that was decided, and its claims.
_Decided = tuple[_Waiting, ClaimRequest]


class Rounds:
    """Decide and claim, in the order in which requests came. Many threads may use it.

    Nobody waits for others to come: a round is what has come until it begins. begin calls what it
    is given in another thread, soon. publish is given what each transaction has changed.
    """

    def __init__(self, database: Database, begin: Begin, publish: Publish = lambda _: None) -> None:
        self._database = database
        self._begin = begin
        self._publish = publish
        self._lock = Lock()
        self._waiting: deque[_Waiting] = deque()
        # Stands for the thread that runs the rounds.
        self._owner: object = None
        # Since when that waits for the database, infinite while it decides.
        self._waits_since = inf

    def submit(
        self,
        decide: Decide,
        left: Left,
        group: InstanceGroup | None = None,
        project: str | None = None,
    ) -> "Future[ClaimResult | None]":
        """Decide and claim in the next round; return the future of the result.

        decide must not wait for anything; it is given the members of the group, and the reserved
        places of the project. left returns the seconds until the deadline, which is asked again
        before the commit. The future raises what decide does and what claims.claim() does, TooLate
        and DatabaseUnavailable; if it is cancelled in time, nothing is decided.
        """
        waiting = _Waiting(decide, left, group, project)
        with self._lock:
            self._waiting.append(waiting)
        self.begin_next()
        return waiting.result

    def begin_next(self) -> None:
        """Begin a round for what waits, unless one is under way whose transaction does not hang."""
        with self._lock:
            hangs = monotonic() - self._waits_since > PATIENCE
            if not self._waiting or (self._owner is not None and not hangs):
                return
            self._owner = owner = object()
            self._waits_since = inf
        self._begin(partial(self._work, owner))

    def _work(self, owner: object) -> None:
        while batch := self._next(owner):
            self._run(owner, batch)

    def _next(self, owner: object) -> list[_Waiting]:
        """Return the requests of the next round, none if another thread runs the rounds by now."""
        batch: list[_Waiting] = []
        with self._lock:
            if self._owner is not owner:
                return []
            while self._waiting and len(batch) < MOST_REQUESTS:
                first = self._waiting.popleft()
                if first.result.set_running_or_notify_cancel():
                    batch.append(first)
            if not batch:
                self._owner = None
        return batch

    def _run(self, owner: object, batch: Sequence[_Waiting]) -> None:
        try:
            with self._waiting_for_database(owner):
                read, groups = self._database.read, [each.group for each in batch]
                members = group_locks.read_members(read, groups)
                projects = {each.project for each in batch if each.project}
                free = read(lambda each: FreePlaces.read(each, projects)) if projects else None
        except BaseException as error:
            if _is_about_one(error) and len(batch) > 1:
                for each in batch:
                    self._run(owner, [each])
            else:
                _fail(batch, error)
            return
        decided = [*_decide_each(batch, NewestClaims(members, free))]
        with self._waiting_for_database(owner):
            for waiting, request in self._claim_together(decided):
                _settle(waiting, partial(self._claim_alone, waiting, request))

    @contextmanager
    def _waiting_for_database(self, owner: object) -> Iterator[None]:
        self._set_waits_since(owner, monotonic())
        try:
            yield
        finally:
            self._set_waits_since(owner, inf)

    def _set_waits_since(self, owner: object, when: float) -> None:
        with self._lock:
            if self._owner is owner:
                self._waits_since = when

    def _claim_together(self, decided: Sequence[_Decided]) -> Sequence[_Decided]:
        """Claim with one transaction; return the requests that have to be claimed by themselves."""
        if not decided:
            return ()
        requests, lefts = [each for _, each in decided], [each.left for each, _ in decided]
        try:
            results, changes = self._write(lambda each: claims.claim_each(each, requests), lefts)
        except BaseException as error:
            # claim() finds standbys of instances that have no claims.
            is_one = len(decided) == 1 and not requests[0].standbys
            if _is_about_one(error) and not is_one:
                return decided
            _fail([waiting for waiting, _ in decided], error)
            return ()
        self._apply(changes)
        alone = []
        for each, result in zip(decided, results, strict=True):
            if result is None:
                alone.append(each)
            elif isinstance(result, BaseException):
                each[0].result.set_exception(result)
            else:
                each[0].result.set_result(result)
        return alone

    def _claim_alone(self, waiting: _Waiting, request: ClaimRequest) -> ClaimResult:
        result = self._write(lambda each: claims.claim(each, request), [waiting.left])
        self._apply(result.changes)
        return result

    def _write(self, work: Callable[[sa.Connection], T], lefts: Sequence[Left]) -> T:
        """Return work() in a transaction, for which the rows of groups are made that it lacks."""
        write = partial(write_until, self._database, work, lambda: min(each() for each in lefts))
        return listing_groups(self._database, write)

    def _apply(self, changes: Changes) -> None:
        try:
            self._publish(changes)
        # The claims are made, whatever comes of this.
        except Exception:
            LOG.exception("Cannot publish what was claimed; schedulers read it from the database")


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
        found = work(connection)
        if left() <= 0:
            raise TooLate()
        return found

    if left() <= 0:
        raise TooLate()
    return database.write(until_deadline)


def _is_about_one(error: BaseException) -> bool:
    """Return whether one request may be in the way of others, which do not wait for a database."""
    return isinstance(error, StatementRefused) or not isinstance(error, DatabaseUnavailable)


def _fail(batch: Iterable[_Waiting], error: BaseException) -> None:
    for each in batch:
        each.result.set_exception(error)


def _decide_each(batch: Sequence[_Waiting], newest: NewestClaims) -> Iterator[_Decided]:
    """Yield those with something to claim; finish the others."""
    for each in batch:
        # Green threads run only where others let them.
        sleep(0)
        try:
            if each.left() <= 0:
                raise TooLate()
            request = each.decide(newest)
        except BaseException as error:
            each.result.set_exception(error)
            continue
        if request is None:
            each.result.set_result(None)
        else:
            newest.add(request)
            yield each, request


def _settle(waiting: _Waiting, work: Callable[[], ClaimResult]) -> None:
    try:
        result = work()
    # Whatever it is, the future raises it where the result is awaited.
    except BaseException as error:
        waiting.result.set_exception(error)
    else:
        waiting.result.set_result(result)
