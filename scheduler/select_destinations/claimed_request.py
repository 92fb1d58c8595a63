# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request whose instances are claimed: it is decided again until its claims hold.

With an allocator each claim is an allocation in Placement, too: it is asked about the chosen hosts
before the claim, and gets the claim after it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from inventory.claims.group_locks import read_members
from inventory.claims.repeats import Outdated, PartlyAnswered
from inventory.claims.types import ClaimLost, ClaimRequest, ClaimResult, Identity
from inventory.nova.placement_errors import PlacementUnavailable
from scheduler import request_trace
from scheduler.claims import stored_answers
from scheduler.claims.allocator import Allocator
from scheduler.claims.claim_request import (
    ClaimContext,
    build_claim_request,
    claimable,
    request_identity,
    set_answers,
)
from scheduler.claims.claimer import Claimer, TimedReads
from scheduler.claims.placement_request import PlacementRequest
from scheduler.claims.placement_scope import scope_of
from scheduler.claims.protection import log_moved, protected
from scheduler.claims.rounds import Decide, NewestClaims, TooLate
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer, Selection
from scheduler.request_trace import RequestTrace
from scheduler.select_destinations.request_builder import build_answer, with_members
from scheduler.trust import Attestation, levels_for
from scheduler.wire.context import Deadline
from scheduler.wire.errors import InvalidInput, NoValidHost

# How often a request without a host is decided again because claims of others in flight may fail.
MAX_RECHECKS = 5


class Decider:
    """Many threads may use it; a reload may replace driver, attestation and snapshot log."""

    def __init__(
        self,
        host_cache: HostCache,
        driver: BaseDriver,
        default_zone: str = "nova",
        attestation: Attestation | None = None,
        snapshot_log: SnapshotLog | None = None,
    ) -> None:
        self.host_cache = host_cache
        self.driver = driver
        self.attestation = attestation
        self.snapshot_log = snapshot_log
        self.default_zone = default_zone

    def trust(self, spec: RequestSpec, driver: BaseDriver) -> Mapping[str, str] | None:
        """Return the levels of trust that a request needs; the attestation service may be slow."""
        cache, max_age = self.host_cache, driver.view_max_age
        return levels_for(spec, driver.plan, self.attestation, lambda: cache.nodenames(max_age))

    def decide(
        self, copy: HostTable, hosts: HostTable, request: Request, trace: RequestTrace
    ) -> Decision:
        """Decide on a working copy of the host table, with the driver of the trace."""
        # A reload may replace both at any time: use those of this attempt.
        driver, snapshot_log = trace.driver or self.driver, self.snapshot_log
        trace.view_age = self.host_cache.age
        decision = driver.decide(copy, request)
        trace.snapshot = snapshot_log.take(hosts) if snapshot_log else None
        if trace.snapshot:
            trace.snapshots.append(trace.snapshot)
        trace.request, trace.decision = request, decision
        return decision


@dataclass(slots=True)
class _Attempt:
    """One attempt: what is decided with, and then what was decided and is to be claimed.

    as_of_reading: see HostCache.locked(). trust has the levels of trust by node, if the request
    needs them. in_flight are the ids of the nodes on which the host cache has the claim. After
    is_over nothing is decided any more.
    """

    request: Request
    as_of_reading: bool
    trust: Mapping[str, str] | None = None
    decision: Decision | None = None
    answer: Answer = field(default_factory=list)
    claims: ClaimRequest | None = None
    in_flight: Collection[int] = ()
    is_over: bool = False

    def offered(self, answer: Answer, alternates: bool) -> ClaimRequest | None:
        """Return what is to be claimed for an answer, which this becomes; None for nothing."""
        self.answer = answer
        if self.claims is not None:
            set_answers(self.claims, answer, alternates)
        return self.claims

    def unclaimed(self, result: ClaimResult | None) -> set[int]:
        """Return the nodes that have to be read again, as they were to be claimed and were not."""
        if self.claims is None:
            return set()
        nodes = {each.node_id for each in self.claims.claims} - {*(result.nodes if result else ())}
        if result is None or result.repeated:
            nodes |= {each.node_id for each in self.claims.standbys if each.node_id is not None}
        return nodes


