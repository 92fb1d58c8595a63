# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Batches over the connections of oslo.messaging's rabbit driver, whose names are private.

They are used here and nowhere else; see private_apis. The driver's connection knows TLS, several
brokers, quorum queues and how to connect anew. What is ours is to read all that has come instead of
one message, to acknowledge a batch at once, and to publish a batch in one write whose confirms are
awaited together.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from kombu.compression import compress
from oslo_log import log
from oslo_serialization import jsonutils

from conf.private_apis import PrivateName

LOG = log.getLogger(__name__)
RABBIT = "oslo_messaging_rabbit"
# Other drivers, and this one on other transports of kombu, have not the connections that we need.
_SCHEMES = ("rabbit", "kombu")
# The driver has a thread for the AMQP heartbeats of connections that send, and none for those that
# listen: each of ours belongs to one thread, which sends them itself.
_PURPOSE = "listen"
# Seconds between two looks whether an AMQP heartbeat is due, of one who waits for the broker.
HEARTBEAT_LOOK = 1.0
# Messages that are read in one go, where the operator has set no limit to what is handed out.
MAX_READ = 128
# As the driver publishes answers.
_CONTENT_TYPE, _ENCODING, _PERSISTENT = "application/json", "utf-8", 2

_LOSS = "calls are taken from the broker one by one, as with [scheduler] intake = stock"
_MESSAGING = partial(PrivateName, "oslo.messaging", loss=_LOSS)
_AMQP = partial(PrivateName, "amqp", loss=_LOSS)
# What has each of the names.
_DRIVER, _CONNECTION, _CONSUMER = "driver", "connection", "consumer"
_MODULES = {
    "rabbit": "oslo_messaging._drivers.impl_rabbit",
    "common": "oslo_messaging._drivers.common",
    "framing": "amqp.method_framing",
    "serialization": "amqp.serialization",
    "channel": "amqp.channel",
}
NAMES: dict[str, list[PrivateName]] = {
    _DRIVER: [
        _MESSAGING("_connection_pool.create"),
        _MESSAGING("_get_exchange"),
        _MESSAGING("missing_destination_retry_timeout"),
    ],
    _CONNECTION: [
        *map(_MESSAGING, ("consume", "declare_topic_consumer", "declare_fanout_consumer")),
        *map(_MESSAGING, ("_consumers", "connection", "channel", "close")),
        *map(_MESSAGING, ("heartbeat_rate", "rabbit_qos_prefetch_count", "kombu_compression")),
        _MESSAGING("direct_mandatory_flag"),
    ],
    _CONSUMER: [
        *map(_MESSAGING, ("_callback", "cancel", "rabbit_stream_fanout", "next_stream_offset"))
    ],
    "rabbit": [_MESSAGING("RabbitMessage")],
    "common": [*map(_MESSAGING, ("Timeout", "serialize_remote_exception", "serialize_msg"))],
    "framing": [_AMQP("frame_writer")],
    "serialization": [_AMQP("dumps")],
    "channel": [_AMQP("Channel.confirm_select"), _AMQP("Channel._on_basic_return")],
}


def missing_name(transport: Any) -> PrivateName | None:
    """Return a name that the installed libraries lack, None if they have all of them."""
    for owner, name in _owned_names(transport):
        try:
            attrgetter(name.path)(owner)
        except AttributeError:
            return name
    return None


def is_rabbit(transport: Any) -> bool:
    """Return whether a transport is the rabbit driver on a broker that speaks AMQP."""
    driver = getattr(transport, "_driver", None)
    url = getattr(driver, "_url", None)
    return (
        type(driver).__module__ == _MODULES["rabbit"]
        and getattr(url, "transport", None) in _SCHEMES
    )


def _owned_names(transport: Any) -> Iterator[tuple[object, PrivateName]]:
    owners: dict[str, object] = {_DRIVER: transport._driver}
    for name, path in _MODULES.items():
        try:
            owners[name] = import_module(path)
        except ImportError:
            owners[name] = object()
    for kind, name in ((_CONNECTION, "Connection"), (_CONSUMER, "Consumer")):
        owners[kind] = _instance_of(getattr(owners["rabbit"], name, object))
    for owner, names in NAMES.items():
        for private in names:
            yield owners[owner], private


