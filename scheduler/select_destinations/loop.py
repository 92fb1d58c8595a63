# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of the scheduler: take a batch of requests, decide, claim in one transaction, settle.

A request is prepared where it may wait (the host cache, attestation, Placement, standbys), then it
joins the batch of the next round. One thread runs a round at a time, so none is decided on a host
cache that lacks what this process has claimed before, and thirty requests cost one commit. Who has
lost a claim to others is prepared again, and comes back in a later round.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from threading import Lock
from time import monotonic, sleep
from typing import TypeVar

import sqlalchemy as sa
from oslo_log import log

from inventory.claims import claims, group_locks
from inventory.claims.group_locks import GroupMembers
from inventory.claims.places import FreePlaces
from inventory.claims.repeats import Outdated, PartlyAnswered
from inventory.claims.types import Changes, ClaimLost, ClaimRequest, ClaimResult
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.engine import Database
from inventory.nova.placement_errors import PlacementUnavailable
from scheduler import request_trace
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims import stored_answers
from scheduler.claims.claim_request import ClaimContext, build_claim_request, claimable
from scheduler.claims.claimer import (
    PATIENCE,
    Claimer,
    TooLate,
    listing_groups,
    too_long,
    write_until,
)
from scheduler.claims.placement_scope import scope_of
from scheduler.claims.protection import log_moved, protected
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision.types import Decision
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer
from scheduler.request_trace import RequestTrace
from scheduler.select_destinations.pending_request import Attempt, PendingRequest, Settings
from scheduler.select_destinations.request_builder import build_answer, with_members
from scheduler.trust import levels_for
from scheduler.wire.errors import InvalidInput, NoValidHost

LOG = log.getLogger(__name__)
T = TypeVar("T")
# How many requests are decided in one round at most.
MOST_REQUESTS = 64
# How often a request without a host is decided again because claims of others in flight may fail.
MAX_RECHECKS = 5
# Seconds between two looks whether a request is answered whose deadline has passed.
MOMENT = 0.1
# The same of requests that nobody waits for.
WATCH = 0.25
# Seconds after which a round claims for what it has decided: the first of it waits for the answer.
SLICE = 0.1
Batch = Sequence[PendingRequest]
Step = Callable[[PendingRequest], None]


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


