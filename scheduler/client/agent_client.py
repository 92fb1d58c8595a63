# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Call the agents of hosts for operators; the names of the agents' RPC servers.

An agent is the server berthmaster-agent.<its host> on Nova's topic 'compute', not <its host>: that
is nova-compute's name. Two servers of one name on a machine would share its messages, and every
second request to build an instance would be lost.
"""

import time
from typing import Any

import oslo_messaging
from oslo_config import cfg

from inventory.errors import some
from scheduler.messaging.broker_check import probe_broker
from scheduler.messaging.messaging_options import checked_transport
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoAnswer, ServiceUnavailable, from_remote

TOPIC = "compute"
NAMESPACE = "berthmaster"
VERSION = "1.0"
# Seconds for an answer, however late the broker was.
LEAST_WAIT = 0.1


def server_name(host: str) -> str:
    """Return the name of the RPC server of a host's agent."""
    return f"berthmaster-agent.{host}"


def silent_broker(timeout: float) -> ServiceUnavailable:
    """Return the error of a call that has not reached the broker within the timeout."""
    return ServiceUnavailable(
        f"The message broker of [DEFAULT] transport_url has not answered within {timeout:g} s:"
        " check that it runs and can be reached from here, or wait longer with --timeout"
    )


def _silent(fact: str) -> NoAnswer:
    return NoAnswer(
        f"{fact}: check that berthmaster-agent runs there, with the same transport_url and"
        " control_exchange"
    )


class AgentClient:
    """Calls the agents of hosts.

    conf must be the process-wide oslo_config.cfg.CONF: oslo.messaging works with no other. In a
    process that uses eventlet or oslo.service, choose the backend before this is imported. With
    is_hasty the call of an agent that RabbitMQ has never seen fails at once.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        transport: oslo_messaging.Transport = None,
        is_hasty: bool = False,
    ) -> None:
        self._conf = conf
        self._transport = transport or checked_transport(conf)
        self._probed = False
        # Those that were called and have not answered: several threads may call.
        self._unanswered: list[str] = []
        self._client = oslo_messaging.get_rpc_client(
            self._transport,
            oslo_messaging.Target(topic=TOPIC, namespace=NAMESPACE, version=VERSION),
            transport_options=oslo_messaging.TransportOptions(at_least_once=is_hasty),
        )

    def call(
        self,
        context: RequestContext,
        agent: str,
        method: str,
        timeout: float | None = None,
        **arguments: Any,
    ) -> Any:
        """Return the result of a method of the agent whose [DEFAULT] host is agent.

        Raise a SchedulerFailure; ServiceUnavailable if the agent does not answer within timeout
        seconds, by default rpc_response_timeout. The broker drops a call not received by then.
        """
        timeout = self._conf.rpc_response_timeout if timeout is None else timeout
        until = time.monotonic() + timeout
        self._unanswered.append(agent)
        try:
            probe_broker(self._conf, self._transport)
            self._probed = True
        # The libraries below oslo.messaging have errors of their own.
        except Exception as error:
            raise ServiceUnavailable(
                f"The message broker of [DEFAULT] transport_url cannot be used: {error}"
            ) from error
        # The agent has what the broker has left of the time.
        left = max(LEAST_WAIT, until - time.monotonic())
        prepared = self._client.prepare(server=server_name(agent), timeout=left, retry=0)
        try:
            answer = prepared.call(context.to_dict(), method, **arguments)
            self._unanswered.remove(agent)
            return answer
        except oslo_messaging.RemoteError as error:
            self._unanswered.remove(agent)
            if error.exc_type == "NoSuchMethod":
                raise ServiceUnavailable(
                    f"An agent of an older release answered, which does not know {method}. Upgrade"
                    " the agent."
                ) from None
            raise from_remote(error) from None
        except oslo_messaging.MessagingTimeout as error:
            raise _silent(f"The agent {agent!r} has not answered within {timeout:g} s") from error
        except oslo_messaging.MessageUndeliverable as error:
            raise _silent(f"The agent {agent!r} is not connected to the message broker") from error
        except oslo_messaging.MessagingException as error:
            raise ServiceUnavailable(f"The message broker failed: {error}") from error

    def no_answer(self, timeout: float) -> ServiceUnavailable:
        """Return the error of calls without an answer, which names what did not answer."""
        if not self._probed:
            return silent_broker(timeout)
        names = self._unanswered
        who = f"The agent {names[0]!r} has" if len(names) == 1 else f"The agents {some(names)} have"
        return _silent(f"{who} not answered within {timeout:g} s")

    def close(self) -> None:
        self._transport.cleanup()
