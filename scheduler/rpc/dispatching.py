# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What oslo.messaging leaves open: messages of no form, and signs of life of what is over."""

from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_log import log

from scheduler.objects.kinds import shown
from scheduler.rpc.failures import InvalidInput

LOG = log.getLogger(__name__)
Dispatch = Callable[[Any], Any]
REFUSALS = (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion, InvalidInput)


def mend(dispatcher: oslo_messaging.RPCDispatcher) -> None:
    """Refuse what cannot be dispatched with one line of the log, and end signs of life with a call.

    It is the caller's mistake, or its curiosity, and no failure of this service.
    """
    _end_signs_of_life(dispatcher)
    dispatch = dispatcher.dispatch

    def refusing(incoming: Any) -> Any:
        try:
            _check_form(incoming.message)
            return dispatch(incoming)
        except REFUSALS as error:
            reason = str(error)
            # It takes the error that is being handled, which the caller gets to see.
            refusal = oslo_messaging.ExpectedException()
        LOG.info("Refused a call: %s", reason)
        raise refusal

    dispatcher.dispatch = refusing


def drop_unreadable(server: Any) -> None:
    """Drop messages of which not even the context can be read, with one line of the log.

    oslo.messaging rejects them after it has acknowledged them, whereupon the connection to the
    broker is closed and made again: nobody is served meanwhile. For a server that has started.
    """
    listener = getattr(server.listener, "_poll_style_listener", None)
    # Transports without consumers are in this process.
    for consumer in getattr(getattr(listener, "conn", None), "_consumers", ()):
        consumer.callback = _dropping(consumer.callback)


def _dropping(take: Callable[[Any], None]) -> Callable[[Any], None]:
    def taking(message: Any) -> None:
        try:
            take(message)
        # The names and values in a context are the sender's, and so are the errors.
        except Exception as error:
            LOG.info("Dropped a message that cannot be read: %s", type(error).__name__)

    return taking


def _check_form(message: Any) -> None:
    """Raise one of the refusals for what would be an error of the dispatcher itself."""
    method, version = message.get("method"), message.get("version", "1.0")
    arguments = message.get("args", {})
    if not isinstance(method, str):
        raise oslo_messaging.NoSuchMethod(shown(method))
    if not _is_version(version):
        raise oslo_messaging.UnsupportedVersion(shown(version), method=shown(method))
    if not isinstance(arguments, dict):
        raise InvalidInput(f"args: {shown(arguments)} is not an object")


def _is_version(value: Any) -> bool:
    """Tell whether it is a version of two or three numbers, or none, which fits no endpoint."""
    if value is None:
        return True
    parts = value.split(".") if isinstance(value, str) else ()
    return 2 <= len(parts) <= 3 and all(each.isdecimal() and len(each) < 10 for each in parts)


def _end_signs_of_life(dispatcher: Any) -> None:
    """Let the thread that tells a caller "still at it" end with the call, whatever its end.

    oslo.messaging begins one before it looks for the method, and ends it after the method only: for
    one that there is not, it would go on as long as the caller has its queue.
    """
    dispatch, watch = dispatcher.dispatch, dispatcher._watchdog

    def dispatching(incoming: Any) -> Any:
        try:
            return dispatch(incoming)
        finally:
            incoming.is_over = True
            watched = getattr(incoming, "watched", None)
            if watched is not None:
                watched.set()

    def watching(over: Any, incoming: Any) -> None:
        incoming.watched = over
        # Whichever of the two comes first, the other one sees it.
        if getattr(incoming, "is_over", False):
            over.set()
        try:
            watch(over, incoming)
        except (TypeError, OverflowError) as error:
            LOG.debug("No signs of life for a caller: %s", error)

    dispatcher.dispatch, dispatcher._watchdog = dispatching, watching
