# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""When a call was taken from the broker, and from when on nobody waits for its answer.

A caller's timeout travels as the expiration of its message. The broker drops what expires in a
queue; that clock stops when the message is handed out, so from then on it is ours to watch. How
long it waited in the broker is not known here: the caller may be gone earlier, never later.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

# In the context of a message. What comes over the wire is no Deadline.
_KEY = "berthmaster.deadline"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A request was taken at a moment of the monotonic clock, and is in vain some seconds later."""

    taken: float
    seconds: float = math.inf

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> "Deadline":
        """Return the deadline of a request by its context; what has none gets one for ever."""
        found = context.get(_KEY)
        return found if isinstance(found, cls) else cls(monotonic())

    def waited(self) -> float:
        """Return the seconds since the request was taken."""
        return monotonic() - self.taken

    def left(self) -> float:
        """Return the seconds during which an answer is still of use, less than 0 when over."""
        return self.seconds - self.waited()

    def passed(self) -> bool:
        """Tell whether nobody waits any more."""
        return self.left() <= 0


def stamp(incoming: Any, longest: float = math.inf) -> Deadline:
    """Put a deadline into the context of a message that was taken just now, and return it.

    It is when the message expires, or after the longest seconds if these are fewer. A cast has
    none: nobody gives up on it, and the broker keeps it for as long.
    """
    seconds = math.inf
    # Transports without it are in this process, and their callers with them.
    if getattr(incoming, "reply_q", None):
        seconds = min(longest, _expiration(incoming.message))
    deadline = Deadline(monotonic(), seconds)
    incoming.ctxt[_KEY] = deadline
    return deadline


def _expiration(message: Any) -> float:
    """Return the seconds after which a message of the broker expires.

    oslo.messaging keeps its properties to itself; without them it is as if there was no end.
    """
    properties = getattr(getattr(message, "_raw_message", None), "properties", None) or {}
    try:
        # Milliseconds, as text.
        return int(properties["expiration"]) / 1000
    except (KeyError, TypeError, ValueError, OverflowError):
        return math.inf
