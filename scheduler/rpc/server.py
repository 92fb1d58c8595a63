# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An RPC server that takes no more than it can handle and loses nothing when it stops."""

from collections.abc import Sequence
from threading import Semaphore
from typing import Any

import oslo_messaging
from oslo_log import log

LOG = log.getLogger(__name__)


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
        _bound(self._server, most_in_flight)

    def start(self) -> None:
        """Begin to take requests."""
        self._server.start()

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


def _bound(server: Any, most: int) -> None:
    """Let the server dispatch that many requests at a time; the rest waits in the broker.

    oslo.messaging takes whatever the broker has, and what a killed process had taken is lost.
    """
    executor = getattr(server, "_executor_cls", None)
    if executor is None:
        LOG.warning("This oslo.messaging cannot bound its intake; going on without")
        return

    class BoundedExecutor(executor):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._places = Semaphore(most)

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self._places.acquire()
            try:
                future = super().submit(*args, **kwargs)
            except BaseException:
                self._places.release()
                raise
            future.add_done_callback(lambda _: self._places.release())
            return future

    server._executor_cls = BoundedExecutor


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
