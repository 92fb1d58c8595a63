# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A call as it came from the broker, as data; it is answered once, from any thread."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import time
from typing import Any, NamedTuple

from oslo_log import log

from inventory.objects.field_types import shown
from scheduler.wire.context import Deadline, RequestContext

LOG = log.getLogger(__name__)


class Answer(NamedTuple):
    """What is sent to a caller: a result, or the error in its place.

    An error that is expected, such as NoValidHost, is not logged.
    """

    result: Any = None
    error: BaseException | None = None
    is_expected: bool = False


@dataclass(eq=False, slots=True)
class Call:
    """A message to an endpoint; method, version, namespace and args are as they came, unchecked.

    A cast is a call whose sender waits for no answer: it is answered like any other, which tells
    that it is done, and nothing is sent. Of several answers the first counts.
    """

    method: Any
    version: Any
    namespace: Any
    args: Any
    # As endpoints get it, with the deadline and the size.
    context: dict[str, Any]
    deadline: Deadline
    size: int
    # Both None of a cast.
    message_id: str | None
    reply_queue: str | None
    # After how many seconds without a heartbeat the caller gives up, as it says itself.
    silence: Any
    # How many seconds it waited in the broker, and after how many the caller gives up.
    queued: float
    expiration: float
    # Told of each answer; None in its place where the call is dropped.
    on_answer: Callable[["Call", Answer | None], None]

    def reply(self, result: Any) -> None:
        """Answer with what JSON can say, or what oslo.serialization makes of it."""
        self.on_answer(self, Answer(result))

    def fail(self, error: BaseException, is_expected: bool = False) -> None:
        """Answer with an error, which is logged unless it is expected."""
        self.on_answer(self, Answer(None, error, is_expected))

    def drop_late(self) -> bool:
        """Drop the call if its caller has given up; return whether that was so."""
        limit = min(self.deadline.seconds, silence_limit(self.silence) - self.queued)
        waited = self.deadline.waited()
        if waited < limit:
            return False
        log_late(self.method, self.context, waited + self.queued, limit + self.queued)
        self.on_answer(self, None)
        return True


def seconds_queued(stamped: float | None, expiration: float) -> float:
    """Return for how long the broker had a message that it stamped, 0 where it does not say."""
    waited = time() - stamped if stamped is not None else 0.0
    # The broker hands out nothing that has expired: then its clock differs from this one.
    return waited if 0 < waited < expiration else 0.0


def silence_limit(silence: Any) -> float:
    """Return after how many seconds without a heartbeat a caller since Stein gives up."""
    return silence if isinstance(silence, (int, float)) and silence > 0 else math.inf


def log_late(method: Any, context: Any, waited: float, limit: float) -> None:
    """Log that a call is dropped; its caller gave up after so many seconds."""
    caller = RequestContext.from_dict(context)
    caller.for_logging()
    LOG.info(
        "Dropped the call %s of %s: it waited %.1f s to be handled, and its caller gave up after"
        " %.1f s",
        shown(method),
        caller.request_id,
        waited,
        limit,
    )
