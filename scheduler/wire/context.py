# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The context of a request: who sent it, in any release's words, and until when it is of use."""

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from oslo_context import context as oslo

_LONGEST = 255
# In the context of a message. What comes over the wire is never a Deadline.
_DEADLINE = "berthmaster.deadline"
_SIZE = "berthmaster.size"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A caller's context without its token and service catalog.

    ``client_timeout`` is after how many seconds without a heartbeat the caller gives up.
    """

    request_id: str | None = None
    global_request_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    user_name: str | None = None
    project_name: str | None = None
    domain_id: str | None = None
    user_domain_id: str | None = None
    project_domain_id: str | None = None
    is_admin: bool = False
    roles: tuple[str, ...] = ()
    client_timeout: int | None = None

    @classmethod
    def from_dict(cls, received: Any) -> "RequestContext":
        """Decode a context; ignore unknown keys, and values of the wrong type."""
        given = received if isinstance(received, Mapping) else {}
        texts = {
            ours: next(filter(None, (_text(given.get(name)) for name in names)), None)
            for ours, names in _NAMES.items()
        }
        roles = given.get("roles")
        timeout = given.get("client_timeout")
        return cls(
            **texts,
            is_admin=given.get("is_admin") is True,
            roles=tuple(filter(_text, roles)) if isinstance(roles, (list, tuple)) else (),
            client_timeout=timeout if type(timeout) is int else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the context as conductors of all releases send it, under all names."""
        context: dict[str, Any] = {
            name: getattr(self, ours) for ours, names in _NAMES.items() for name in names
        }
        return context | {"is_admin": self.is_admin, "roles": list(self.roles)}

    def redacted_copy(self) -> "RequestContext":
        """Return the context for notifications, as oslo.messaging requires: it has no secrets."""
        return self

    def for_logging(self) -> oslo.RequestContext:
        """Return the context for oslo.log, after making it the current one of this thread."""
        known = {name: getattr(self, name) for name in _NAMES}
        return oslo.RequestContext(
            **known, is_admin=self.is_admin, roles=list(self.roles), overwrite=True
        )


# Attribute: its names on the wire, Nova's present one and those of Newton.
_NAMES = {
    "request_id": ("request_id",),
    "global_request_id": ("global_request_id",),
    "user_id": ("user_id", "user"),
    "project_id": ("project_id", "project", "tenant"),
    "user_name": ("user_name",),
    "project_name": ("project_name",),
    "domain_id": ("domain",),
    "user_domain_id": ("user_domain",),
    "project_domain_id": ("project_domain",),
}


def _text(value: object) -> str | None:
    """Return the value if it is a text fit for log lines and database columns, else None."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None


def stamp_size(context: MutableMapping[str, Any], size: int) -> None:
    """Put the number of its bytes into the context of a message."""
    context[_SIZE] = size


def size_of(context: Mapping[str, Any]) -> int:
    """Return how many bytes the message with this context has, 0 where it came without a broker."""
    size = context.get(_SIZE)
    return size if isinstance(size, int) else 0


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request was received, by the monotonic clock, and how many seconds it is of use.

    A caller's timeout travels as the expiration of its message. The broker drops what expires in a
    queue; that clock stops when the message is handed out, so from then on it is ours to watch. How
    long it waited in the broker is not known here: the caller may give up earlier, never later.
    """

    received: float
    seconds: float = math.inf

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> "Deadline":
        """Return the deadline in the context of a request, infinite without one."""
        found = context.get(_DEADLINE)
        return found if isinstance(found, cls) else cls(monotonic())

    @classmethod
    def stamp(
        cls, context: MutableMapping[str, Any], seconds: float, received: float | None = None
    ) -> "Deadline":
        """Put a deadline into the context of a message, received just now, and return it."""
        at = monotonic() if received is None else received
        context[_DEADLINE] = deadline = cls(at, seconds)
        return deadline

    def waited(self) -> float:
        """Return the seconds since the request was received."""
        return monotonic() - self.received

    def left(self) -> float:
        """Return the seconds during which an answer is of use, negative after the deadline."""
        return self.seconds - self.waited()

    def passed(self) -> bool:
        """Return whether the caller has given up."""
        return self.left() <= 0