def _instance_of(kind: type) -> object:
    """Return an object with the names of an instance, without making one, which would connect."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    made = code.co_names if code else ()
    return SimpleNamespace(**dict.fromkeys((*dir(kind), *made)))


def _module(name: str) -> Any:
    return import_module(_MODULES[name])


class Delivery(NamedTuple):
    """A message as it came: py-amqp's, and when it was read by the monotonic clock."""

    raw: Any
    received: float

    @property
    def properties(self) -> Mapping[str, Any]:
        """What AMQP says of it: expiration, headers."""
        properties: Mapping[str, Any] = self.raw.properties
        return properties

    @property
    def size(self) -> int:
        return len(self.raw.body)

    @property
    def is_redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.raw.delivery_info.get("redelivered") is not False

    def decoded(self) -> dict[str, Any]:
        """Return the message in it as the driver decodes it; raise whatever it raises."""
        message = self.raw.channel.message_to_python(self.raw)
        decoded: dict[str, Any] = _module("rabbit").RabbitMessage(message)
        return decoded


class Listener:
    """Receives what the broker has for a topic, for a server of it and for all servers of it.

    It is used by one thread at a time.
    """

    def __init__(self, transport: Any, target: Any, prefetch: int | None) -> None:
        driver = transport._driver
        self._timeout = _module("common").Timeout
        self._rabbit = rabbit = driver._connection_pool.create(_PURPOSE)
        # The option is for all connections of the process.
        if prefetch is not None:
            rabbit.rabbit_qos_prefetch_count = prefetch
            rabbit.channel.basic_qos(0, prefetch, False)
        self.received: list[Delivery] = []
        exchange = driver._get_exchange(target)
        for topic in (target.topic, f"{target.topic}.{target.server}"):
            rabbit.declare_topic_consumer(exchange_name=exchange, topic=topic, callback=None)
        rabbit.declare_fanout_consumer(target.topic, None)
        for consumer in rabbit._consumers:
            consumer._callback = partial(self._receive, consumer)
        self._drain_one = rabbit.connection.drain_events
        # The driver calls it where it handles lost connections.
        rabbit.connection.drain_events = self._drain_all

    @property
    def is_connected(self) -> bool:
        return bool(self._rabbit.connection and self._rabbit.connection.connected)

    def receive(self, seconds: float) -> None:
        """Wait so long for a message, then append it and all others that have come to received.

        The connection is made anew if it was lost; as long as that cannot be done it returns now
        and then. AMQP heartbeats go to the broker from here.
        """
        # Those that came before are in received all the same.
        with suppress(self._timeout):
            self._rabbit.consume(timeout=seconds)

    def acknowledge(self, last: Delivery) -> None:
        """Acknowledge a message and all before it; raise an error where their channel is gone.

        The broker hands them out anew then.
        """
        last.raw.channel.basic_ack(last.raw.delivery_tag, multiple=True)

    def give_back(self, delivery: Delivery) -> None:
        """Put a message back into its queue, where it keeps its expiration."""
        delivery.raw.channel.basic_reject(delivery.raw.delivery_tag, requeue=True)

    def cancel(self) -> None:
        """Let the broker hand out no more; what it has handed out before is received."""
        for consumer, tag in self._rabbit._consumers.items():
            consumer.cancel(tag)

    def close(self) -> None:
        """Close the connection; the queue of casts to all servers goes with it."""
        self._rabbit.close()

    def _drain_all(self, timeout: float | None = None) -> None:
        self._drain_one(timeout=timeout)
        with suppress(TimeoutError):
            while len(self.received) < MAX_READ:
                self._drain_one(timeout=0)

    def _receive(self, consumer: Any, raw: Any) -> None:
        if consumer.rabbit_stream_fanout:
            offset = (raw.properties.get("application_headers") or {}).get("x-stream-offset")
            if offset is not None:
                consumer.next_stream_offset = offset + 1
        self.received.append(Delivery(raw, time.monotonic()))


class Publishable(Protocol):
    """What a publisher sends: a body for a queue."""

    queue: str
    body: bytes


# Told of each message what became of it: whether there was a queue for it and the broker has it.
Settle = Callable[[Any, bool], None]