class SchedulingLoop:
    """Answers requests in rounds. One per process; many threads may use it.

    Nobody waits for others to come: a round is what has come until it begins. begin calls what it
    is given in another thread, soon.
    """

    def __init__(
        self,
        database: Database,
        host_cache: HostCache,
        default_zone: str = "nova",
        begin: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._database = database
        self._cache = host_cache
        self._default_zone = default_zone
        self._begin = begin or CachedThreadPool().run
        self._lock = Lock()
        self._waiting: deque[PendingRequest] = deque()
        # Stands for the thread that runs the rounds.
        self._owner: object = None
        # Since when that waits for the database, infinite while it decides.
        self._waits_since = inf
        # Requests that nobody waits for, and whether a thread looks after them.
        self._watched: set[PendingRequest] = set()
        self._is_watching = False

    # A request comes, and waits for its answer.

    def answer(self, pending: PendingRequest) -> Answer:
        """Return the answer to a request, or raise why there is none."""
        self._step(self.prepare, pending)
        while True:
            left = pending.deadline.left()
            try:
                return pending.future.result(min(PATIENCE, max(MOMENT, left)))
            except TimeoutError:
                if pending.future.done():
                    raise
            self.begin_round()
            if pending.deadline.passed():
                self._give_up(pending)

    def may_have_to_wait(self, spec: RequestSpec, settings: Settings, claimer: Claimer) -> bool:
        """Return whether prepare() may wait for hosts, standbys, Placement or attestation.

        Raises InvalidInput for a flavor that says something unknown of protection.
        """
        max_age = settings.driver.view_max_age
        return bool(
            settings.allocator
            or settings.attestation
            or self._cache.age >= (self._cache.max_age if max_age is None else max_age)
            # Of moves, and of hints, the standbys are read.
            or spec.ignore_hosts
            or spec.scheduler_hints
            or spec.project_id in self._cache.reserving
            or claimer.settings.protection.mode_of(spec) is not None
        )

    def begin(self, pending: PendingRequest) -> None:
        """Let a request join a round that has to wait for nothing before it.

        Nobody waits for the answer, which its future gets by the deadline of the request.
        """
        pending.begin_attempt()
        with self._lock:
            self._watched.add(pending)
            begins, self._is_watching = not self._is_watching, True
        pending.future.add_done_callback(lambda _: self._watched.discard(pending))
        try:
            if begins:
                self._begin(self._watch)
            self.join(pending)
        # The process may have no more threads.
        except RuntimeError as error:
            if begins:
                self._is_watching = False
            if end_attempt(pending.attempt, self._cache):
                pending.future.set_exception(error)

    def _watch(self) -> None:
        """Watch the deadlines of requests that no thread waits for, until all are answered."""
        while True:
            sleep(WATCH)
            self.begin_round()
            for pending in self._watched.copy():
                if pending.deadline.passed():
                    self._give_up(pending)
            with self._lock:
                if not self._watched:
                    self._is_watching = False
                    return

    def prepare(self, pending: PendingRequest) -> None:
        """Find all that a decision would have to wait for; then the request joins a round.

        Raises NoValidHost, InvalidInput, TooLate, ClaimLost, DatabaseUnavailable and
        PlacementUnavailable.
        """
        if pending.deadline.passed():
            raise TooLate()
        trace, settings, cache = pending.trace, pending.settings, self._cache
        if pending.allocator is not None and pending.placement is None:
            with trace.stage("placement"):
                spec = pending.request.spec
                scope = scope_of(spec, settings.driver, cache)
                pending.placement = pending.allocator.begin(spec, pending.deadline.left, scope)
        attempt = pending.begin_attempt()
        with trace.stage("view"):
            attempt.trust = levels_of_trust(attempt.request.spec, settings, cache)
            cache.refresh_if_older(settings.driver.view_max_age, pending.is_fresh)
            attempt.request = protected(
                attempt.request,
                pending.claimer.settings.protection,
                pending.reads,
                pending.claimer.standby_sums,
                pending.is_fresh,
                attempt.request.spec.project_id in cache.reserving,
            )
        if pending.placement is not None and not pending.placement.is_plain:
            self._decide_and_ask_placement(pending)
            if attempt.claims is None:
                end_attempt(attempt, cache)
                self._conclude(pending)
                return
        self.join(pending)

    def _decide_and_ask_placement(self, pending: PendingRequest) -> None:
        """Decide by itself a request that waits for what Placement offers on the chosen hosts."""
        attempt = pending.attempt
        group = attempt.request.spec.instance_group
        members = group_locks.read_members(pending.reads.read, [group])
        decide_attempt(pending, self._cache, NewestClaims(members), self._default_zone)
        if attempt.claims is not None:
            with pending.trace.stage("placement"):
                offered = pending.offer(attempt.answer)
            attempt.set_answer(offered, pending.claimer.settings.alternates)

    def join(self, pending: PendingRequest) -> None:
        """Let a request be decided and claimed in the next round."""
        attempt = pending.attempt
        attempt.queued_at, attempt.seconds_left = monotonic(), pending.deadline.left()
        attempt.seconds_deciding = pending.trace.seconds.get("decide", 0.0)
        with self._lock:
            # Who is decided again since claims of others were in flight comes before new ones.
            (self._waiting.appendleft if pending.rechecks else self._waiting.append)(pending)
        self.begin_round()

    # A round.

    def begin_round(self) -> None:
        """Begin a round for what waits, unless one is under way whose transaction does not hang."""
        with self._lock:
            hangs = monotonic() - self._waits_since > PATIENCE
            if not self._waiting or (self._owner is not None and not hangs):
                return
            self._owner = owner = object()
            self._waits_since = inf
        try:
            self._begin(partial(self._run_rounds, owner))
        # The process may have no more threads: whoever comes next tries again.
        except RuntimeError:
            with self._lock:
                if self._owner is owner:
                    self._owner = None
            raise

    def _run_rounds(self, owner: object) -> None:
        while batch := self._take_batch(owner):
            self._run_round(owner, batch)

    def _take_batch(self, owner: object) -> list[PendingRequest]:
        """Return the requests of the next round, none if another thread runs the rounds by now."""
        batch: list[PendingRequest] = []
        with self._lock:
            if self._owner is not owner:
                return []
            while self._waiting and len(batch) < MOST_REQUESTS:
                pending = self._waiting.popleft()
                if not pending.attempt.is_over:
                    batch.append(pending)
            if not batch:
                self._owner = None
        return batch

    def _run_round(self, owner: object, batch: Batch) -> None:
        """Decide what has come in its order, claim for all in one transaction, settle each."""
        try:
            with self._waiting_for_database(owner):
                newest = self._read_newest(batch)
        except BaseException as error:
            if _is_about_one(error) and len(batch) > 1:
                for pending in batch:
                    self._run_round(owner, [pending])
            else:
                self._fail(batch, error)
            return
        decided, began = [], monotonic()
        for number, pending in enumerate(batch):
            if monotonic() - began > SLICE:
                with self._lock:
                    self._waiting.extendleft(reversed(batch[number:]))
                break
            # Green threads run only where others let them.
            sleep(0)
            try:
                if pending.deadline.passed():
                    raise TooLate()
                self.decide(pending, newest)
            except BaseException as error:
                pending.attempt.error = error
            if pending.attempt.error is None and pending.attempt.claims is not None:
                newest.add(pending.attempt.claims)
                decided.append(pending)
            else:
                self.settle(pending)
        with self._waiting_for_database(owner):
            for pending in self._claim_together(decided):
                self._claim_alone(pending)

    def decide(self, pending: PendingRequest, newest: NewestClaims) -> None:
        """Decide what is to be claimed, unless it waited for Placement and is decided already."""
        if pending.attempt.claims is None:
            decide_attempt(pending, self._cache, newest, self._default_zone)

    def _read_newest(self, batch: Batch) -> NewestClaims:
        """Return the members of all groups, and what is free of all reservations, of a batch."""
        specs = [
            pending.attempt.request.spec for pending in batch if pending.attempt.claims is None
        ]
        read = self._database.read
        members = group_locks.read_members(read, [spec.instance_group for spec in specs])
        reserving = self._cache.reserving
        projects = {spec.project_id for spec in specs if spec.project_id in reserving}
        known = {project for project in projects if project is not None}
        free = read(lambda connection: FreePlaces.read(connection, known)) if known else None
        return NewestClaims(members, free)

    def _claim_together(self, decided: Batch) -> Batch:
        """Claim with one transaction; return the requests that have to be claimed by themselves."""
        if not decided:
            return ()
        requests = [pending.attempt.claims for pending in decided if pending.attempt.claims]
        try:
            results, changes = self._write(
                lambda connection: claims.claim_each(connection, requests), decided
            )
        except BaseException as error:
            # claim() finds standbys of instances that have no claims.
            is_one = len(decided) == 1 and not requests[0].standbys
            if _is_about_one(error) and not is_one:
                return decided
            self._fail(decided, error)
            return ()
        self._publish(decided, changes)
        alone = []
        for pending, result in zip(decided, results, strict=True):
            if result is None:
                alone.append(pending)
            elif isinstance(result, BaseException):
                self._fail([pending], result)
            else:
                pending.attempt.result = result
                self.settle(pending)
        return alone

    def _claim_alone(self, pending: PendingRequest) -> None:
        request, attempt = pending.attempt.claims, pending.attempt
        assert request is not None
        try:
            result = self._write(lambda connection: claims.claim(connection, request), [pending])
        # Whatever it is, it is raised where the answer is awaited.
        except BaseException as error:
            self._fail([pending], error)
            return
        self._publish([pending], result.changes)
        attempt.result = result
        self.settle(pending)

    def _write(self, work: Callable[[sa.Connection], T], batch: Batch) -> T:
        """Return work() in a transaction, for which the rows of groups are made that it lacks."""

        def left() -> float:
            return min(pending.deadline.left() for pending in batch)

        return listing_groups(self._database, partial(write_until, self._database, work, left))

    def _publish(self, batch: Batch, changes: Changes) -> None:
        try:
            batch[-1].claimer.publish(changes)
        # The claims are made, whatever comes of this.
        except Exception:
            LOG.exception("Cannot publish what was claimed; schedulers read it from the database")

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

    # What becomes of a request after its round.

    def _fail(self, batch: Batch, error: BaseException) -> None:
        for pending in batch:
            pending.attempt.error = error
            self.settle(pending)

    def settle(self, pending: PendingRequest) -> None:
        """End an attempt to claim; what has to wait then is done elsewhere."""
        attempt, width = pending.attempt, pending.claimer.width
        if not end_attempt(attempt, self._cache):
            return
        deciding = pending.trace.seconds.get("decide", 0.0) - attempt.seconds_deciding
        pending.trace.add_seconds("claim", monotonic() - attempt.queued_at - deciding)
        if attempt.error is not None:
            if isinstance(attempt.error, ClaimLost):
                width.lost()
            self._decide_again_or_fail(pending, attempt.error)
            return
        if attempt.result is not None and not attempt.result.repeated:
            width.won()
        shortage = attempt.decision is not None and attempt.decision.shortage
        if pending.placement is not None or (attempt.result is None and shortage):
            self._begin_step(self._conclude, pending)
        else:
            self._step(self._conclude, pending)

    def _conclude(self, pending: PendingRequest) -> None:
        """Answer a request by what its attempt has found, or let it be decided again."""
        attempt, trace, claimer = pending.attempt, pending.trace, pending.claimer
        decision, result, answer = attempt.decision, attempt.result, attempt.answer
        assert decision is not None
        if result is None and decision.shortage and all(pending.request.instance_uuids):
            # Either it was answered before, or claims of another request may be in its way.
            with trace.stage("claim"):
                result = claimer.release_stale(pending.identity, pending.deadline.left)
        if result is not None and (result.repeated or result.refused):
            answer = stored_answers.in_order(pending.request.instance_uuids, result.answers)
        repeated = result is not None and result.repeated
        if attempt.claims is not None and not repeated:
            log_moved(decision)
        if attempt.claims is not None or repeated:
            self._allocate(pending, answer, repeated)
        if repeated:
            trace.outcome, trace.answer = request_trace.REPEATED, answer
        elif decision.shortage and not self._is_certain(pending, result):
            self._decide_again(pending)
            return
        else:
            trace.finish(decision)
        pending.future.set_result(pending.complete_answer(answer))

    def _allocate(self, pending: PendingRequest, answer: Answer, repeated: bool) -> None:
        """Allocate in Placement what was claimed; release the claims if that fails.

        While it is unknown whether Placement has written the allocations, the claims stay: the same
        request again finds both, or writes the allocations.
        """
        allocator, placement = pending.allocator, pending.placement
        if allocator is None or placement is None:
            return
        uuids, left = pending.identity.uuids, pending.deadline.left
        try:
            with pending.trace.stage("placement"):
                allocator.allocate(placement, pending.answered, left, repeated=True)
                answers = dict(zip(uuids, answer, strict=True))
                allocator.allocate(placement, answers, left, repeated)
        except (ClaimLost, PlacementUnavailable, TooLate) as error:
            if not getattr(error, "may_be_done", False):
                pending.claimer.release(uuids)
            raise

    def _is_certain(self, pending: PendingRequest, result: ClaimResult | None) -> bool:
        """Return whether it is certain that there is no host.

        It is not on an old cache, after claims were released, nor while others have claims in
        flight that may never be made: their nodes are read again.
        """
        if result is None and pending.is_fresh:
            if not pending.attempt.is_contested or pending.rechecks >= MAX_RECHECKS:
                return True
            pending.rechecks += 1
        self._cache.mark_stale(self._cache.nodes_in_flight)
        return False

    def _begin_step(self, work: Step, pending: PendingRequest) -> None:
        """Begin what a request may wait for; other requests do not."""

        def log_about_it() -> None:
            pending.trace.caller.for_logging()
            self._step(work, pending)

        try:
            self._begin(log_about_it)
        # The process may have no more threads. The round goes on for the other requests.
        except RuntimeError as error:
            pending.future.set_exception(error)

    def _step(self, work: Step, pending: PendingRequest) -> None:
        """Do one step of a request; if it fails the request is decided again, or answered so."""
        try:
            work(pending)
        except BaseException as error:
            pending.attempt.error = error
            end_attempt(pending.attempt, self._cache)
            self._decide_again_or_fail(pending, error)

    def _decide_again_or_fail(self, pending: PendingRequest, error: BaseException) -> None:
        """Let a request be decided again whose claim was lost; else answer with the error."""
        if isinstance(error, ClaimLost):
            pending.trace.add_conflict(error.cause)
            # What was answered before may have ended.
            pending.answered = {}
        elif isinstance(error, PartlyAnswered):
            try:
                pending.answered |= stored_answers.of_instances(error.answers)
            except InvalidInput as unreadable:
                pending.future.set_exception(unreadable)
                return
        else:
            if isinstance(error, Outdated):
                error = InvalidInput(f"instance_uuids: {error}")
            pending.future.set_exception(error)
            return
        self._decide_again(pending)

    def _decide_again(self, pending: PendingRequest) -> None:
        if pending.trace.conflicts >= pending.claimer.settings.attempts:
            pending.trace.outcome = request_trace.GIVEN_UP
            pending.future.set_exception(NoValidHost(NOT_ENOUGH))
            return
        pending.decide_again()
        self._begin_step(self.prepare, pending)

    def _give_up(self, pending: PendingRequest) -> None:
        """Answer a request that waits for a round, or a transaction, beyond its deadline."""
        attempt = pending.attempt
        if attempt.queued_at < inf and end_attempt(attempt, self._cache):
            pending.future.set_exception(
                too_long(attempt.seconds_left, self._database, attempt.queued_at)
            )


def _is_about_one(error: BaseException) -> bool:
    """Return whether one request may be in the way of others, which do not wait for a database."""
    return isinstance(error, StatementRefused) or not isinstance(error, DatabaseUnavailable)


def decide_attempt(
    pending: PendingRequest, cache: HostCache, newest: NewestClaims, default_zone: str
) -> None:
    """Decide an attempt, and consume in the host cache what is about to be claimed.

    Without claims afterwards there is nothing to claim. Raises TooLate.
    """
    attempt, trace, claim_settings = pending.attempt, pending.trace, pending.claimer.settings
    identity = pending.identity
    request = with_members(attempt.request, identity.uuids, newest.members)
    if newest.places is not None:
        request = replace(request, places=newest.places.of(request.spec.project_id))
    # What plug-ins log is about this request.
    trace.caller.for_logging()
    with trace.stage("decide"), cache.locked(attempt.as_of_reading) as hosts:
        # The caller may have given up since the round looked; nobody would end the claim.
        if attempt.is_over:
            raise TooLate()
        if attempt.trust is not None:
            cache.set_trust(attempt.trust)
        attempt.is_contested = bool(cache.nodes_in_flight)
        decision, copy = decide(pending.settings, cache, hosts, request, trace)
        if claim_settings.alternates:
            decision = claimable(decision)
        attempt.decision = decision
        answer: Answer = build_answer(decision, hosts, request.spec, default_zone)
        if answer:
            context = ClaimContext(identity, request, decision, copy)
            attempt.claims = build_claim_request(context, claim_settings, cache)
            attempt.in_flight = cache.begin_claim(decision, request.spec)
    if answer and pending.offers_at_once:
        answer = pending.offer(answer)
    attempt.set_answer(answer, claim_settings.alternates)


def levels_of_trust(
    spec: RequestSpec, settings: Settings, cache: HostCache
) -> Mapping[str, str] | None:
    """Return the levels of trust that a request needs; the attestation service may be slow."""
    driver = settings.driver
    nodenames = partial(cache.nodenames, driver.view_max_age)
    return levels_for(spec, driver.plan, settings.attestation, nodenames)


def decide(
    settings: Settings, cache: HostCache, hosts: HostTable, request: Request, trace: RequestTrace
) -> tuple[Decision, HostTable]:
    """Decide on a working copy of a host table; return the decision and the copy as it leaves it.

    The trace gets what was decided, and on what.
    """
    trace.view_age = cache.age
    copy = hosts.working_copy()
    decision = settings.driver.decide(copy, request)
    trace.snapshot = settings.snapshot_log.take(hosts) if settings.snapshot_log else None
    if trace.snapshot:
        trace.snapshots.append(trace.snapshot)
    trace.request, trace.decision = request, decision
    return decision, copy


def end_attempt(attempt: Attempt, cache: HostCache) -> bool:
    """End the claim that is in flight in the host cache; return False if it was over before.

    It has to end even if it is unknown whether the claim was made: its nodes are read again.
    """
    with cache.lock:
        if attempt.is_over:
            return False
        attempt.is_over = True
        cache.mark_stale(attempt.nodes_to_read())
        cache.end_claim(attempt.in_flight)
        return True
