# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Select destinations: read the host cache, decide, claim, answer; a lost claim starts over.

With an allocator each claim is an allocation in Placement, too: it is asked about the chosen hosts
before the claim, and told of the claim after it.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from inventory.claims.claims import Outdated, PartlyAnswered
from inventory.claims.types import ClaimLost, ClaimRequest, ClaimResult
from inventory.engine import Database
from inventory.nova.placement_errors import PlacementUnavailable
from scheduler import request_trace
from scheduler.analysis.explain import Explanation, Extent, Rehearsal
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.allocator import Allocator
from scheduler.claims.claim_request import (
    ClaimContext,
    build_claim_request,
    claimable,
    with_answers,
)
from scheduler.claims.claimer import Claimer, TimedReads, forever, refusing_late
from scheduler.claims.group_commit import Left, TooLate
from scheduler.claims.placement_scope import scope_of
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.host_cache.assumed import Reservation
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer
from scheduler.request_builder import build_answer, build_request, name_instances
from scheduler.request_trace import RequestLog, RequestObserver, RequestTrace, notifying
from scheduler.select_state import SelectState
from scheduler.trust import Attestation, levels_for
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost
from scheduler.wire.replies import selections_from_json

# How often a request without a host is decided again because reservations of others may end.
MAX_RECHECKS = 5
# How many hosts explain() reports on unless its caller says otherwise.
EXPLAINED_HOSTS = Extent(most=100)


