# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a request went, told to whoever watches when it is over."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from oslo_log import log

from scheduler.answers import Answer
from scheduler.decision.film import Frame
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Request
from scheduler.drivers import BaseDriver
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, NoValidHost, ServiceUnavailable

LOG = log.getLogger(__name__)

# How a request may end: with hosts, without; with nothing, as a driver may decide; with the answer
# of the same request before; with every race lost; too late; refused as it is; with an error.
PLACED, REFUSED, NOTHING, REPEATED = "placed", "refused", "nothing", "repeated"
GIVEN_UP, TOO_LATE, INVALID, FAILED = "given_up", "too_late", "invalid", "failed"
OUTCOMES = (PLACED, REFUSED, NOTHING, REPEATED, GIVEN_UP, TOO_LATE, INVALID, FAILED)
# Where a request spends its time: waiting to be handled, then with all attempts taken together.
STAGES = ("queue", "view", "decide", "claim")


@dataclass(slots=True)
class Course:
    """A request from when it was taken, on the monotonic clock.

    request, driver and decision are those of the last attempt, and frame is what it was made on,
    None without a film; frames are those of all attempts. conflicts counts the claims that others
    were faster with. seconds are by stage, those that were not reached left out; view_age is in
    seconds as well.
    """

    caller: RequestContext
    instance_uuids: Sequence[str | None]
    began: float
    outcome: str = FAILED
    request: Request | None = None
    driver: BaseDriver | None = None
    decision: Decision | None = None
    answer: Answer = field(default_factory=list)
    frame: Frame | None = None
    frames: list[Frame] = field(default_factory=list)
    conflicts: int = 0
    view_age: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    total: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time until the end of the block to a stage."""
        began = monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + monotonic() - began


class Witness(Protocol):
    """Whoever wants to know how requests went."""

    def ended(self, course: Course) -> None:
        """Take the course of a request that is over. The answer waits for it: be quick."""


@contextmanager
def witnessed(course: Course, witnesses: Iterable[Witness]) -> Iterator[None]:
    """Tell the witnesses about a request when it is over, however it ends."""
    try:
        yield
    except NoValidHost:
        course.outcome = GIVEN_UP if course.outcome == GIVEN_UP else REFUSED
        raise
    except InvalidInput:
        course.outcome = INVALID
        raise
    except ServiceUnavailable:
        course.outcome = TOO_LATE
        raise
    finally:
        course.total = monotonic() - course.began
        for witness in witnesses:
            _tell(witness, course)


def _tell(witness: Witness, course: Course) -> None:
    try:
        witness.ended(course)
    # The request has its answer, and the others want to know of it.
    except Exception:
        LOG.exception("%s cannot take in how a request went", type(witness).__name__)
