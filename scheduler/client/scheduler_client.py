# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Call schedulers, for conductors written in Python and for the operator's command."""

import time
from collections.abc import Sequence
from typing import Any

import kombu.exceptions
import oslo_messaging
from oslo_config import cfg

from conf import loading, upgrade_levels
from conf.loading import ConfigError
from inventory.objects.object_schema import Fields
from scheduler.client.agent_client import LEAST_WAIT, NAMESPACE, VERSION, silent_broker
from scheduler.messaging.broker_check import probe_broker
from scheduler.messaging.messaging_options import checked_transport
from scheduler.messaging.transport import RECONNECTIONS
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoAnswer, ServiceUnavailable, from_remote
from scheduler.wire.legacy_requests import SENT, Version, downgraded, newest_version
from scheduler.wire.replies import decode_destinations

# The most hosts in an explanation.
MAX_EXPLAINED = 10_000
# What oslo.messaging raises, and what it lets through from the libraries below it.
_BROKER_FAILURES = (
    oslo_messaging.MessagingException,
    kombu.exceptions.KombuError,
    kombu.exceptions.ConnectionError,
    kombu.exceptions.ChannelError,
    OSError,
)


class SchedulerClient:
    """Calls any one of the schedulers at the broker.

    Requests are in the newest version that [upgrade_levels] scheduler allows. conf must be the
    process-wide oslo_config.cfg.CONF: oslo.messaging works with no other. Raise ConfigError or
    UnusableTransport, in one line, for unusable options. In a process that uses eventlet or
    oslo.service, choose the backend before this is imported.
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport = None) -> None:
        self._conf = conf
        self._version = _version(conf)
        self._transport = transport or checked_transport(conf)
        self._probed = False
        major, minor = self._version
        target = oslo_messaging.Target(topic="scheduler", version=f"{major}.{minor}")
        self._client = oslo_messaging.get_rpc_client(self._transport, target)

    def select_destinations(
        self,
        context: RequestContext,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        return_alternates: bool = False,
        timeout: float | None = None,
    ) -> list[list[Selection]]:
        """Return for each instance the destination, followed by alternates if requested.

        Raise NoValidHost, InvalidInput, or ServiceUnavailable when no scheduler answers within
        timeout seconds, by default rpc_response_timeout; the request may be repeated with the same
        uuids then.
        """
        request = SelectArguments(spec, list(instance_uuids), True, return_alternates)
        return self.select_encoded(context, encode_select_arguments(request), timeout)

    def select_encoded(
        self, context: RequestContext, arguments: Fields, timeout: float | None
    ) -> list[list[Selection]]:
        """Do the same with encoded arguments, which make the same request each time."""
        arguments = downgraded(arguments, self._version)
        reply = self._call(context, "select_destinations", arguments, timeout)
        return decode_destinations(reply)

    def explain_destinations(
        self,
        context: RequestContext,
        request: SelectArguments,
        timeout: float | None = None,
        **extent: Any,
    ) -> dict[str, Any]:
        """Return the decision for a request without claims, and why: {decision, explanation}.

        extent are most (maximum of hosts to report), hosts (their names) and near (maximum of near
        misses). Raise as select_destinations() does, and Forbidden unless the context is that of an
        administrator.
        """
        ours = {"namespace": NAMESPACE, "version": VERSION}
        arguments = encode_select_arguments(request) | extent
        method = "explain_destinations"
        found: dict[str, Any] = self._call(context, method, arguments, timeout, **ours)
        return found

    def config_show(
        self, context: RequestContext, host: str, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the configuration of a process of the scheduler on a host: {settings, in_use}.

        Raise as explain_destinations() does.
        """
        ours = {"namespace": NAMESPACE, "version": VERSION, "server": host}
        found: dict[str, Any] = self._call(context, "config_show", {}, timeout, **ours)
        return found

    def cast_select_destinations(
        self, context: RequestContext, spec: RequestSpec, instance_uuids: Sequence[str]
    ) -> None:
        """Send a request without waiting for an answer; the outcome is a notification."""
        request = SelectArguments(spec, list(instance_uuids), True, False)
        arguments = downgraded(encode_select_arguments(request), self._version)
        self._client.cast(context.to_dict(), "select_destinations", **arguments)

    def no_answer(self, timeout: float) -> ServiceUnavailable:
        """Return the error of a call without an answer, which names what did not answer."""
        if not self._probed:
            return silent_broker(timeout)
        return NoAnswer(
            f"No scheduler answered within {timeout:g} s: check that berthmaster-scheduler runs,"
            " with the same transport_url and control_exchange"
        )

    def close(self) -> None:
        self._transport.cleanup()

    def _call(
        self,
        context: RequestContext,
        method: str,
        arguments: Fields,
        timeout: float | None,
        **target: str,
    ) -> Any:
        """Return the result of a call; raise the errors that callers know."""
        timeout = self._conf.rpc_response_timeout if timeout is None else timeout
        until = time.monotonic() + timeout
        try:
            # The first call would wait for a broker without end.
            if not self._probed:
                probe_broker(self._conf, self._transport)
                self._probed = True
            # The scheduler has what the broker has left of the time.
            left = max(LEAST_WAIT, until - time.monotonic())
            prepared = self._client.prepare(timeout=left, retry=RECONNECTIONS, **target)
            return prepared.call(context.to_dict(), method, **arguments)
        except oslo_messaging.RemoteError as error:
            if error.exc_type in ("UnsupportedVersion", "NoSuchMethod"):
                raise ServiceUnavailable(
                    f"A scheduler of an older release answered, which does not know {method}."
                    " Upgrade the scheduler."
                ) from None
            raise from_remote(error) from None
        except oslo_messaging.MessagingTimeout as error:
            raise self.no_answer(timeout) from error
        except _BROKER_FAILURES as error:
            raise ServiceUnavailable(
                f"The message broker of transport_url cannot be used: {error}"
            ) from error


def _version(conf: cfg.ConfigOpts) -> Version:
    """Return the version of requests; raise ConfigError if the cap allows none."""
    conf.register_opts(upgrade_levels.OPTS, group="upgrade_levels")
    loading.check_values(conf, [("upgrade_levels", upgrade_levels.OPTS)])
    version = newest_version(upgrade_levels.cap(conf))
    if version is None:
        major, minor = SENT[-1]
        where = loading.source(conf, "upgrade_levels", "scheduler")
        raise ConfigError(
            f"option [upgrade_levels] scheduler = {conf.upgrade_levels.scheduler} in {where}: no"
            f" request can be sent in this version; the oldest possible version is {major}.{minor}"
        )
    return version