class ClaimedRequest:
    """A request between its attempts to claim; one thread uses it at a time."""

    def __init__(
        self,
        decider: Decider,
        claimer: Claimer,
        request: Request,
        digest: str,
        trace: RequestTrace,
        deadline: Deadline,
        reads: TimedReads,
    ) -> None:
        self._decider, self._cache = decider, decider.host_cache
        self._claimer = claimer
        self._request = request
        self._digest = digest
        self._trace = trace
        self._deadline = deadline
        self._reads = reads
        # Set if its claims are allocated in Placement.
        self._allocator: Allocator | None = None
        self._placement: PlacementRequest | None = None
        # Whether it needs a cache with all that was committed until now.
        self._fresh = False
        # Whether others had claims in flight when it was decided, and how often it was for that.
        self._contested, self._rechecks = False, 0
        # The answers that some instances got before.
        self._answered: dict[str, list[Selection]] = {}

    def ask_placement(self, allocator: Allocator) -> None:
        """Allocate claims in Placement; raises what Allocator.begin() does."""
        spec = self._request.spec
        with self._trace.stage("placement"):
            scope = scope_of(spec, self._decider.driver, self._cache)
            self._placement = allocator.begin(spec, self._deadline.left, scope)
        self._allocator = allocator

    def select(self) -> Answer:
        """Decide and claim until a claim holds or it is certain that there is no host."""
        while self._trace.conflicts < self._claimer.settings.attempts:
            try:
                if self._deadline.passed():
                    raise TooLate()
                answer = self._attempt()
                if answer is not None:
                    return self._complete(answer)
            except ClaimLost as lost:
                self._trace.add_conflict(lost.cause)
                # What was answered before may have ended.
                self._answered = {}
            except PartlyAnswered as partly:
                self._answered |= stored_answers.of_instances(partly.answers)
            except Outdated as error:
                raise InvalidInput(f"instance_uuids: {error}") from None
            rest = [each for each in self._trace.instance_uuids if each not in self._answered]
            self._request, self._fresh = replace(self._request, instance_uuids=rest), True
        self._trace.outcome = request_trace.GIVEN_UP
        raise NoValidHost(NOT_ENOUGH)

    @property
    def _identity(self) -> Identity:
        """What distinguishes the request from all others."""
        request_id, answered = self._trace.caller.request_id, [*self._answered]
        return request_identity(self._request, request_id, self._digest, answered)

    def _complete(self, answer: Answer) -> Answer:
        """Return an answer with those that were given before, in the order of the request."""
        if not self._answered:
            return answer
        rest, earlier = iter(answer), self._answered
        return [
            earlier[uuid] if uuid in earlier else next(rest) for uuid in self._trace.instance_uuids
        ]

    def _attempt(self) -> Answer | None:
        """Decide and claim once; return None if the newest state has to be decided on."""
        attempt = self._prepare()
        result = self._claim(attempt)
        decision, answer = attempt.decision, attempt.answer
        assert decision is not None
        if result is None and decision.shortage and all(self._request.instance_uuids):
            # Either it was answered before, or claims of another request may be in its way.
            with self._trace.stage("claim"):
                result = self._claimer.release_stale(self._identity, self._deadline.left)
        if result is not None and (result.repeated or result.refused):
            answer = stored_answers.in_order(self._request.instance_uuids, result.answers)
        repeated = result is not None and result.repeated
        if attempt.claims is not None and not repeated:
            log_moved(decision)
        if attempt.claims is not None or repeated:
            self._allocate(answer, repeated)
        if repeated:
            self._trace.outcome, self._trace.answer = request_trace.REPEATED, answer
            return answer
        if decision.shortage and not self._confirmed_no_host(result):
            return None
        self._trace.finish(decision)
        return answer

    def _prepare(self) -> _Attempt:
        """Return an attempt that has all that its decision would have to wait for."""
        request, spec = self._request, self._request.spec
        request = replace(
            request,
            spec=self._placement.restrict(spec) if self._placement else spec,
            # With the same seed as before it would compete for the same hosts again.
            seed=request.seed + self._trace.conflicts,
            choices=self._claimer.width.choices,
            holds_alternates=self._claimer.settings.alternates,
        )
        self._trace.driver = driver = self._decider.driver
        is_old = driver.view_max_age is not None and not self._fresh
        attempt = _Attempt(request, as_of_reading=is_old)
        with self._trace.stage("view"):
            attempt.trust = self._decider.trust(request.spec, driver)
            self._cache.refresh_if_older(driver.view_max_age, self._fresh)
            settings, sums = self._claimer.settings.protection, self._claimer.standby_sums
            is_reserving = request.spec.project_id in self._cache.reserving
            attempt.request = protected(
                request, settings, self._reads, sums, self._fresh, is_reserving
            )
        return attempt

    def _claim(self, attempt: _Attempt) -> ClaimResult | None:
        """Decide and claim in a round; return None if there is nothing to claim.

        Raises what Claimer.decide_and_claim() and Allocator.offer() do.
        """
        result: ClaimResult | None = None
        decide: Decide = partial(self._decide_and_begin, attempt)
        group, left = attempt.request.spec.instance_group, self._deadline.left
        project = attempt.request.spec.project_id
        if project not in self._cache.reserving:
            project = None
        lost: Collection[int] = ()
        try:
            # Nobody waits in a round for what Placement offers.
            if self._placement is not None and not self._placement.is_plain:
                members = read_members(self._reads.read, [group])
                if decide(NewestClaims(members)) is None:
                    return None
                with self._trace.stage("placement"):
                    offered = self._offered(attempt.answer)
                claims = attempt.offered(offered, self._claimer.settings.alternates)
                decide, group, project = (lambda _: claims), None, None
            with self._trace.stage("claim", without="decide"):
                result = self._claimer.decide_and_claim(decide, left, group, project)
            return result
        except ClaimLost as error:
            lost = error.nodes
            raise
        finally:
            # The claim in flight has to end even if it is unknown whether the claim was made.
            with self._cache.lock:
                attempt.is_over = True
                self._cache.mark_stale({*attempt.unclaimed(result), *lost})
                self._cache.end_claim(attempt.in_flight)

    def _decide_and_begin(self, attempt: _Attempt, newest: NewestClaims) -> ClaimRequest | None:
        """Decide, and consume in the host cache what is about to be claimed."""
        trace, cache = self._trace, self._cache
        request = with_members(attempt.request, self._identity.uuids, newest.members)
        if newest.places is not None:
            request = replace(request, places=newest.places.of(request.spec.project_id))
        settings = self._claimer.settings
        # What plug-ins log is about this request, in the thread of the round, too.
        trace.caller.for_logging()
        with trace.stage("decide"), cache.locked(attempt.as_of_reading) as hosts:
            # The caller may have given up since the round looked; nobody would end the claim.
            if attempt.is_over:
                raise TooLate()
            if attempt.trust is not None:
                cache.set_trust(attempt.trust)
            self._contested = bool(cache.nodes_in_flight)
            decided_on = hosts.working_copy()
            decision = self._decider.decide(decided_on, hosts, request, trace)
            if settings.alternates:
                decision = claimable(decision)
            attempt.decision = decision
            answer = build_answer(decision, hosts, request.spec, self._decider.default_zone)
            if not answer:
                return None
            context = ClaimContext(self._identity, request, decision, decided_on)
            attempt.claims = build_claim_request(context, settings, cache)
            attempt.in_flight = cache.begin_claim(decision, request.spec)
        if self._placement is not None and self._placement.is_plain:
            answer = self._offered(answer)
        return attempt.offered(answer, settings.alternates)

    def _offered(self, answer: Answer) -> Answer:
        """Return an answer as Placement offers it, which is not asked about plain requests."""
        if self._allocator is None or self._placement is None:
            return answer
        return self._allocator.offer(self._placement, answer, self._deadline.left)

    def _allocate(self, answer: Answer, repeated: bool) -> None:
        """Allocate in Placement what was claimed; release the claims if that fails.

        While it is unknown whether Placement has written the allocations, the claims stay: the same
        request again finds both, or writes the allocations.
        """
        if self._allocator is None or self._placement is None:
            return
        uuids, left = self._identity.uuids, self._deadline.left
        try:
            with self._trace.stage("placement"):
                self._allocator.allocate(self._placement, self._answered, left, repeated=True)
                answers = dict(zip(uuids, answer, strict=True))
                self._allocator.allocate(self._placement, answers, left, repeated)
        except (ClaimLost, PlacementUnavailable, TooLate) as error:
            if not getattr(error, "may_be_done", False):
                self._claimer.release(uuids)
            raise

    def _confirmed_no_host(self, result: ClaimResult | None) -> bool:
        """Return whether it is certain that there is no host.

        It is not on an old cache, after claims were released, nor while others have claims in
        flight that may never be made: their nodes are read again.
        """
        if result is None and self._fresh:
            if not self._contested or self._rechecks >= MAX_RECHECKS:
                return True
            self._rechecks += 1
        self._cache.mark_stale(self._cache.nodes_in_flight)
        return False
