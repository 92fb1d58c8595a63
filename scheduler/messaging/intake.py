# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How calls come from the broker: in batches where it is RabbitMQ, one by one elsewhere.

A reader thread takes what has come, at most BATCH and at most as many as may be in flight, and
nobody waits for a batch to fill. It acknowledges a batch together and hands it on as a list of
calls: take gets it first, and what that leaves goes to the endpoints, each call in a thread of its
own. A call is answered by whoever has it, from any thread, and a ReplySender sends what has
accumulated. So neither a slow decision nor a blocked broker stops the reader.

What waits here for its turn is not acknowledged: it goes back to the broker if the process dies.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log

from conf import loading, private_apis, private_rabbit
from conf.daemon import tracing
from conf.daemon.process import stop_each
from conf.private_apis import broker_time_in, expiration_in
from conf.private_rabbit import RABBIT, Delivery, Listener
from inventory.objects.field_types import shown
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.messaging.broker_check import start_explained
from scheduler.messaging.call import Answer, Call, seconds_queued
from scheduler.messaging.dispatcher import (
    CheckedDispatcher,
    Take,
    dispatch,
    is_answerable,
    log_unanswerable,
    log_unreadable,
    take_none,
)
from scheduler.messaging.reply_sender import ReplySender
from scheduler.messaging.server import POLL, UNREAD, RpcServer, UnreadCalls, limit_prefetch
from scheduler.wire.context import Deadline, stamp_size

LOG = log.getLogger(__name__)
BATCHED, STOCK = "batched", "stock"
BATCH = 64
# What the broker hands out ahead: the batch that waits while another one is decided.
PREFETCH = BATCH
# How many messages are remembered, since the broker may hand one out twice when it reconnects.
REMEMBERED = 1000
# What the names of a context begin with in a message.
CONTEXT = "_context_"
# Seconds that a stop waits for the broker to close a connection.
CLOSING = 2.0


class Intake(Protocol):
    """Receives calls, and sends their answers."""

    # Seconds after which a waiting call is dropped, however long its caller would wait.
    longest_wait: float

    @property
    def in_flight(self) -> int:
        """How many calls were taken and are not answered yet."""

    def start(self) -> None:
        """Begin to receive; raise UnusableTransport where options or queues do not allow it."""

    def alive(self) -> bool:
        """Return whether its threads run."""

    def connected(self) -> bool:
        """Return whether it is subscribed: not before start(), nor while its broker is gone."""

    def drain(self) -> None:
        """Stop receiving, and return when all that was received has been answered."""


def open_intake(
    transport: oslo_messaging.Transport,
    target: oslo_messaging.Target,
    endpoints: Sequence[object],
    max_in_flight: int,
    take: Take = take_none,
) -> Intake:
    """Return the intake that [scheduler] intake and the transport allow."""
    arguments = (transport, target.topic, target.server, endpoints, max_in_flight, take)
    if transport.conf.scheduler.intake == STOCK or not private_rabbit.is_rabbit(transport):
        return RpcServer(*arguments)
    missing = private_rabbit.missing_name(transport)
    if missing:
        private_apis.warn_once(missing)
    # Only the server of oslo.messaging traces what it receives.
    if missing or tracing.is_enabled(transport.conf):
        return RpcServer(*arguments)
    return BatchedIntake(*arguments)


