# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A client of the agents, for what operators do with hosts, and the names under which they listen.

An agent is a server called berthmaster-agent.<its host> on Nova's topic 'compute', not <its host>:
that is the name of nova-compute, which may run on the same machine, and two servers of one name
take turns at what is sent to it. Every second request to build an instance would be lost with us.
"""

from typing import Any

import oslo_messaging
from oslo_config import cfg

from scheduler.rpc.broker_options import checked_transport
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import ServiceUnavailable, from_remote
from scheduler.rpc.mismatch import mismatch, told_once

TOPIC = "compute"
NAMESPACE = "berthmaster"
VERSION = "1.0"


def server_name(host: str) -> str:
    """Return the name of the server that the agent of a host is."""
    return f"berthmaster-agent.{host}"


def greet(conf: cfg.ConfigOpts, transport: oslo_messaging.Transport) -> None:
    """Raise whatever a broker that cannot be used answers with, after one look at each.

    What oslo.messaging does to listen, for requests or replies, it tries again for ever.
    """
    brokers = oslo_messaging.TransportURL.parse(conf).hosts
    # Nobody listens under this name; the broker drops what is sent to it.
    nobody = oslo_messaging.Target(topic=TOPIC, server="berthmaster-nobody", version=VERSION)
    client = oslo_messaging.get_rpc_client(transport, nobody, retry=max(len(brokers) - 1, 0))
    try:
        with told_once():
            client.cast({}, "ping")
    except oslo_messaging.MessagingException as error:
        raise (mismatch(error, conf.control_exchange) or error) from error


class HostClient:
    """Calls the agent of a host.

    conf must be the process-wide oslo_config.cfg.CONF: oslo.messaging works with no other. In a
    process that uses eventlet or oslo.service, choose the backend before this is imported.
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport = None) -> None:
        self._conf = conf
        self._transport = transport or checked_transport(conf)
        self._client = oslo_messaging.get_rpc_client(
            self._transport,
            oslo_messaging.Target(topic=TOPIC, namespace=NAMESPACE, version=VERSION),
        )

    def call(
        self,
        context: RequestContext,
        agent: str,
        method: str,
        timeout: float | None = None,
        **arguments: Any,
    ) -> Any:
        """Return what a method of the agent called so by [DEFAULT] host answers.

        Raises a SchedulerFailure, ServiceUnavailable when the agent does not answer within timeout
        seconds, by default rpc_response_timeout. A call that nobody has taken by then is dropped,
        and never done later.
        """
        timeout = self._conf.rpc_response_timeout if timeout is None else timeout
        self._greet()
        prepared = self._client.prepare(server=server_name(agent), timeout=timeout, retry=0)
        try:
            return prepared.call(context.to_dict(), method, **arguments)
        except oslo_messaging.RemoteError as error:
            raise from_remote(error) from None
        except oslo_messaging.MessagingTimeout as error:
            raise ServiceUnavailable(
                f"The agent {agent!r} has not answered within {timeout:g} s: is berthmaster-agent"
                " running there, on the same transport_url and control_exchange?"
            ) from error
        except oslo_messaging.MessagingException as error:
            raise ServiceUnavailable(f"The message broker failed: {error}") from error

    def close(self) -> None:
        """Give the connections back."""
        self._transport.cleanup()

    def _greet(self) -> None:
        try:
            greet(self._conf, self._transport)
        # What the libraries below oslo.messaging raise comes through as it is.
        except Exception as error:
            raise ServiceUnavailable(
                f"The message broker of [DEFAULT] transport_url cannot be used: {error}"
            ) from error
