# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request between its attempts to claim."""

from dataclasses import dataclass, field

from inventory.claims.types import Identity
from scheduler.claims.claim_request import request_identity
from scheduler.claims.placement_request import PlacementRequest
from scheduler.decision.pipeline import Request
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
