# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request on its way to a claim: what is left to do, and what earlier attempts have shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inventory.orders import Identity
from scheduler.answers import Answer
from scheduler.claiming.orders import attempt_of
from scheduler.course import Course
from scheduler.decision.pipeline import Request
from scheduler.rpc.codec import selections_from_json
from scheduler.rpc.deadlines import Deadline


@dataclass(slots=True)
class Walk:
    """One request on its way to a claim.

    fresh asks for a view that has all that was committed until now; contested says that others had
    something reserved when it was decided. earlier are the answers that some of its instances have
    got before.
    """

    request: Request
    request_id: str | None
    digest: str
    course: Course
    deadline: Deadline
    fresh: bool = False
    contested: bool = False
    doubts: int = 0
    earlier: dict[str, str | None] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """What tells the request from all others; without an id not all instances have names."""
        uuids = [uuid for uuid in self.request.instance_uuids if uuid]
        return Identity(self.request_id, self.digest, uuids, attempt_of(self.request.spec))

    def narrow(self, answers: Mapping[str, str | None]) -> None:
        """Go on for the instances that have no answer yet."""
        self.earlier |= answers
        left = [uuid for uuid in self.request.instance_uuids if uuid not in answers]
        self.request = replace(self.request, instance_uuids=left)

    def whole(self, answer: Answer) -> Answer:
        """Return an answer with those that were given before, in the order of the request."""
        if not self.earlier:
            return answer
        found = iter(answer)
        return [
            selections_from_json(self.earlier[uuid] or "[]")
            if uuid in self.earlier
            else next(found)
            for uuid in self.course.instance_uuids
        ]
