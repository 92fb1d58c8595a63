# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An RPC server that bounds the requests in flight and answers all of them when it stops."""

import math
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from functools import partial
from threading import Semaphore
from time import monotonic
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log
from oslo_messaging.rpc.server import RPCServer

from conf import private_apis
from conf.daemon.process import stop_each
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.messaging.broker_check import start_explained
from scheduler.messaging.call import log_late, seconds_queued, silence_limit
from scheduler.messaging.dispatcher import CheckedDispatcher, Take, drop_unreadable, take_none
from scheduler.wire.context import Deadline, stamp_size

LOG = log.getLogger(__name__)
# Requests that the broker hands out ahead of those that are handled. There they wait where neither
# their expiration nor another scheduler is of any help; one at a time would cost round trips.
PREFETCH = 4
# Seconds between two looks of an idle server whether it is to stop.
POLL = 0.25
# After so many seconds without a look at the connection, what is found there may be as old; and for
# so many seconds afterwards, in which all of it is read.
UNREAD, READING = 1.0, 1.0


class RpcServer:
    """Serves endpoints on a topic, both for the whole topic and for this server's name."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server: str,
        endpoints: Sequence[object],
        max_in_flight: int,
        take: Take = take_none,
    ) -> None:
        target = oslo_messaging.Target(topic=topic, server=server)
        self._server = RPCServer(transport, target, CheckedDispatcher(endpoints, take))
        limit_prefetch(transport.conf)
        # Seconds after which a waiting call is dropped, however long its caller would wait.
        self.longest_wait = math.inf
        self._in_flight: set[Any] = set()
        # oslo.messaging receives all that the broker has, and what a killed process had is lost.
        executor = partial(
            BoundedExecutor, max_in_flight, lambda: self.longest_wait, self._in_flight
        )
        private_apis.replace_executor(self._server, executor)

    @property
    def in_flight(self) -> int:
        """How many messages are being handled."""
        return len(self._in_flight)

    def start(self) -> None:
        """Begin to receive; raise UnusableTransport where options or queues do not allow it."""
        with start_explained(self._server.conf):
            self._server.start()
        unread = UnreadCalls()
        private_apis.wrap_callbacks(self._server, unread.giving_back)
        drop_unreadable(self._server)
        private_apis.poll_every(self._server, POLL, unread.polled)

    def alive(self) -> bool:
        """Return whether the thread that receives requests runs."""
        return private_apis.is_listening(self._server)

    def connected(self) -> bool:
        """Return whether it is subscribed: not before start(), nor while its broker is gone."""
        return private_apis.is_connected(self._server)

    def drain(self) -> None:
        """Stop receiving, and return when all requests in flight have been answered.

        This waits for them even if the broker goes away meanwhile.
        """
        stop_each(
            self._server.stop,
            lambda: stop_each(*private_apis.cancellations(self._server)),
            lambda: private_apis.dispatch_received(self._server),
            self._server.wait,
        )


def limit_prefetch(conf: cfg.ConfigOpts) -> None:
    """Let the broker hand out little, where the default is all that it has."""
    # Other drivers do not have the option.
    with suppress(cfg.NoSuchGroupError, cfg.NoSuchOptError):
        conf.set_default("rabbit_qos_prefetch_count", PREFETCH, "oslo_messaging_rabbit")


class UnreadCalls:
    """Gives back to the broker the calls that waited in the connection while it was not read.

    That is so after a pause of the process, and while all places are taken. What the broker has
    handed out does not expire any more. A call that is given back has its old expiration: the
    broker drops it, or hands it out again at once, maybe to another scheduler.
    """

    def __init__(self) -> None:
        self._polled = monotonic()
        # How long the connection was not read, and until when what is found there may be as old.
        self._pause, self._suspected_until = 0.0, -math.inf

    def polled(self) -> None:
        """Note that the connection was read just now."""
        now, before = monotonic(), self._polled
        self._polled = now
        if now - before > UNREAD:
            self._pause, self._suspected_until = now - before, now + READING

    @property
    def suspects(self) -> bool:
        """Whether what is read now may have waited while the connection was not read."""
        return self._polled < self._suspected_until

    def giving_back(self, receive: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return what receives a message unless it goes back to the broker."""

        def receive_recent(message: Any) -> None:
            self.polled()
            is_suspected = self.suspects and message.get("_msg_id")
            if not is_suspected or not private_apis.give_back(message):
                receive(message)
            else:
                self.log_given_back()

        return receive_recent

    def log_given_back(self) -> None:
        LOG.info(
            "Gave a call back to the broker, which drops the call if its caller has given up: the"
            " call may have waited here for %.1f s",
            self._pause,
        )


class BoundedExecutor:
    """Handles at most max_in_flight messages at a time; the rest waits in the broker.

    There are no more than [DEFAULT] executor_thread_pool_size either. Idle threads are used again
    and end soon: the library's executor starts 64 and keeps all of them. A call whose caller has
    given up is dropped without an answer, which would be sent again and again to a queue that may
    be gone, and hold a place meanwhile.
    """

    def __init__(
        self,
        max_in_flight: int,
        longest_wait: Callable[[], float],
        in_flight: set[Any],
        max_workers: int,
    ) -> None:
        self._longest_wait = longest_wait
        self._in_flight = in_flight
        self._places = Semaphore(min(max_in_flight, max_workers))
        self._threads = CachedThreadPool()

    def submit(self, handle: Any, incoming: Any) -> Any:
        """Handle a message as soon as there is a place; return the future of its result."""
        (message,) = incoming
        seconds, queued = math.inf, 0.0
        # A cast has no deadline: its caller waits for nothing, and the broker keeps it.
        if private_apis.awaits_reply(message):
            expiration = private_apis.expiration(message)
            queued = seconds_queued(private_apis.broker_time(message), expiration)
            seconds = min(self._longest_wait(), expiration - queued)
        deadline = Deadline.stamp(message.ctxt, seconds)
        stamp_size(message.ctxt, private_apis.size_of(message))
        self._places.acquire()
        try:
            future = self._threads.run(lambda: _handle_in_time(handle, incoming, deadline, queued))
        except BaseException:
            self._places.release()
            raise
        self._in_flight.add(future)
        future.add_done_callback(self._in_flight.discard)
        future.add_done_callback(lambda _: self._places.release())
        return future

    def shutdown(self, wait: bool = True) -> None:
        """Return when all that is in flight has been handled."""
        if wait:
            futures.wait([*self._in_flight])


def _handle_in_time(handle: Any, incoming: Any, deadline: Deadline, queued: float) -> None:
    """Handle a message unless its caller has given up; queued is how long the broker had it."""
    silence = silence_limit(private_apis.call_monitor_timeout(incoming[0]))
    limit, waited = min(deadline.seconds, silence - queued), deadline.waited()
    if waited < limit:
        handle(incoming)
    else:
        method = incoming[0].message.get("method")
        log_late(method, incoming[0].ctxt, waited + queued, limit + queued)
