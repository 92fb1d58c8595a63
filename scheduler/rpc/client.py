# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A client of the scheduler, for conductors written in Python and for the operator's command."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import kombu.exceptions
import oslo_messaging
from oslo_config import cfg

from conf import loading, upgrade_levels
from conf.loading import ConfigError
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.objects.shape import Fields
from scheduler.rpc.broker_options import checked_transport
from scheduler.rpc.codec import SelectArguments, decode_destinations, encode_select_arguments
from scheduler.rpc.codec.downgrade import SENT, Version, downgraded, newest_version
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import ServiceUnavailable, from_remote
from scheduler.rpc.host_client import NAMESPACE, VERSION, greet

# What oslo.messaging raises, and what it lets through from the libraries below it.
_BROKER_FAILURES = (
    oslo_messaging.MessagingException,
    kombu.exceptions.KombuError,
    kombu.exceptions.ConnectionError,
    kombu.exceptions.ChannelError,
    OSError,
)
# Takes the place of a connection that was cut since it was last used; the default is for ever.
_RECONNECTIONS = 1


class SchedulerClient:
    """Calls any one of the schedulers that listen on the bus.

    Requests are in the newest version that [upgrade_levels] scheduler allows. conf must be the
    process-wide oslo_config.cfg.CONF: oslo.messaging works with no other. Raises ConfigError or
    UnusableTransport, in one line, for options of no use. In a process that uses eventlet or
    oslo.service, choose the backend before this is imported.
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport = None) -> None:
        self._conf = conf
        self._version = _version(conf)
        self._transport = transport or checked_transport(conf)
        self._greeted = False
        self._client = oslo_messaging.get_rpc_client(
            self._transport, oslo_messaging.Target(topic="scheduler", version="4.0")
        )

    def select_destinations(
        self,
        context: RequestContext,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        return_alternates: bool = False,
        timeout: float | None = None,
    ) -> list[list[Selection]]:
        """Return for each instance the destination, followed by alternates if they are wanted.

        Raises NoValidHost, InvalidInput, or ServiceUnavailable when no scheduler answers within
        timeout seconds, by default rpc_response_timeout; the request may be repeated with the same
        uuids then.
        """
        asked = SelectArguments(spec, list(instance_uuids), True, return_alternates)
        patience = self._conf.rpc_response_timeout if timeout is None else timeout
        return self.ask(context, encode_select_arguments(asked), patience)

    def ask(
        self, context: RequestContext, arguments: Fields, timeout: float
    ) -> list[list[Selection]]:
        """Send the arguments of select_destinations as they are encoded; otherwise as above.

        What is encoded once can be sent again and is the same request.
        """
        prepared = self._prepared(timeout=timeout, retry=_RECONNECTIONS)
        told = downgraded(arguments, self._version)
        with self._failures_named(timeout):
            self._greet_once()
            reply = prepared.call(context.to_dict(), "select_destinations", **told)
        return decode_destinations(reply)

    def explain_destinations(
        self,
        context: RequestContext,
        asked: SelectArguments,
        timeout: float | None = None,
        **extent: Any,
    ) -> dict[str, Any]:
        """Return what would be decided, and why, as JSON has it: {decision, explanation}.

        Nothing is claimed. extent are most (hosts to tell of), hosts (names of those) and near (how
        many near misses). Raises what select_destinations() does, and Forbidden unless the context
        is that of an administrator.
        """
        patience = self._conf.rpc_response_timeout if timeout is None else timeout
        prepared = self._client.prepare(
            namespace=NAMESPACE, version=VERSION, timeout=patience, retry=_RECONNECTIONS
        )
        arguments = encode_select_arguments(asked)
        with self._failures_named(patience):
            self._greet_once()
            found: dict[str, Any] = prepared.call(
                context.to_dict(), "explain_destinations", **arguments, **extent
            )
        return found

    def cast_select_destinations(
        self, context: RequestContext, spec: RequestSpec, instance_uuids: Sequence[str]
    ) -> None:
        """Ask without waiting for an answer; the outcome is a notification."""
        asked = SelectArguments(spec, list(instance_uuids), True, False)
        told = downgraded(encode_select_arguments(asked), self._version)
        self._prepared().cast(context.to_dict(), "select_destinations", **told)

    def close(self) -> None:
        """Give the connections back."""
        self._transport.cleanup()

    @contextmanager
    def _failures_named(self, timeout: float) -> Iterator[None]:
        """Turn what oslo.messaging raises into what callers know."""
        try:
            yield
        except oslo_messaging.RemoteError as error:
            if error.exc_type == "UnsupportedVersion":
                raise ServiceUnavailable(
                    "A scheduler of an older release answered, which cannot do that."
                ) from None
            raise from_remote(error) from None
        except oslo_messaging.MessagingTimeout as error:
            raise ServiceUnavailable(
                f"No scheduler answered within {timeout:g} s: is berthmaster-scheduler running,"
                " on the same transport_url and control_exchange?"
            ) from error
        except _BROKER_FAILURES as error:
            raise ServiceUnavailable(
                f"The message broker of transport_url cannot be used: {error}"
            ) from error

    def _prepared(self, **options: float) -> Any:
        major, minor = self._version
        return self._client.prepare(version=f"{major}.{minor}", **options)

    def _greet_once(self) -> None:
        """Fail if there is no broker: the first call of all would wait for one without end."""
        if not self._greeted:
            greet(self._conf, self._transport)
            self._greeted = True


def _version(conf: cfg.ConfigOpts) -> Version:
    """Return the version of requests; raises ConfigError where none is left."""
    upgrade_levels.register_opts(conf)
    loading.check_values(conf, upgrade_levels.list_opts())
    version = newest_version(upgrade_levels.cap(conf))
    if version is None:
        major, minor = SENT[-1]
        where = loading.source(conf, "upgrade_levels", "scheduler")
        raise ConfigError(
            f"option [upgrade_levels] scheduler = {conf.upgrade_levels.scheduler} in {where}: no"
            f" request can be sent in that version; {major}.{minor} is the oldest that can"
        )
    return version
