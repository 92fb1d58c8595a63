# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Receive a copy of each request to nova-scheduler, and hear when it began and ended one.

The broker copies: a queue of our own is bound beside that of nova-scheduler. It is exclusive to the
connection, so it goes with it; it is bounded; and nothing is ever answered.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import kombu
import oslo_messaging
from kombu.exceptions import KombuError
from oslo_config import cfg
from oslo_utils import timeutils

from scheduler.messaging.transport import UnusableTransport, disconnect, rpc_transport

TOPIC = "scheduler"
NOTIFIED = ("notifications.*", "versioned_notifications.*")
EVENT = "scheduler.select_destinations."
METHOD = "select_destinations"
# Messages, and milliseconds: what the broker keeps at most of what we do not fetch.
_BOUNDS = {"x-max-length": 1000, "x-message-ttl": 60_000, "x-expires": 60_000}
# Seconds.
CONNECT_TIMEOUT = 5
# The end of the connection, whatever the reason.
BROKEN = (KombuError, OSError, *kombu.Connection("amqp://").recoverable_connection_errors)


@dataclass(frozen=True, slots=True)
class RequestCopy:
    """A request as nova-scheduler gets it, and when it came here by the monotonic clock."""

    context: Mapping[str, Any]
    arguments: Mapping[str, Any]
    received: float


@dataclass(frozen=True, slots=True)
class Notified:
    """nova-scheduler has begun (start) or answered (end) a request, at a time of its own clock."""

    request_id: str
    phase: str
    timestamp: float


class RequestCopies:
    """The copies, in their order. Raises BROKEN where the broker cannot be used."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Connect and bind the queue; raises UnusableTransport, too."""
        # Not connected: it registers the options that are read here.
        transport = rpc_transport(conf)
        try:
            self._connection = _connection(conf)
            name = conf.control_exchange
        finally:
            disconnect(transport)
        self._waiting: list[RequestCopy | Notified] = []
        channel = self._connection.channel()
        # Passive: it is Nova's, and only used as it is.
        exchange = kombu.Exchange(name, type="topic", passive=True)
        queue = kombu.Queue(
            f"berthmaster_shadow_{uuid4().hex}",
            bindings=[kombu.binding(exchange, key) for key in (TOPIC, *NOTIFIED)],
            durable=False,
            exclusive=True,
            auto_delete=True,
            queue_arguments=_BOUNDS,
        )
        exchange(channel).declare()
        consumer = kombu.Consumer(
            channel, [queue], on_message=self._take, no_ack=True, accept=["json"]
        )
        consumer.consume()

    def next(self, timeout: float) -> RequestCopy | Notified | None:
        """Return what came next, None if nothing did in time."""
        if not self._waiting:
            try:
                self._connection.drain_events(timeout=timeout)
            except TimeoutError:
                return None
        return self._waiting.pop(0) if self._waiting else None

    def close(self) -> None:
        """Disconnect, which deletes the queue."""
        self._connection.release()

    def _take(self, message: kombu.Message) -> None:
        found = decode(message.body, monotonic())
        if found is not None:
            self._waiting.append(found)


def decode(body: Any, received: float) -> RequestCopy | Notified | None:
    """Return what a message is about; None for all that does not concern decisions.

    Secrets in its context, such as the token, are dropped.
    """
    try:
        message = json.loads(json.loads(body)["oslo.message"])
        if message.get("method") == METHOD:
            return RequestCopy(_context(message), message["args"], received)
        event, _, phase = message.get("event_type", "").rpartition(".")
        if f"{event}." != EVENT or phase not in ("start", "end"):
            return None
        when = timeutils.parse_strtime(message["timestamp"], "%Y-%m-%d %H:%M:%S.%f").timestamp()
        return Notified(message["_context_request_id"], phase, when)
    # Anybody may publish anything there.
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _context(message: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "_context_"
    secret = (f"{prefix}auth_token", f"{prefix}service_catalog")
    return {
        name.removeprefix(prefix): value
        for name, value in message.items()
        if name.startswith(prefix) and name not in secret
    }


def _connection(conf: cfg.ConfigOpts) -> kombu.Connection:
    """Return a connection to one of the brokers of transport_url, which is tried in their order."""
    url = oslo_messaging.TransportURL.parse(conf)
    if url.transport not in ("rabbit", "kombu") or not url.hosts:
        raise UnusableTransport(
            f"option [DEFAULT] transport_url has the driver {url.transport!r}: requests can be"
            " copied by RabbitMQ only, whose driver is 'rabbit'"
        )
    place = quote(url.virtual_host or "/", safe="")
    hosts = [
        f"amqp://{quote(each.username or 'guest', safe='')}:{quote(each.password or '', safe='')}"
        f"@{each.hostname}:{each.port or 5672}/{place}"
        for each in url.hosts
    ]
    connection = kombu.Connection(hosts, ssl=_tls(conf), connect_timeout=CONNECT_TIMEOUT)
    connection.ensure_connection(max_retries=len(hosts), interval_start=0)
    return connection


def _tls(conf: cfg.ConfigOpts) -> dict[str, Any] | bool:
    """Return the settings for TLS as [oslo_messaging_rabbit] has them, False without."""
    rabbit = conf.oslo_messaging_rabbit
    if not rabbit.ssl:
        return False
    files = {
        "ca_certs": rabbit.ssl_ca_file,
        "certfile": rabbit.ssl_cert_file,
        "keyfile": rabbit.ssl_key_file,
    }
    required = ssl.CERT_REQUIRED if rabbit.ssl_ca_file else ssl.CERT_NONE
    return {"cert_reqs": required} | {name: path for name, path in files.items() if path}
