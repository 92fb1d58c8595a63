# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An RPC server that takes no more than it can handle and loses nothing when it stops."""

import math
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import partial
from inspect import ismethod
from threading import Semaphore
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from conf.stopping import stop_each
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.objects.kinds import shown
from scheduler.rpc import deadlines, dispatching
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.mismatch import mismatch, told_once
from scheduler.rpc.transport import UnusableTransport

LOG = log.getLogger(__name__)
# Requests that the broker hands out ahead of those that are handled. There they wait where neither
# their expiration nor another scheduler is of any help; one at a time would cost round trips.
PREFETCH = 4


class RpcServer:
    """Serves endpoints on a topic, both for the whole topic and for this server's name."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        topic: str,
        server: str,
        endpoints: Sequence[object],
        most_in_flight: int,
    ) -> None:
        self._server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(topic=topic, server=server),
            list(endpoints),
            access_policy=PublicMethods,
        )
        dispatching.mend(self._server.dispatcher)
        _prefetch_little(transport.conf)
        self._longest_wait = math.inf
        self._taken = _bound(self._server, most_in_flight, lambda: self._longest_wait)

    @property
    def in_flight(self) -> int:
        """How many messages were taken and are not handled yet."""
        return len(self._taken)

    def drop_after(self, seconds: float) -> None:
        """Drop calls that wait so long for their turn, however long their callers would."""
        self._longest_wait = seconds

    def start(self) -> None:
        """Begin to take requests; raises UnusableTransport where options are in the way."""
        exchange = self._server.conf.control_exchange
        try:
            with told_once():
                self._server.start()
        # What options contradict each other the driver notices only now.
        except RuntimeError as error:
            raise UnusableTransport(f"options of [oslo_messaging_rabbit]: {error}") from error
        except oslo_messaging.MessageDeliveryFailure as error:
            raise (mismatch(error, exchange) or error) from None
        dispatching.drop_unreadable(self._server)
        dispatching.poll_calmly(self._server)

    def alive(self) -> bool:
        """Tell whether the thread that takes requests still runs."""
        thread = getattr(self._server.listener, "_listen_thread", None)
        return thread is None or bool(thread.is_alive())

    def connected(self) -> bool:
        """Tell whether it is subscribed: not before start(), nor while its broker is looked for."""
        listener = getattr(self._server, "listener", None)
        if listener is None:
            return False
        held = getattr(getattr(listener, "_poll_style_listener", None), "conn", None)
        connection = getattr(getattr(held, "connection", None), "connection", None)
        # Drivers without connections have none to lose.
        return bool(getattr(connection, "connected", True))

    def drain(self) -> None:
        """Stop taking requests and return when every one that was taken has been answered.

        A broker that goes away meanwhile is no reason not to wait for these.
        """
        stop_each(
            self._server.stop,
            partial(_hand_over_late_arrivals, self._server),
            self._server.wait,
        )


class PublicMethods(oslo_messaging.DefaultRPCAccessPolicy):  # type: ignore[misc]  # no types
    """Lets callers reach the methods of an endpoint without a leading underscore, nothing else.

    The target of an endpoint can be called too, and fails with a traceback in the log.
    """

    def is_allowed(self, endpoint: object, method: str) -> bool:
        """Tell whether a method may be called, by its name."""
        return super().is_allowed(endpoint, method) and ismethod(getattr(endpoint, method))


def _prefetch_little(conf: Any) -> None:
    """Change the default of oslo.messaging, which has the broker hand out all that it has."""
    try:
        conf.set_default("rabbit_qos_prefetch_count", PREFETCH, group="oslo_messaging_rabbit")
    except (cfg.NoSuchGroupError, cfg.NoSuchOptError):
        # The option of another driver than that for RabbitMQ.
        return


def _bound(server: Any, most: int, longest_wait: Callable[[], float]) -> set[Any]:
    """Let the server dispatch that many requests at a time; the rest waits in the broker.

    Returns those that are dispatched at the moment, which is for counting them. There are no more
    than [DEFAULT] executor_thread_pool_size either. oslo.messaging takes whatever the broker has,
    and what a killed process had taken is lost. A call that is not dispatched before nobody waits
    for it any more is dropped without an answer: it would be sent again and again to a queue that
    may be gone, and keep this place meanwhile.
    """
    taken: set[Any] = set()
    if getattr(server, "_executor_cls", None) is None:
        LOG.warning("This oslo.messaging cannot bound its intake; going on without")
    else:
        server._executor_cls = partial(BoundedExecutor, most, longest_wait, taken)
    return taken


class BoundedExecutor:
    """Handles messages in threads that end when they are not needed, in place of the library's.

    That one starts a thread for each of the first 64 messages, although others are idle, and keeps
    all of them for ever.
    """

    def __init__(
        self, most: int, longest_wait: Callable[[], float], taken: set[Any], max_workers: int
    ) -> None:
        self._longest_wait = longest_wait
        self._taken = taken
        self._places = Semaphore(min(most, max_workers))
        self._threads = CachedThreadPool()

    def submit(self, handle: Any, incoming: Any) -> Any:
        """Handle a message as soon as there is a place; return what will have the result."""
        deadline = deadlines.stamp(incoming[0], self._longest_wait())
        self._places.acquire()
        try:
            future = self._threads.run(lambda: _handle_in_time(handle, incoming, deadline))
        except BaseException:
            self._places.release()
            raise
        self._taken.add(future)
        future.add_done_callback(self._taken.discard)
        future.add_done_callback(lambda _: self._places.release())
        return future

    def shutdown(self, wait: bool = True) -> None:
        """Return when all that was taken has been handled."""
        if wait:
            futures.wait([*self._taken])


def _handle_in_time(handle: Any, incoming: Any, deadline: Deadline) -> None:
    """Handle a message unless nobody waits for it any more."""
    patience = min(deadline.seconds, _seconds_of_silence(incoming[0]))
    waited = deadline.waited()
    if waited < patience:
        handle(incoming)
        return
    caller = RequestContext.from_dict(incoming[0].ctxt)
    caller.for_logging()
    LOG.info(
        "Dropped the call %s of %s: it waited %.1f s for its turn, and after %g s nobody waits for"
        " the answer",
        shown(incoming[0].message.get("method")),
        caller.request_id,
        waited,
        patience,
    )


def _seconds_of_silence(incoming: Any) -> float:
    """Return how long a caller waits for the first sign that its call is being handled.

    Callers since Stein say so: a heartbeat is sent from then on twice in this time.
    """
    seconds = getattr(incoming, "client_timeout", None)
    return seconds if isinstance(seconds, (int, float)) and seconds > 0 else math.inf


def _hand_over_late_arrivals(server: Any) -> None:
    """Dispatch what arrived between the last poll and the end of the subscription.

    Closing the connection would acknowledge and drop it. Transports without consumers have none.
    It relies on names that oslo.messaging keeps to itself; without them such a request is lost.
    """
    listener = getattr(server.listener, "_poll_style_listener", None)
    consumers = getattr(getattr(listener, "conn", None), "_consumers", None)
    if listener is None or consumers is None:
        return
    # Where the broker is gone, it delivers no more.
    stop_each(*(partial(consumer.cancel, tag) for consumer, tag in list(consumers.items())))
    while listener.incoming:
        server._on_incoming([listener.incoming.pop(0)])
