# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How far nodes are to be trusted, for TrustedFilter: as the attestation service said of late.

Source: behaviour reference 1.7. No answer, or one that cannot be read, leaves every node unknown.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any

from oslo_config import cfg
from oslo_log import log

from scheduler.attestation.service import (
    AttestationError,
    AttestationService,
    Settings,
    seconds,
)
from scheduler.decision.pipeline import Plan
from scheduler.filters.trusted import UNKNOWN, TrustedFilter
from scheduler.objects.request_spec import RequestSpec
from scheduler.plugins import Option, PluginError

LOG = log.getLogger(__name__)
# Seconds between two calls, so that requests do not queue behind a dead service, nor behind nodes
# that the service does not know.
PAUSE = 5.0
_GROUP = "trusted_computing"
_NEVER = float("-inf")
# The service may put much into the reason of a status.
_CAUSE_CHARACTERS = 200


class Attestation:
    """Remembers what the service said for valid_for seconds. Many threads may use it."""

    def __init__(
        self, service: AttestationService, valid_for: float = 60.0, pause: float = PAUSE
    ) -> None:
        self._service = service
        self._valid_for = valid_for
        self._pause = pause
        self._lock = Lock()
        self._levels: dict[str, str] = {}
        # In seconds since 1970, and on the monotonic clock.
        self._valid_until = self._not_before = _NEVER
        self._failure = ""

    def levels(self, nodenames: Collection[str]) -> dict[str, str]:
        """Return the levels of trust of nodes, not to be changed; those without one are unknown.

        When what is known of any node is too old, the service is asked about all, in one call.
        """
        with self._lock:
            known = time.time() < self._valid_until and self._levels.keys() >= {*nodenames}
            if not known and time.monotonic() >= self._not_before:
                self._poll(nodenames)
            return self._levels

    def _poll(self, nodenames: Collection[str]) -> None:
        # What the service does not speak of was never attested.
        found = dict.fromkeys(nodenames, (UNKNOWN, 0.0))
        failure, pause = "", min(self._pause, self._valid_for)
        try:
            entries = self._service.poll(nodenames)
        except AttestationError as error:
            failure, pause = str(error)[:_CAUSE_CHARACTERS], self._pause
        else:
            found |= _attested(entries, found.keys())
        self._levels = {name: level for name, (level, _) in found.items()}
        now = time.time()
        # A clock that is ahead must not make a level last.
        oldest = min((moment for _, moment in found.values()), default=now)
        self._valid_until = min(oldest, now) + self._valid_for
        self._not_before = time.monotonic() + pause
        self._tell(failure)

    def _tell(self, failure: str) -> None:
        """Log a failure, but not again while calls fail for the same reason."""
        if failure and failure != self._failure:
            LOG.warning(
                "Attestation service %s: %s. No node is trusted until it answers",
                self._service.url,
                failure,
            )
        elif self._failure and not failure:
            LOG.info("Attestation service %s answers again", self._service.url)
        self._failure = failure


def levels_for(
    spec: RequestSpec,
    plan: Plan,
    attestation: Attestation | None,
    nodenames: Callable[[], Collection[str]],
) -> Mapping[str, str] | None:
    """Return the levels of trust of all nodes if a request asks about them, else None.

    nodenames is called only if it does.
    """
    # TrustedFilter is not asked then.
    if spec.is_rebuild or spec.has_forced_target:
        return None
    if not any(each.name == TrustedFilter.__name__ and each.applies(spec) for each in plan.filters):
        return None
    return attestation.levels(nodenames()) if attestation else {}


def load(conf: cfg.ConfigOpts) -> Attestation | None:
    """Return what asks the configured service, None without one. Raises PluginError."""
    options = conf[_GROUP]
    settings = Settings(
        options.attestation_server or "",
        options.attestation_port,
        options.attestation_api_url,
        options.attestation_server_ca_file,
        options.attestation_auth_blob,
        options.attestation_insecure_ssl,
    )
    if not settings.server:
        if TrustedFilter.__name__ in conf.filter_scheduler.enabled_filters:
            LOG.warning("TrustedFilter: no node is trusted without [%s] attestation_server", _GROUP)
        return None
    if settings.insecure:
        LOG.warning(
            "[%s] attestation_insecure_ssl: whoever answers for %s decides which nodes are trusted",
            _GROUP,
            settings.server,
        )
    return Attestation(_service(conf, settings), options.attestation_auth_timeout)


def _service(conf: cfg.ConfigOpts, settings: Settings) -> AttestationService:
    blob = settings.auth_blob or ""
    if not (blob.isascii() and blob.isprintable()):
        option = Option.of(conf, _GROUP, "attestation_auth_blob")
        raise PluginError(option, "***", "must be printable ASCII, as it is sent in a header")
    try:
        return AttestationService(settings)
    except OSError as error:
        option = Option.of(conf, _GROUP, "attestation_server_ca_file")
        raise PluginError(option, settings.ca_file or "", str(error)) from error


def _attested(
    entries: Iterable[Any], asked: Collection[str]
) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield (node, (level, when it was attested)) of the nodes in an answer."""
    for entry in entries:
        name = entry.get("host_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in asked:
            continue
        level, moment = entry.get("trust_lvl"), seconds(entry.get("vtime"))
        if moment is None or not isinstance(level, str):
            yield name, (UNKNOWN, time.time())
        else:
            yield name, (level, moment)
