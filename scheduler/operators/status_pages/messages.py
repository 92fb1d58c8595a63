# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a scheduler and its page process say to each other, over a pair of sockets for each request.

The request is one message of JSON with a socket. On that comes the answer: a line of JSON with
status and headers, then the body up to the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# Bytes of a request, and of an answer.
LONGEST_REQUEST = 16_384
LONGEST_ANSWER = 2**25
HTML = "text/html; charset=utf-8"
# Of an answer with status 503; in seconds.
RETRY_AFTER = ("Retry-After", "5")
# No script runs, whatever is in a name; a page loads nothing but our own style and icon.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class InvalidMessage(ValueError):
    """The bytes are no message of ours."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; until is when nobody waits for it any more, on the monotonic clock.

    health is what /healthz says, for pages that show it.
    """

    path: str
    query: str = ""
    may_compress: bool = False
    until: float = float("inf")
    health: Mapping[str, Any] | None = None

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PageRequest":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer for HTTP; status is such as "200 OK"."""

    status: str
    headers: Sequence[tuple[str, str]]
    body: bytes = b""

    def to_bytes(self) -> bytes:
        head = {"status": self.status, "headers": [*self.headers]}
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def from_bytes(cls, data: bytes) -> "PageAnswer":
        """Raise InvalidMessage for an answer that was cut off in its head."""
        head, newline, body = data.partition(b"\n")
        if not newline:
            raise InvalidMessage("the answer was cut off")
        found = json.loads(head)
        headers = [(str(name), str(value)) for name, value in found["headers"]]
        return cls(str(found["status"]), headers, body)