class Publisher:
    """Sends messages to queues by their names, over one kept connection.

    It is used by one thread at a time. After an error of any method it has to be abandoned.
    """

    def __init__(self, transport: Any) -> None:
        """Connect; raise an error if no broker can be reached."""
        driver = transport._driver
        # Each broker is tried once.
        tries = max(len(driver._url.hosts) - 1, 0)
        self._rabbit = driver._connection_pool.create(_PURPOSE, retry=tries)
        self._channel = channel = self._rabbit.connection.channel()
        self._amqp = channel.connection
        channel.confirm_select()
        channel.events["basic_ack"].add(self._confirmed)
        channel.events["basic_nack"].add(self._refused)
        channel.events["basic_return"].add(self._on_return)
        self._buffer = bytearray()
        buffer = SimpleNamespace(write=self._buffer.extend)
        self._write_frame = _module("framing").frame_writer(self._amqp, buffer)
        self._published = 0
        # By their numbers on this channel, with the bodies as they were sent.
        self._unconfirmed: dict[int, tuple[Publishable, bytes]] = {}
        self._returned: set[bytes] = set()
        self._settle: Settle = lambda message, is_sent: None

    def publish(self, messages: Sequence[Publishable], settle: Settle) -> None:
        """Send messages in one write, and return when the broker has confirmed all of them.

        settle is called with each as soon as it is known what became of it. A blocked broker
        confirms nothing; then this waits for as long as the connection lasts.
        """
        self._settle = settle
        for message in messages:
            self._add_frames(message)
        frames = bytes(self._buffer)
        self._buffer.clear()
        self._amqp.transport.write(frames)
        while self._unconfirmed:
            self._wait(HEARTBEAT_LOOK)

    def idle(self) -> None:
        """Send an AMQP heartbeat if it is due, and look at those of the broker."""
        self._wait(0)

    def abandon(self) -> None:
        """Close the connection without a word to the broker, which may be gone."""
        with suppress(Exception):
            self._rabbit.connection.collect()

    def _wait(self, seconds: float) -> None:
        """Handle what comes; raise an error if the connection is lost."""
        # They would connect anew in silence, and know nothing of what was published before.
        if not self._channel.is_open or not self._amqp.connected:
            raise ConnectionError("the broker has closed the connection")
        try:
            self._amqp.drain_events(timeout=seconds)
        except TimeoutError:
            self._amqp.heartbeat_tick(rate=self._rabbit.heartbeat_rate)

    def _add_frames(self, message: Publishable) -> None:
        body, headers = message.body, {}
        if self._rabbit.kombu_compression:
            body, headers["compression"] = compress(body, self._rabbit.kombu_compression)
        self._published += 1
        self._unconfirmed[self._published] = (message, body)
        content = self._channel.prepare_message(
            body, 0, _CONTENT_TYPE, _ENCODING, headers, {"delivery_mode": _PERSISTENT}
        )
        mandatory = bool(self._rabbit.direct_mandatory_flag)
        arguments = _module("serialization").dumps(
            "Bssbb", (0, "", message.queue, mandatory, False)
        )
        # AMQP's class and method of Basic.Publish.
        self._write_frame(1, self._channel.channel_id, (60, 40), arguments, content)

    def _on_return(self, error: Exception, exchange: str, queue: str, content: Any) -> None:
        body = content.body
        self._returned.add(body.encode() if isinstance(body, str) else body)

    def _confirmed(self, tag: int, multiple: bool) -> None:
        for message, body in self._taken(tag, multiple):
            # What is returned is confirmed after that.
            self._settle(message, body not in self._returned)
            self._returned.discard(body)

    def _refused(self, tag: int, multiple: bool) -> None:
        for message, _ in self._taken(tag, multiple):
            self._settle(message, False)

    def _taken(self, tag: int, multiple: bool) -> list[tuple[Publishable, bytes]]:
        tags = [each for each in self._unconfirmed if each <= tag] if multiple else [tag]
        return [self._unconfirmed.pop(each) for each in tags if each in self._unconfirmed]


def reply_body(
    message_id: Any, result: Any, error: BaseException | None, is_last: bool = True
) -> bytes:
    """Return the body of an answer to a call as the driver makes it; a heartbeat is not the last.

    The error goes with its traceback, as callers know it.
    """
    common, failure = _module("common"), None
    if error is not None:
        failure = common.serialize_remote_exception((type(error), error, error.__traceback__))
    answer = {
        "result": result,
        "failure": failure,
        "ending": is_last,
        "_msg_id": message_id,
        "_unique_id": uuid4().hex,
    }
    body: bytes = jsonutils.dump_as_bytes(common.serialize_msg(answer))
    return body


def missing_queue_patience(transport: Any) -> float:
    """Return for how many seconds an answer is sent again to a queue that is not there."""
    return float(transport._driver.missing_destination_retry_timeout)
