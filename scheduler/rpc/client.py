# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A client of the scheduler, for conductors written in Python and for the operator's command."""

from collections.abc import Sequence

import kombu.exceptions
import oslo_messaging
from oslo_config import cfg

from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.objects.shape import Fields
from scheduler.rpc.codec import SelectArguments, decode_destinations, encode_select_arguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import ServiceUnavailable, from_remote
from scheduler.rpc.host_client import greet
from scheduler.rpc.transport import rpc_transport

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

    conf must be the process-wide oslo_config.cfg.CONF: oslo.messaging works with no other. In a
    process that uses eventlet or oslo.service, choose the backend before this is imported.
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport = None) -> None:
        self._conf = conf
        self._transport = transport or rpc_transport(conf)
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
        timeout: float = 60.0,
    ) -> list[list[Selection]]:
        """Return for each instance the destination, followed by alternates if they are wanted.

        Raises NoValidHost, InvalidInput, or ServiceUnavailable when no scheduler answers within
        timeout seconds; the request may be repeated with the same uuids then.
        """
        asked = SelectArguments(spec, list(instance_uuids), True, return_alternates)
        return self.ask(context, encode_select_arguments(asked), timeout)

    def ask(
        self, context: RequestContext, arguments: Fields, timeout: float
    ) -> list[list[Selection]]:
        """Send the arguments of select_destinations as they are; otherwise as above.

        What is encoded once can be sent again and is the same request.
        """
        prepared = self._client.prepare(version="4.5", timeout=timeout, retry=_RECONNECTIONS)
        try:
            self._greet_once()
            reply = prepared.call(context.to_dict(), "select_destinations", **arguments)
        except oslo_messaging.RemoteError as error:
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
        return decode_destinations(reply)

    def cast_select_destinations(
        self, context: RequestContext, spec: RequestSpec, instance_uuids: Sequence[str]
    ) -> None:
        """Ask without waiting for an answer; the outcome is a notification."""
        asked = SelectArguments(spec, list(instance_uuids), True, False)
        self._client.prepare(version="4.5").cast(
            context.to_dict(), "select_destinations", **encode_select_arguments(asked)
        )

    def close(self) -> None:
        """Give the connections back."""
        self._transport.cleanup()

    def _greet_once(self) -> None:
        """Fail if there is no broker: the first call of all would wait for one without end."""
        if not self._greeted:
            greet(self._conf, self._transport)
            self._greeted = True
