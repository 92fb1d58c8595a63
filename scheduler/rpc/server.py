# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An RPC server that takes no more than it can handle and loses nothing when it stops."""

import math
from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from scheduler.objects.kinds import shown
from scheduler.rpc import deadlines
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline

LOG = log.getLogger(__name__)
# Requests that the broker hands out ahead of those that are handled. There they wait where neither
# their expiration nor another scheduler is of any help; one at a time would cost round trips.
PREFETCH = 4
_OTHER_KIND = (
    "The broker has this queue or exchange with other settings: [oslo_messaging_rabbit]"
    " rabbit_quorum_queue, rabbit_transient_quorum_queue and amqp_durable_queues must be those of"
    " all other services on this virtual host, and of the queues that are there"
)


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
            access_policy=oslo_messaging.DefaultRPCAccessPolicy,
        )
        _expect_refusals(self._server.dispatcher)
        _prefetch_little(transport.conf)
        self._longest_wait = math.inf
        _bound(self._server, most_in_flight, lambda: self._longest_wait)

    def drop_after(self, seconds: float) -> None:
        """Drop calls that wait so long for their turn, however long their callers would."""
        self._longest_wait = seconds

    def start(self) -> None:
        """Begin to take requests; raises MessageDeliveryFailure where the broker refuses."""
        try:
            self._server.start()
        except oslo_messaging.MessageDeliveryFailure as error:
            if "PRECONDITION_FAILED" in str(error):
                raise oslo_messaging.MessageDeliveryFailure(f"{_OTHER_KIND}: {error}") from None
            raise

    def alive(self) -> bool:
        """Tell whether the thread that takes requests still runs."""
        thread = getattr(self._server.listener, "_listen_thread", None)
        return thread is None or bool(thread.is_alive())

    def drain(self) -> None:
        """Stop taking requests and return when every one that was taken has been answered."""
        self._server.stop()
        try:
            _hand_over_late_arrivals(self._server)
        # It relies on names that oslo.messaging keeps to itself; without them a request that is
        # being delivered at this very moment is lost, and nothing else.
        except AttributeError as error:
            LOG.warning("This oslo.messaging cannot be drained (%s); stopping without", error)
        self._server.wait()


def _expect_refusals(dispatcher: oslo_messaging.RPCDispatcher) -> None:
    """Log a call of a method or version that is not served as one line, without a traceback.

    It is the caller's mistake, or its curiosity, and no failure of this service.
    """
    dispatch = dispatcher.dispatch

    def expecting(incoming: Any) -> Any:
        try:
            return dispatch(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            reason = str(error)
            # It takes the error that is being handled, which the caller gets to see.
            refusal = oslo_messaging.ExpectedException()
        LOG.info("Refused a call: %s", reason)
        raise refusal

    dispatcher.dispatch = expecting


def _prefetch_little(conf: Any) -> None:
    """Change the default of oslo.messaging, which has the broker hand out all that it has."""
    try:
        conf.set_default("rabbit_qos_prefetch_count", PREFETCH, group="oslo_messaging_rabbit")
    except (cfg.NoSuchGroupError, cfg.NoSuchOptError):
        # The option of another driver than that for RabbitMQ.
        return


def _bound(server: Any, most: int, longest_wait: Callable[[], float]) -> None:
    """Let the server dispatch that many requests at a time; the rest waits in the broker.

    oslo.messaging takes whatever the broker has, and what a killed process had taken is lost. A
    call that is not dispatched before nobody waits for it any more is dropped without an answer:
    it would be sent again and again to a queue that may be gone, and keep this place meanwhile.
    """
    executor = getattr(server, "_executor_cls", None)
    if executor is None:
        LOG.warning("This oslo.messaging cannot bound its intake; going on without")
        return

    class BoundedExecutor(executor):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._places = Semaphore(most)

        def submit(self, handle: Any, incoming: Any) -> Any:
            deadline = deadlines.stamp(incoming[0], longest_wait())
            self._places.acquire()
            try:
                future = super().submit(_handle_in_time, handle, incoming, deadline)
            except BaseException:
                self._places.release()
                raise
            future.add_done_callback(lambda _: self._places.release())
            return future

    server._executor_cls = BoundedExecutor


def _handle_in_time(handle: Any, incoming: Any, deadline: Deadline) -> None:
    """Handle a message unless nobody waits for it any more."""
    if not deadline.passed():
        handle(incoming)
        return
    caller = RequestContext.from_dict(incoming[0].ctxt)
    caller.for_logging()
    LOG.info(
        "Dropped the call %s of %s: it waited %.1f s for its turn, and after %g s nobody waits for"
        " the answer",
        shown(incoming[0].message.get("method")),
        caller.request_id,
        deadline.waited(),
        deadline.seconds,
    )


def _hand_over_late_arrivals(server: Any) -> None:
    """Dispatch what arrived between the last poll and the end of the subscription.

    Closing the connection would acknowledge and drop it. Transports without consumers have none.
    """
    listener = getattr(server.listener, "_poll_style_listener", None)
    consumers = getattr(getattr(listener, "conn", None), "_consumers", None)
    if listener is None or consumers is None:
        return
    for consumer, tag in list(consumers.items()):
        consumer.cancel(tag)
    while listener.incoming:
        server._on_incoming([listener.incoming.pop(0)])
