# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Select destinations: read the host cache, decide, claim, answer; a lost claim starts over.

With an allocator each claim is an allocation in Placement, too: it is asked about the chosen hosts
before the claim, and told of the claim after it.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from inventory.claims.claims import Outdated, PartlyAnswered
from inventory.claims.types import ClaimLost, ClaimRequest, ClaimResult
from inventory.engine import Database
from inventory.nova.placement_errors import PlacementUnavailable
from scheduler import request_trace
from scheduler.analysis.explain import Explanation, Extent, Rehearsal
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.allocator import Allocator
from scheduler.claims.claim_request import ClaimContext, build_claim_request, claimable
from scheduler.claims.claimer import Claimer, TimedReads, forever, refusing_late
from scheduler.claims.placement_scope import scope_of
from scheduler.claims.rounds import TooLate
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer
from scheduler.request_builder import build_answer, build_request, name_instances
from scheduler.request_trace import RequestLog, RequestObserver, RequestTrace, notifying
from scheduler.select_state import Attempt, SelectState
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
            request = self.claimer.with_current_claims(request, uuids)
        driver = self.driver
        with self.hosts(request.spec, driver) as hosts:
            copy = hosts.detached()
        return Rehearsal(driver.decide(copy.working_copy(), request), copy, request, driver)

    @contextmanager
    def hosts(self, spec: RequestSpec, driver: BaseDriver) -> Iterator[HostTable]:
        """Yield the host table, locked, with the levels of trust that the request needs."""
        levels = self._trust(spec, driver)
        with self.host_cache.current(driver.view_max_age) as hosts:
            if levels is not None:
                self.host_cache.set_trust(levels)
            yield hosts

    def _trust(self, spec: RequestSpec, driver: BaseDriver) -> Mapping[str, str] | None:
        """Return the levels of trust that a request needs; the attestation service may be slow."""
        cache, max_age = self.host_cache, driver.view_max_age
        return levels_for(spec, driver.plan, self.attestation, lambda: cache.nodenames(max_age))

    def _select_without_claims(self, request: Request, trace: RequestTrace) -> Answer:
        trace.driver = driver = self.driver
        with ExitStack() as locked:
            with trace.stage("view"):
                hosts = locked.enter_context(self.hosts(request.spec, driver))
            with trace.stage("decide"):
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
        attempt = self._prepare(state, claimer)
        result = self._claim(state, claimer, attempt)
        decision, answer = attempt.decision, attempt.answer
        assert decision is not None
        if result is None and decision.shortage and all(state.request.instance_uuids):
            # Either it was answered before, or claims of another request may be in its way.
            with state.trace.stage("claim"):
                result = claimer.release_stale(state.identity, state.deadline.left)
        if result is not None and (result.repeated or result.refused):
            answer = [selections_from_json(each or "[]") for each in result.answers]
        repeated = result is not None and result.repeated
        if attempt.claims is not None or repeated:
            self._allocate(state, claimer, answer, repeated)
        if repeated:
            state.trace.outcome, state.trace.answer = request_trace.REPEATED, answer
            return answer
        if decision.shortage and not self._confirmed_no_host(state, result):
            return None
        _finish(decision, state.trace)
        return answer

    def _prepare(self, state: SelectState, claimer: Claimer) -> Attempt:
        """Return an attempt that has all that its decision would have to wait for."""
        trace, request, alternates = state.trace, state.request, claimer.settings.alternates
        if state.placement is not None:
            request = replace(request, spec=state.placement.restrict(request.spec))
        request = claimer.with_current_claims(request, state.identity.uuids, state.deadline.left)
        # With the same seed as before it would compete for the same hosts again.
        request = replace(request, seed=request.seed + trace.conflicts, holds_alternates=alternates)
        trace.driver = driver = self.driver
        is_old = driver.view_max_age is not None and not state.fresh
        attempt = Attempt(request, as_of_reading=is_old)
        with trace.stage("view"):
            attempt.trust = self._trust(request.spec, driver)
            self.host_cache.refresh_if_older(driver.view_max_age, state.fresh)
        return attempt

    def _claim(self, state: SelectState, claimer: Claimer, attempt: Attempt) -> ClaimResult | None:
        """Decide and claim in a round; return None if there is nothing to claim.

        Raises what Claimer.decide_and_claim() and Allocator.offer() do.
        """
        result: ClaimResult | None = None
        decide = partial(self._decide_and_reserve, state, claimer, attempt)
        lost: Collection[int] = ()
        try:
            # Nobody waits in a round for what Placement offers.
            if state.placement is not None and not state.placement.is_plain:
                if decide() is None:
                    return None
                with state.trace.stage("placement"):
                    offered = self._offered(state, attempt.answer)
                decide = partial(attempt.offered, offered, claimer.settings.alternates)
            with state.trace.stage("claim", without="decide"):
                result = claimer.decide_and_claim(decide, state.deadline.left)
            return result
        except ClaimLost as error:
            lost = error.nodes
            raise
        finally:
            # The reservation has to end even if it is unknown whether the claim was made.
            with self.host_cache.lock:
                attempt.is_over = True
                self.host_cache.mark_stale({*attempt.unclaimed(result), *lost})
                self.host_cache.end_reservation(attempt.reserved)

    def _decide_and_reserve(
        self, state: SelectState, claimer: Claimer, attempt: Attempt
    ) -> ClaimRequest | None:
        """Decide, and reserve in the host cache what is about to be claimed."""
        trace, cache, request = state.trace, self.host_cache, attempt.request
        # What plug-ins log is about this request, in the thread of the round, too.
        trace.caller.for_logging()
        with trace.stage("decide"), cache.locked(attempt.as_of_reading) as hosts:
            # The caller may have given up since the round looked; nobody would end the reservation.
            if attempt.is_over:
                raise TooLate()
            if attempt.trust is not None:
                cache.set_trust(attempt.trust)
            state.contested = bool(cache.reserved_nodes)
            decided_on = hosts.working_copy()
            decision = self._decide(decided_on, hosts, request, trace)
            if claimer.settings.alternates:
                decision = claimable(decision)
            attempt.decision = decision
            answer = build_answer(decision, hosts, request.spec, self._default_zone)
            if not answer:
                return None
            context = ClaimContext(state.identity, request, decision, decided_on)
            attempt.claims = build_claim_request(context, claimer.settings, cache)
            attempt.reserved = cache.reserve(decision, request.spec)
        if state.placement is not None and state.placement.is_plain:
            answer = self._offered(state, answer)
        return attempt.offered(answer, claimer.settings.alternates)

    def _offered(self, state: SelectState, answer: Answer) -> Answer:
        """Return an answer as Placement offers it, which is not asked about plain requests."""
        if self.allocator is None or state.placement is None:
            return answer
        return self.allocator.offer(state.placement, answer, state.deadline.left)

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
        return False

    def _decide(
        self, copy: HostTable, hosts: HostTable, request: Request, trace: RequestTrace
    ) -> Decision:
        """Decide on a working copy of the host table, and record it in the trace."""
        # A reload may replace driver and snapshot log at any time: use those of this attempt.
        driver, snapshot_log = trace.driver or self.driver, self.snapshot_log
        trace.view_age = self.host_cache.age
        decision = driver.decide(copy, request)
        trace.snapshot = snapshot_log.take(hosts) if snapshot_log else None
        if trace.snapshot:
            trace.snapshots.append(trace.snapshot)
        trace.request, trace.decision = request, decision
        return decision


def _finish(decision: Decision, trace: RequestTrace) -> None:
    """Record the outcome of a decision; raises NoValidHost where it is a shortage."""
    if decision.shortage:
        raise NoValidHost(decision.shortage.reason)
    trace.outcome = request_trace.PLACED if decision.placements else request_trace.NOTHING
