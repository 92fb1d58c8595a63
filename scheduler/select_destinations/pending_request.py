# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request whose instances are to be claimed, as data: from its call until its answer."""

import math
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from inventory.claims.types import ClaimLost, ClaimRequest, ClaimResult, Identity
from scheduler.claims.allocator import Allocator
from scheduler.claims.claim_request import request_identity, set_answers
from scheduler.claims.claimer import Claimer, TimedReads
from scheduler.claims.placement_request import PlacementRequest
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.objects.selection import Answer, Selection
from scheduler.request_trace import RequestTrace
from scheduler.trust import Attestation
from scheduler.wire.context import Deadline


@dataclass(frozen=True, slots=True)
class Settings:
    """What a reload replaces, all at once; a request keeps those that it began with.

    Without a claimer resources are consumed in the host cache only. With an allocator claims are
    allocated in Placement. With a snapshot log the observers see what was decided on.
    """

    driver: BaseDriver
    claimer: Claimer | None = None
    allocator: Allocator | None = None
    attestation: Attestation | None = None
    snapshot_log: SnapshotLog | None = None


@dataclass(slots=True)
class Attempt:
    """One attempt: what is decided with, what was decided and is claimed, and what came of it.

    as_of_reading: see HostCache.locked(). trust has the levels of trust by node, if the request
    needs them. is_contested: others had claims in flight when it was decided. in_flight are the ids
    of the nodes on which the host cache has the claim. queued_at is a time of the monotonic clock;
    seconds_left are those until the deadline when it was queued, and seconds_deciding those that
    the request had been decided for by then. After is_over nothing is decided any more.
    """

    request: Request
    as_of_reading: bool = False
    trust: Mapping[str, str] | None = None
    decision: Decision | None = None
    answer: Answer = field(default_factory=list)
    claims: ClaimRequest | None = None
    is_contested: bool = False
    in_flight: Collection[int] = ()
    queued_at: float = math.inf
    seconds_left: float = math.inf
    seconds_deciding: float = 0.0
    result: ClaimResult | None = None
    error: BaseException | None = None
    is_over: bool = False

    def set_answer(self, answer: Answer, alternates: bool) -> None:
        """Set the answer, which is claimed with it."""
        self.answer = answer
        if self.claims is not None:
            set_answers(self.claims, answer, alternates)

    def nodes_to_read(self) -> set[int]:
        """Return the nodes that were to be claimed and were not, or on which others were first."""
        nodes = {*self.error.nodes} if isinstance(self.error, ClaimLost) else set[int]()
        if self.claims is None:
            return nodes
        claimed = self.result.nodes if self.result else ()
        nodes |= {claim.node_id for claim in self.claims.claims} - {*claimed}
        if self.result is None or self.result.repeated:
            standbys = self.claims.standbys
            nodes |= {each.node_id for each in standbys if each.node_id is not None}
        return nodes


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request between its attempts to claim; one thread works on it at a time.

    request has the instances without an answer yet, and answered the answers that others got
    before. is_fresh: it needs a host cache with all that was committed until now. rechecks counts
    how often it was decided again since claims of others were in flight. The future gets the
    answer or the error.
    """

    request: Request
    digest: str
    deadline: Deadline
    trace: RequestTrace
    settings: Settings
    claimer: Claimer
    reads: TimedReads
    allocator: Allocator | None = None
    placement: PlacementRequest | None = None
    answered: dict[str, list[Selection]] = field(default_factory=dict)
    is_fresh: bool = False
    rechecks: int = 0
    attempt: Attempt = field(init=False)
    future: "Future[Answer]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.attempt = Attempt(self.request)

    @property
    def identity(self) -> Identity:
        """What distinguishes the request from all others."""
        request_id, answered = self.trace.caller.request_id, [*self.answered]
        return request_identity(self.request, request_id, self.digest, answered)

    @property
    def offers_at_once(self) -> bool:
        """Whether Placement need not be asked about what was decided, which takes time."""
        return self.placement is not None and self.placement.is_plain

    def offer(self, answer: Answer) -> Answer:
        """Return an answer as Placement offers it; raises what Allocator.offer() does."""
        if self.allocator is None or self.placement is None:
            return answer
        return self.allocator.offer(self.placement, answer, self.deadline.left)

    def begin_attempt(self) -> Attempt:
        """Return a new attempt with what is known about the request now."""
        spec, settings = self.request.spec, self.claimer.settings
        request = replace(
            self.request,
            spec=self.placement.restrict(spec) if self.placement else spec,
            # With the same seed as before it would compete for the same hosts again.
            seed=self.request.seed + self.trace.conflicts,
            choices=self.claimer.width.choices,
            holds_alternates=settings.alternates,
        )
        is_old = self.settings.driver.view_max_age is not None and not self.is_fresh
        self.attempt = Attempt(request, as_of_reading=is_old)
        return self.attempt

    def decide_again(self) -> None:
        """Let the next attempt be about the instances without an answer, on fresh hosts."""
        rest = [uuid for uuid in self.trace.instance_uuids if uuid not in self.answered]
        self.request, self.is_fresh = replace(self.request, instance_uuids=rest), True

    def complete_answer(self, answer: Answer) -> Answer:
        """Return an answer with those that were given before, in the order of the request."""
        if not self.answered:
            return answer
        rest, earlier = iter(answer), self.answered
        return [
            earlier[uuid] if uuid in earlier else next(rest) for uuid in self.trace.instance_uuids
        ]
