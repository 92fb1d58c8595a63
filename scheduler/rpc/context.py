# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""On whose behalf a request comes, read from the context of a caller of any release."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oslo_context import context as oslo

_LONGEST = 255


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The part of a caller's context that is worth keeping: never its token or service catalog.

    ``client_timeout`` is the period in seconds within which the caller expects a sign of life.
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
        """Read a context; unknown keys are ignored, and what has the wrong type counts as unset."""
        given = received if isinstance(received, Mapping) else {}
        texts: dict[str, str] = {}
        for ours, names in _NAMES.items():
            for name in names:
                text = _text(given.get(name))
                if text is not None:
                    texts[ours] = text
                    break
        roles = given.get("roles")
        timeout = given.get("client_timeout")
        return cls(
            **texts,
            is_admin=given.get("is_admin") is True,
            roles=tuple(filter(_text, roles)) if isinstance(roles, (list, tuple)) else (),
            client_timeout=timeout if type(timeout) is int else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the context as conductors of all releases send it, under every name."""
        context: dict[str, Any] = {
            name: getattr(self, ours) for ours, names in _NAMES.items() for name in names
        }
        return context | {"is_admin": self.is_admin, "roles": list(self.roles)}

    def redacted_copy(self) -> "RequestContext":
        """Return what may leave with a notification, as oslo.messaging asks: all, see above."""
        return self

    def for_logging(self) -> oslo.RequestContext:
        """Return the context that oslo.log prints, and make it the current one of this thread."""
        known = {name: getattr(self, name) for name in _NAMES}
        return oslo.RequestContext(
            **known, is_admin=self.is_admin, roles=list(self.roles), overwrite=True
        )


# Our name, then those of the dialects: Nova's today, and Newton's where it differs.
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
    """Return a text that is fit for a log line and a database column."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None
