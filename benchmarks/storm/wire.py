# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The callers' connection to the broker, which is made anew whenever it is cut."""

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import kombu
from kombu.exceptions import KombuError

EXCHANGE = kombu.Exchange("nova", type="topic", durable=False, auto_delete=False)
# The broker keeps answers for so long while nobody is connected. Milliseconds.
KEPT = 600_000
BROKEN = (KombuError, OSError, *kombu.Connection("amqp://").recoverable_connection_errors)


class Wire:
    """Sends calls and takes answers, which it hands over decoded.

    What is under way when the connection is cut may be lost, as with any caller's.
    """

    def __init__(
        self, transport_url: str, take: Callable[[dict[str, Any]], None], topic: str = "scheduler"
    ) -> None:
        self._topic = topic
        self._url = transport_url.replace("rabbit://", "amqp://")
        self._take = take
        self._replies = f"reply_{uuid4().hex}"
        self._connection: kombu.Connection | None = None

    def send(self, call: dict[str, Any], expires: float) -> str:
        """Send a call that nobody waits for after so many seconds; return its id."""
        message_id = uuid4().hex
        fresh = {"_unique_id": uuid4().hex, "_msg_id": message_id, "_reply_q": self._replies}
        body = {"oslo.version": "2.0", "oslo.message": json.dumps({**call, **fresh})}
        try:
            # py-amqp takes it away from the channels of a connection that the broker has closed,
            # and would fail on that with an AttributeError.
            if self._producer.channel.connection is None:
                raise ConnectionResetError("the broker has closed the connection")
            self._producer.publish(
                json.dumps(body),
                content_type="application/json",
                content_encoding="utf-8",
                expiration=expires,
            )
        except BROKEN:
            self.connect()
        return message_id

    def listen(self, seconds: float) -> bool:
        """Take what comes next; tell whether something came in time."""
        assert self._connection is not None
        try:
            self._connection.drain_events(timeout=seconds)
            return True
        except TimeoutError:
            return False
        except BROKEN:
            self.connect()
            return True

    def connect(self, patience: float = 60.0) -> None:
        """Connect, and take answers from the same queue as before."""
        ends = time.monotonic() + patience
        while True:
            self.close()
            try:
                self._open()
                return
            except BROKEN:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.collect()
            self._connection = None

    def _open(self) -> None:
        self._connection = kombu.Connection(self._url, connect_timeout=2)
        self._connection.connect()
        channel = self._connection.channel()
        kept = {"x-expires": KEPT}
        queue = kombu.Queue(self._replies, durable=False, queue_arguments=kept, channel=channel)
        queue.declare()
        self._producer = kombu.Producer(channel, EXCHANGE, self._topic, auto_declare=True)
        kombu.Consumer(channel, [queue], callbacks=[self._received], no_ack=True).consume()

    def _received(self, body: Any, _message: kombu.Message) -> None:
        decoded = body if isinstance(body, dict) else json.loads(body)
        self._take(json.loads(decoded["oslo.message"]))