class Destinations:
    """Answer requests with destinations. One per process; many threads may use it.

    Without a claimer the resources of a decision are consumed in the host cache only. With an
    allocator claims are allocated in Placement. With a snapshot log the observers see what was
    decided on.
    """

    def __init__(
        self,
        database: Database,
        host_cache: HostCache,
        driver: BaseDriver,
        max_attempts: int = 3,
        default_zone: str = "nova",
        attestation: Attestation | None = None,
        claimer: Claimer | None = None,
        allocator: Allocator | None = None,
        observers: Sequence[RequestObserver] = (),
        snapshot_log: SnapshotLog | None = None,
    ) -> None:
        self.driver = driver
        self.attestation = attestation
        self.claimer = claimer
        self.allocator = allocator
        self.host_cache = host_cache
        self.snapshot_log = snapshot_log
        self._database = database
        self._threads = CachedThreadPool()
        self._max_attempts = max_attempts
        self._default_zone = default_zone
        self._observers = (RequestLog(), *observers)

    def select(
        self, arguments: SelectArguments, caller: RequestContext, deadline: Deadline | None = None
    ) -> Answer:
        """Return for each instance its destination and, if requested, alternates.

        Raises NoValidHost unless all instances have one; nothing is claimed then. Raises
        InvalidInput for a server group that does not exist and for a request older than a later
        attempt of its own, DatabaseUnavailable, PlacementUnavailable, and ServiceUnavailable after
        the deadline.
        """
        deadline = deadline or Deadline(time.monotonic())
        trace = RequestTrace(caller, arguments.instance_uuids, time.monotonic())
        trace.seconds["queue"] = deadline.waited()
        with notifying(trace, self._observers), refusing_late():
            reads = TimedReads(self._database, self._threads, deadline.left)
            allocates = self.allocator is not None
            request = build_request(arguments, caller, reads, self._max_attempts, allocates)
            if self.claimer is None or request.spec.is_rebuild:
                return self._select_without_claims(request, trace)
            request = name_instances(request, caller.request_id, arguments.digest)
            trace.instance_uuids = request.instance_uuids
            state = SelectState(request, arguments.digest, trace, deadline)
            # Of instances that have no names there is nobody to allocate for.
            if self.allocator is not None and None not in arguments.instance_uuids:
                with trace.stage("placement"):
                    scope = scope_of(request.spec, self.driver, self.host_cache)
                    state.placement = self.allocator.begin(request.spec, deadline.left, scope)
            return self._select_with_claims(state, self.claimer)

    def rehearse(
        self, arguments: SelectArguments, caller: RequestContext, extent: Extent = EXPLAINED_HOSTS
    ) -> tuple[Decision, Explanation]:
        """Return what select() would decide now and why, for the refused or the first instance.

        Nothing is claimed or locked meanwhile. Raises what rehearsal() does.
        """
        extent.pause()
        found = self.rehearsal(arguments, caller)
        extent.pause()
        return found.decision, found.explain(extent)

    def rehearsal(self, arguments: SelectArguments, caller: RequestContext) -> Rehearsal:
        """Return what select() would decide now, which can be explained later.

        Nothing is claimed. Raises InvalidInput, NoValidHost for resources that only Placement can
        allocate, DatabaseUnavailable and PlacementUnavailable.
        """
        allocator = self.allocator
        request = build_request(
            arguments, caller, self._database, self._max_attempts, allocator is not None
        )
        if allocator is not None:
            scope = scope_of(request.spec, self.driver, self.host_cache)
            spec = allocator.begin(request.spec, forever, scope).restrict(request.spec)
            request = replace(request, spec=spec)
        if self.claimer is not None and not request.spec.is_rebuild:
            uuids = [uuid for uuid in request.instance_uuids if uuid]
            request = _with_current_claims(request, uuids, self.claimer)
        driver = self.driver
        with self.hosts(request.spec, driver) as hosts:
            copy = hosts.detached()
        return Rehearsal(driver.decide(copy.working_copy(), request), copy, request, driver)

    @contextmanager
    def hosts(
        self, spec: RequestSpec, driver: BaseDriver, fresh: bool = False
    ) -> Iterator[HostTable]:
        """Yield the host table, locked, with the levels of trust that the request needs."""
        cache, max_age = self.host_cache, driver.view_max_age
        # Before the table is locked: the attestation service may be slow.
        levels = levels_for(spec, driver.plan, self.attestation, lambda: cache.nodenames(max_age))
        with cache.current(max_age, fresh) as hosts:
            if levels is not None:
                cache.set_trust(levels)
            yield hosts

    def _select_without_claims(self, request: Request, trace: RequestTrace) -> Answer:
        with self._hosts(request.spec, trace) as hosts:
            decision = self._decide(hosts.working_copy(), hosts, request, trace)
            self.host_cache.consume(decision, request.spec)
            answer = build_answer(decision, hosts, request.spec, self._default_zone)
        _finish(decision, trace)
        return answer

    def _select_with_claims(self, state: SelectState, claimer: Claimer) -> Answer:
        """Decide and claim until a claim holds or it is certain that there is no host."""
        while state.trace.conflicts < claimer.settings.attempts:
            try:
                if state.deadline.passed():
                    raise TooLate()
                answer = self._attempt(state, claimer)
                if answer is not None:
                    return state.complete(answer)
            except ClaimLost as lost:
                state.trace.add_conflict(lost.cause)
            except PartlyAnswered as partly:
                state.answered |= partly.answers
                rest = [each for each in state.request.instance_uuids if each not in state.answered]
                state.request = replace(state.request, instance_uuids=rest)
            except Outdated as error:
                raise InvalidInput(f"instance_uuids: {error}") from None
            state.fresh = True
        state.trace.outcome = request_trace.GIVEN_UP
        raise NoValidHost(NOT_ENOUGH)

    def _attempt(self, state: SelectState, claimer: Claimer) -> Answer | None:
        """Decide and claim once; return None if the newest state has to be decided on."""
        decision, claim_request, reservation, answer = self._decide_and_reserve(state, claimer)
        result: ClaimResult | None = None
        if claim_request is not None and reservation is not None:
            result, answer = self._claim(state, claimer, claim_request, reservation, answer)
        elif decision.shortage and all(state.request.instance_uuids):
            # Either it was answered before, or claims of another request may be in its way.
            with state.trace.stage("claim"):
                result = claimer.release_stale(state.identity, state.deadline.left)
        if result is not None and (result.repeated or result.refused):
            answer = [selections_from_json(each or "[]") for each in result.answers]
        repeated = result is not None and result.repeated
        if claim_request is not None or repeated:
            self._allocate(state, claimer, answer, repeated)
        if repeated:
            state.trace.outcome, state.trace.answer = request_trace.REPEATED, answer
            return answer
        if decision.shortage and not self._confirmed_no_host(state, result):
            return None
        _finish(decision, state.trace)
        return answer

    def _decide_and_reserve(
        self, state: SelectState, claimer: Claimer
    ) -> tuple[Decision, ClaimRequest | None, Reservation | None, Answer]:
        """Decide, and reserve in the host cache what is about to be claimed."""
        trace, left, request = state.trace, state.deadline.left, state.request
        if state.placement is not None:
            request = replace(request, spec=state.placement.restrict(request.spec))
        request = _with_current_claims(request, state.identity.uuids, claimer, left)
        # With the same seed as before it would compete for the same hosts again.
        seed, alternates = request.seed + trace.conflicts, claimer.settings.alternates
        request = replace(request, seed=seed, holds_alternates=alternates)
        with self._hosts(request.spec, trace, state.fresh) as hosts:
            state.contested = bool(self.host_cache.reserved_nodes)
            decided_on = hosts.working_copy()
            decision = self._decide(decided_on, hosts, request, trace)
            if alternates:
                decision = claimable(decision)
            answer = build_answer(decision, hosts, request.spec, self._default_zone)
            if not answer:
                return decision, None, None, answer
            context = ClaimContext(state.identity, request, decision, decided_on)
            claim_request = build_claim_request(context, claimer.settings, self.host_cache)
            reservation = self.host_cache.reserve(decision, request.spec)
        return decision, claim_request, reservation, answer

    def _claim(
        self,
        state: SelectState,
        claimer: Claimer,
        request: ClaimRequest,
        reservation: Reservation,
        answer: Answer,
    ) -> tuple[ClaimResult, Answer]:
        """Claim what was decided; return the answer with what Placement offers for it.

        Raises what Claimer.claim() and Allocator.offer() do.
        """
        result: ClaimResult | None = None
        stale = claimed = {each.node_id for each in request.claims}
        try:
            if self.allocator is not None and state.placement is not None:
                with state.trace.stage("placement"):
                    answer = self.allocator.offer(state.placement, answer, state.deadline.left)
            with state.trace.stage("claim"):
                request = with_answers(request, answer, claimer.settings.alternates)
                result = claimer.claim(request, state.deadline.left)
            if not (result.repeated or result.refused):
                stale = {*result.left, *request.documents}
            return result, answer
        except ClaimLost as lost:
            stale = claimed | set(lost.nodes)
            raise
        finally:
            # The reservation has to end even if it is unknown whether the claim was made.
            self.host_cache.mark_stale(stale)
            self.host_cache.end_reservation(reservation, result.generations if result else None)

    def _allocate(
        self, state: SelectState, claimer: Claimer, answer: Answer, repeated: bool
    ) -> None:
        """Allocate in Placement what was claimed; release the claims if that fails.

        While it is unknown whether Placement has written the allocations, the claims stay: the same
        request again finds both, or writes the allocations.
        """
        if self.allocator is None or state.placement is None:
            return
        uuids, left = state.identity.uuids, state.deadline.left
        try:
            with state.trace.stage("placement"):
                self.allocator.allocate(state.placement, state.earlier, left, repeated=True)
                answers = dict(zip(uuids, answer, strict=True))
                self.allocator.allocate(state.placement, answers, left, repeated)
        except (ClaimLost, PlacementUnavailable, TooLate) as error:
            if not getattr(error, "may_be_done", False):
                claimer.release(uuids)
            raise

    def _confirmed_no_host(self, state: SelectState, result: ClaimResult | None) -> bool:
        """Return whether it is certain that there is no host.

        It is not on an old cache, after claims were released, nor while others hold reservations
        that they may never claim: their nodes are read again.
        """
        if result is None and state.fresh:
            if not state.contested or state.rechecks >= MAX_RECHECKS:
                return True
            state.rechecks += 1
        self.host_cache.mark_stale(self.host_cache.reserved_nodes)
        self.host_cache.mark_stale(result.left if result else ())
        return False

    def _decide(
        self, copy: HostTable, hosts: HostTable, request: Request, trace: RequestTrace
    ) -> Decision:
        """Decide on a working copy of the host table, and record it in the trace."""
        # A reload may replace driver and snapshot log at any time: use those of this attempt.
        driver, snapshot_log = trace.driver or self.driver, self.snapshot_log
        with trace.stage("decide"):
            decision = driver.decide(copy, request)
        trace.snapshot = snapshot_log.take(hosts) if snapshot_log else None
        if trace.snapshot:
            trace.snapshots.append(trace.snapshot)
        trace.request, trace.decision = request, decision
        return decision

    @contextmanager
    def _hosts(
        self, spec: RequestSpec, trace: RequestTrace, fresh: bool = False
    ) -> Iterator[HostTable]:
        """Yield hosts() for an attempt; its trace gets the driver and how long that took."""
        trace.driver = driver = self.driver
        with ExitStack() as locked:
            with trace.stage("view"):
                hosts = locked.enter_context(self.hosts(spec, driver, fresh))
            trace.view_age = self.host_cache.age
            yield hosts


def _with_current_claims(
    request: Request, uuids: Collection[str], claimer: Claimer, left: Left = forever
) -> Request:
    """Return a request with the claimed hosts of its group, spread as competition demands."""
    spec = claimer.with_members(request.spec, uuids, left)
    return replace(request, spec=spec, choices=claimer.width.choices)


def _finish(decision: Decision, trace: RequestTrace) -> None:
    """Record the outcome of a decision; raises NoValidHost where it is a shortage."""
    if decision.shortage:
        raise NoValidHost(decision.shortage.reason)
    trace.outcome = request_trace.PLACED if decision.placements else request_trace.NOTHING
