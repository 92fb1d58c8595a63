# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The attestation service at the other end of HTTPS, in the language of OpenAttestation.

Source: behaviour reference 1.7.
"""

import http.client
import json
import ssl
import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# Seconds for which the service may keep silent, and for the whole of an answer.
TIMEOUT = 10.0
MOST_BYTES = 32 * 1024 * 1024
SUCCESS = frozenset({200, 201, 202, 204})


class AttestationError(Exception):
    """The service gave no answer that can be used; the text is the cause."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the service is and how it is asked."""

    server: str
    port: int = 8443
    api_url: str = "/OpenAttestationWebServices/V1.0"
    ca_file: str | None = None
    auth_blob: str | None = field(default=None, repr=False)
    insecure: bool = False

    @property
    def path(self) -> str:
        prefix = self.api_url.strip("/")
        return f"/{prefix}/PollHosts" if prefix else "/PollHosts"

    @property
    def url(self) -> str:
        host = f"[{self.server}]" if ":" in self.server else self.server
        return f"https://{host}:{self.port}{self.path}"


class AttestationService:
    """Asks the service. Follows no redirects and uses no proxies.

    Making one raises OSError for a CA file that cannot be used.
    """

    def __init__(self, settings: Settings, timeout: float = TIMEOUT) -> None:
        self.url = settings.url
        self._settings = settings
        self._timeout = timeout
        self._tls = ssl.create_default_context(cafile=settings.ca_file)
        if settings.insecure:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE

    def poll(self, nodenames: Collection[str]) -> list[Any]:
        """Return what the service says of nodes, an entry for each. Raises AttestationError."""
        question = json.dumps({"count": len(nodenames), "hosts": [*nodenames]})
        try:
            with closing(self._connection()) as connection:
                connection.request("POST", self._settings.path, question, self._headers())
                return _entries(connection.getresponse(), time.monotonic() + self._timeout)
        # A name that no server can have fails as text.
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise AttestationError(str(error) or type(error).__name__) from error

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._settings.server, self._settings.port, timeout=self._timeout, context=self._tls
        )

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._settings.auth_blob:
            headers["x-auth-blob"] = self._settings.auth_blob
        return headers


def seconds(vtime: Any) -> float | None:
    """Return a time of the service as seconds since 1970, None for what is none.

    It is written as in ISO 8601 or as C's asctime() does; without a zone it is UTC.
    """
    if not isinstance(vtime, str):
        return None
    for read in (datetime.fromisoformat, _asctime):
        try:
            moment = read(vtime)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _asctime(text: str) -> datetime:
    return datetime.strptime(text, "%a %b %d %H:%M:%S %Y")


def _entries(response: http.client.HTTPResponse, deadline: float) -> list[Any]:
    if response.status not in SUCCESS:
        raise AttestationError(f"answers {response.status} {response.reason}")
    body = _body(response, deadline)
    if response.status == http.client.NO_CONTENT:
        return []
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AttestationError(f"answers no JSON: {error}") from error
    entries = answer.get("hosts") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise AttestationError("answers without a list of hosts")
    return entries


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read1(65536):
        body += chunk
        if len(body) > MOST_BYTES:
            raise AttestationError(f"answers more than {MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise AttestationError("does not end its answer in time")
    return bytes(body)
