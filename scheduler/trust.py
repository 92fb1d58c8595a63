# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The levels of trust of nodes: polled from an attestation service over HTTPS, and cached."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from oslo_config import cfg
from oslo_log import log

from conf.daemon.state_logger import StateLogger
from scheduler.decision.pipeline import Plan, filters_for
from scheduler.filters.trusted import UNKNOWN, TrustedFilter
from scheduler.objects.request_spec import RequestSpec
from scheduler.plugins import Option, PluginError

LOG = log.getLogger(__name__)
# Seconds for which the service may be silent, and for the whole of an answer.
TIMEOUT = 10.0
MAX_BYTES = 32 * 1024 * 1024
SUCCESS = frozenset({200, 201, 202, 204})
# Seconds between two calls: requests must not queue behind a dead service, nor for nodes that the
# service does not know.
PAUSE = 5.0
# How much of the reason of a status is logged.
_MAX_CAUSE = 200
_GROUP = "trusted_computing"
_ASCTIME = "%a %b %d %H:%M:%S %Y"


class AttestationError(Exception):
    """The service gave no usable answer; the text is the cause."""


class AttestationService:
    """A client of the configured service. It follows no redirects and uses no proxies.

    Creating it raises OSError for a CA file that cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts, timeout: float = TIMEOUT) -> None:
        options = conf[_GROUP]
        host, prefix = options.attestation_server, options.attestation_api_url.strip("/")
        self._address = host, options.attestation_port
        self._path = f"/{prefix}/PollHosts" if prefix else "/PollHosts"
        name = f"[{host}]" if ":" in host else host
        self.url = f"https://{name}:{options.attestation_port}{self._path}"
        self._auth_blob = options.attestation_auth_blob
        self._timeout = timeout
        self._tls = ssl.create_default_context(cafile=options.attestation_server_ca_file)
        if options.attestation_insecure_ssl:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE

    def poll(self, nodenames: Collection[str]) -> list[Any]:
        """Return the entries that the service has for nodes. Raises AttestationError."""
        body = json.dumps({"count": len(nodenames), "hosts": [*nodenames]})
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._auth_blob:
            headers["x-auth-blob"] = self._auth_blob
        try:
            connection = http.client.HTTPSConnection(
                *self._address, timeout=self._timeout, context=self._tls
            )
            with closing(connection):
                connection.request("POST", self._path, body, headers)
                return _entries(connection.getresponse(), time.monotonic() + self._timeout)
        # A name that no server can have raises UnicodeError.
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise AttestationError(str(error) or type(error).__name__) from error


def seconds(vtime: Any) -> float | None:
    """Return a time of the service as seconds since 1970, None if it is not one.

    It is in ISO 8601 or in the form of C's asctime(); without a zone it is UTC.
    """
    if not isinstance(vtime, str):
        return None
    for parse in (datetime.fromisoformat, lambda text: datetime.strptime(text, _ASCTIME)):
        try:
            parsed = parse(vtime)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _entries(response: http.client.HTTPResponse, deadline: float) -> list[Any]:
    if response.status not in SUCCESS:
        raise AttestationError(f"answers {response.status} {response.reason}")
    body = bytearray()
    while chunk := response.read1(65536):
        body += chunk
        if len(body) > MAX_BYTES:
            raise AttestationError(f"answers more than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise AttestationError("does not end its answer in time")
    if response.status == http.client.NO_CONTENT:
        return []
    try:
        answer = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise AttestationError(f"answers with something that is not JSON: {error}") from error
    entries = answer.get("hosts") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise AttestationError("answers without a list of hosts")
    return entries


class Attestation:
    """Cache the answers of the service for valid_for seconds. Many threads may use it."""

    def __init__(
        self, service: AttestationService, valid_for: float = 60.0, pause: float = PAUSE
    ) -> None:
        self._service = service
        self._valid_for = valid_for
        self._pause = pause
        self._lock = Lock()
        self._levels: dict[str, str] = {}
        # In seconds since 1970, and on the monotonic clock.
        self._valid_until = self._not_before = float("-inf")
        self._state = StateLogger(LOG, f"Attestation service {service.url}")

    def levels(self, nodenames: Collection[str]) -> dict[str, str]:
        """Return the levels of trust of nodes, not to be changed; missing nodes are unknown.

        If that of any node is outdated or missing, all nodes are polled in one call.
        """
        if not self._has(nodenames):
            self._refresh(nodenames)
        return self._levels

    def _has(self, nodenames: Collection[str]) -> bool:
        return time.time() < self._valid_until and self._levels.keys() >= {*nodenames}

    def _refresh(self, nodenames: Collection[str]) -> None:
        with self._lock:
            if not self._has(nodenames) and time.monotonic() >= self._not_before:
                self._poll(nodenames)

    def _poll(self, nodenames: Collection[str]) -> None:
        # Nodes that the service does not return were never attested.
        found = dict.fromkeys(nodenames, (UNKNOWN, 0.0))
        failure, pause = "", min(self._pause, self._valid_for)
        try:
            entries = self._service.poll(nodenames)
        except AttestationError as error:
            failure, pause = str(error)[:_MAX_CAUSE], self._pause
        else:
            found |= _attested(entries, found.keys())
        self._levels = {name: level for name, (level, _) in found.items()}
        now = time.time()
        # A clock that is ahead must not make a level last.
        oldest = min((attested for _, attested in found.values()), default=now)
        self._valid_until = min(oldest, now) + self._valid_for
        self._not_before = time.monotonic() + pause
        if failure:
            text = "Attestation service %s: %s. No node is trusted until it answers"
            self._state.failed(failure, text, self._service.url, failure)
        else:
            self._state.recovered()


def _attested(
    entries: Iterable[Any], nodenames: Collection[str]
) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield (node, (level, when it was attested)) of the nodes in an answer."""
    for entry in entries:
        name = entry.get("host_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in nodenames:
            continue
        level, attested = entry.get("trust_lvl"), seconds(entry.get("vtime"))
        if attested is None or not isinstance(level, str):
            yield name, (UNKNOWN, time.time())
        else:
            yield name, (level, attested)


def levels_for(
    spec: RequestSpec,
    plan: Plan,
    attestation: Attestation | None,
    nodenames: Callable[[], Collection[str]],
) -> Mapping[str, str] | None:
    """Return the levels of trust of nodenames() if a request needs TrustedFilter, else None."""
    trusted = [each for each in plan.filters if each.name == TrustedFilter.__name__]
    if not any(each.applies(spec) for each in filters_for(trusted, spec, 0)):
        return None
    return attestation.levels(nodenames()) if attestation else {}


def load(conf: cfg.ConfigOpts) -> Attestation | None:
    """Return the cache of the configured service, None without one. Raises PluginError."""
    options = conf[_GROUP]
    if not options.attestation_server:
        if TrustedFilter.__name__ in conf.filter_scheduler.enabled_filters:
            LOG.warning("TrustedFilter: no node is trusted without [%s] attestation_server", _GROUP)
        return None
    if options.attestation_insecure_ssl:
        LOG.warning(
            "[%s] attestation_insecure_ssl is on: any server that answers for %s decides which"
            " nodes are trusted",
            _GROUP,
            options.attestation_server,
        )
    blob = options.attestation_auth_blob or ""
    if not (blob.isascii() and blob.isprintable()):
        option = Option.of(conf, _GROUP, "attestation_auth_blob")
        raise PluginError(option, "***", "must be printable ASCII, as it is sent in a header")
    try:
        service = AttestationService(conf)
    except OSError as error:
        option = Option.of(conf, _GROUP, "attestation_server_ca_file")
        file = options.attestation_server_ca_file or ""
        raise PluginError(option, file, str(error)) from error
    return Attestation(service, options.attestation_auth_timeout)