class BatchedIntake:
    """Takes calls in batches over a connection of the rabbit driver; see the module."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server: str,
        endpoints: Sequence[object],
        max_in_flight: int,
        take: Take = take_none,
    ) -> None:
        self.longest_wait = math.inf
        # Fanout by streams needs a limit before there is a connection.
        limit_prefetch(transport.conf)
        self._transport = transport
        self._target = oslo_messaging.Target(topic=topic, server=server)
        # It adds the ping of oslo.messaging where that is asked for.
        self._endpoints = CheckedDispatcher(endpoints).endpoints
        self._max_in_flight, self._take = max_in_flight, take
        self._threads = CachedThreadPool()
        self._replies = ReplySender(transport)
        self._listener: Listener | None = None
        self._unread = UnreadCalls()
        # In the order of their arrival.
        self._seen: dict[str, None] = {}
        # Calls without an answer; whoever answers one notifies those who wait for a place.
        self._open: set[Call] = set()
        self._answered = Condition()
        self._stopping = Event()
        self._reader = Thread(target=self._run, name="intake", daemon=True)

    @property
    def in_flight(self) -> int:
        return len(self._open) + self._replies.unsent

    def start(self) -> None:
        conf = self._transport.conf
        is_set = loading.is_given(conf, RABBIT, "rabbit_qos_prefetch_count")
        with start_explained(conf):
            prefetch = None if is_set else PREFETCH
            self._listener = Listener(self._transport, self._target, prefetch)
        self._replies.start()
        self._reader.start()

    def alive(self) -> bool:
        return self._reader.is_alive() and self._replies.alive()

    def connected(self) -> bool:
        return self._listener is not None and self._listener.is_connected

    def drain(self) -> None:
        self._stopping.set()
        if self._listener is None:
            return
        self._reader.join()
        with self._answered:
            self._answered.wait_for(lambda: not self._open)
        self._replies.close()
        # It waits for a broker that hangs, and the answers are there already.
        closing = Thread(
            target=stop_each, args=(self._listener.close,), name="closing", daemon=True
        )
        closing.start()
        closing.join(CLOSING)

    def _run(self) -> None:
        assert self._listener is not None
        listener = self._listener
        while not self._stopping.is_set():
            try:
                self._receive(listener)
            # A bug of ours or of a library's must not end the intake.
            except Exception:
                LOG.exception("Cannot take calls, trying again")
                self._stopping.wait(1.0)
        stop_each(listener.cancel)
        while listener.received:
            self._wait_for_place()
            self._hand_on(listener)

    def _receive(self, listener: Listener) -> None:
        """Wait for something to come, or for a place if something waits, and hand a batch on."""
        if listener.received and not self._wait_for_place():
            self._give_back_waiting(listener)
        # In any case: the heartbeats of the broker are read here.
        listener.receive(0 if listener.received else POLL)
        self._unread.polled()
        self._hand_on(listener)

    def _wait_for_place(self) -> bool:
        """Return whether a call may be taken, at most after a while."""
        with self._answered:
            return self._answered.wait_for(lambda: len(self._open) < self._max_in_flight, POLL)

    def _give_back_waiting(self, listener: Listener) -> None:
        """Give back, once, what has waited for long: another scheduler may have places."""
        since = monotonic() - UNREAD
        waiting = [
            each for each in listener.received if each.received < since and not each.is_redelivered
        ]
        if waiting:
            listener.received[:] = [each for each in listener.received if each not in waiting]
            LOG.info("Gave %d messages back to the broker: all places are taken", len(waiting))
        for delivery in waiting:
            listener.give_back(delivery)

    def _hand_on(self, listener: Listener) -> None:
        """Take as many calls as there are places for, acknowledge them and hand them on."""
        batch = _of_one_channel(listener.received)[: self._max_in_flight - len(self._open)]
        del listener.received[: len(batch)]
        messages = [(delivery, _decoded(delivery)) for delivery in batch]
        try:
            if self._unread.suspects:
                messages = [each for each in messages if not self._gave_back(listener, *each)]
            if messages:
                listener.acknowledge(messages[-1][0])
        # The connection is lost.
        except Exception as error:
            LOG.info(
                "Left %d messages to the broker, to be handed out again: %s", len(batch), error
            )
            return
        calls = [call for each in messages if (call := self._call(*each)) is not None]
        with self._answered:
            self._open.update(calls)
        for call in calls:
            self._replies.monitor(call)
        for call in self._take(calls) if calls else ():
            self._start(call)

    def _gave_back(
        self, listener: Listener, delivery: Delivery, message: dict[str, Any] | None
    ) -> bool:
        """Give a call back that may have waited too long, once; return whether that was done."""
        if not (message and message.get("_msg_id")) or delivery.is_redelivered:
            return False
        listener.give_back(delivery)
        self._unread.log_given_back()
        return True

    def _call(self, delivery: Delivery, message: dict[str, Any] | None) -> Call | None:
        """Return the call in a message; None if it cannot be answered, came twice or is late."""
        if message is None or self._is_known(message.get("_unique_id")):
            return None
        if not is_answerable(message):
            log_unanswerable(message)
            return None
        names = [name for name in message if name.startswith(CONTEXT)]
        context = {name.removeprefix(CONTEXT): message[name] for name in names}
        # Where oslo.messaging has it.
        context["client_timeout"] = silence = message.get("_timeout")
        stamp_size(context, delivery.size)
        message_id, expiration = message.get("_msg_id"), expiration_in(delivery.properties)
        queued = seconds_queued(broker_time_in(delivery.properties), expiration)
        # A cast has no deadline: its caller waits for nothing.
        seconds = min(self.longest_wait, expiration - queued) if message_id else math.inf
        call = Call(
            method=message.get("method"),
            version=message.get("version", "1.0"),
            namespace=message.get("namespace"),
            args=message.get("args", {}),
            context=context,
            deadline=Deadline.stamp(context, seconds, delivery.received),
            size=delivery.size,
            message_id=message_id or None,
            reply_queue=message.get("_reply_q"),
            silence=silence if message_id else None,
            queued=queued if message_id else 0.0,
            expiration=expiration,
            on_answer=self._on_answer,
        )
        return None if call.drop_late() else call

    def _is_known(self, unique_id: Any) -> bool:
        """Return whether a message was received before; remember it otherwise."""
        if not isinstance(unique_id, str):
            return False
        if unique_id in self._seen:
            LOG.info("Dropped a message that came twice: %s", shown(unique_id))
            return True
        self._seen[unique_id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False

    def _start(self, call: Call) -> None:
        try:
            self._threads.run(lambda: dispatch(self._endpoints, call))
        # The process may have no more threads.
        except RuntimeError as error:
            call.fail(error)

    def _on_answer(self, call: Call, answer: Answer | None) -> None:
        with self._answered:
            if call not in self._open:
                return
            self._open.remove(call)
            if call.message_id is not None:
                self._replies.send(call, answer)
            self._answered.notify()
        if answer and answer.error and not answer.is_expected:
            LOG.error("Exception during message handling", exc_info=answer.error)


def _of_one_channel(received: list[Delivery]) -> list[Delivery]:
    """Return the first messages, as many as are a batch and can be acknowledged at once."""
    channel = received[0].raw.channel if received else None
    return [*takewhile(lambda each: each.raw.channel is channel, received[:BATCH])]


def _decoded(delivery: Delivery) -> dict[str, Any] | None:
    """Return a message, None where it cannot be read: its sender gets no answer."""
    try:
        return delivery.decoded()
    except Exception as error:
        log_unreadable(error)
        return None
