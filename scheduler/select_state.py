# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request between its attempts to claim, and one of these."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inventory.claims.types import ClaimRequest, ClaimResult, Identity
from scheduler.claims.claim_request import request_identity, with_answers
from scheduler.claims.placement_request import PlacementRequest
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.objects.selection import Answer, Selection
from scheduler.request_trace import RequestTrace
from scheduler.wire.context import Deadline
from scheduler.wire.replies import selections_from_json


@dataclass(slots=True)
class SelectState:
    """A request between its attempts to claim.

    fresh asks for a cache with all that was committed until now. contested says that others had
    reservations when it was decided. answered has the answers that some instances got before.
    placement is what it asks of Placement, if claims are allocated there.
    """

    request: Request
    digest: str
    trace: RequestTrace
    deadline: Deadline
    fresh: bool = False
    contested: bool = False
    rechecks: int = 0
    answered: dict[str, str | None] = field(default_factory=dict)
    placement: PlacementRequest | None = None

    @property
    def identity(self) -> Identity:
        """What distinguishes the request from all others."""
        return request_identity(self.request, self.trace.caller.request_id, self.digest)

    @property
    def earlier(self) -> dict[str, list[Selection]]:
        """The answers that some instances got before."""
        return {uuid: selections_from_json(each or "[]") for uuid, each in self.answered.items()}

    def complete(self, answer: Answer) -> Answer:
        """Return an answer with those that were given before, in the order of the request."""
        if not self.answered:
            return answer
        rest, earlier = iter(answer), self.earlier
        return [
            earlier[uuid] if uuid in earlier else next(rest) for uuid in self.trace.instance_uuids
        ]


@dataclass(slots=True)
class Attempt:
    """One attempt: what is decided with, and then what was decided and is to be claimed.

    as_of_reading: see HostCache.locked(). trust has the levels of trust by node, if the request
    needs them. reserved are the ids of the nodes on which the host cache holds a reservation. After
    is_over nothing is decided any more.
    """

    request: Request
    as_of_reading: bool
    trust: Mapping[str, str] | None = None
    decision: Decision | None = None
    answer: Answer = field(default_factory=list)
    claims: ClaimRequest | None = None
    reserved: Collection[int] = ()
    is_over: bool = False

    def offered(self, answer: Answer, alternates: bool) -> ClaimRequest | None:
        """Return what is to be claimed for an answer, which this becomes; None for nothing."""
        self.answer = answer
        return with_answers(self.claims, answer, alternates) if self.claims else None

    def unclaimed(self, result: ClaimResult | None) -> set[int]:
        """Return the nodes that have to be read again, as they were to be claimed and were not."""
        claims = self.claims.claims if self.claims else ()
        return {each.node_id for each in claims} - {*(result.nodes if result else ())}
