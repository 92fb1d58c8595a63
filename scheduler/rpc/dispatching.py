# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What oslo.messaging leaves open or does at a price: messages of no form, signs of life, polls."""

from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_log import log

from scheduler.objects.kinds import shown
from scheduler.rpc.failures import InvalidInput
from scheduler.rpc.signs_of_life import SignsOfLife

LOG = log.getLogger(__name__)
Dispatch = Callable[[Any], Any]
# Seconds between two looks of a server whether it is to stop, while no message comes.
POLL = 0.25
REFUSALS = (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion, InvalidInput)


def mend(dispatcher: oslo_messaging.RPCDispatcher) -> None:
    """Refuse what cannot be dispatched with one line of the log, and give signs of life cheaply.

    It is the caller's mistake, or its curiosity, and no failure of this service.
    """
    dispatch, signs = dispatcher.dispatch, SignsOfLife()

    def refusing(incoming: Any) -> Any:
        try:
            _check_form(incoming.message)
            with signs.given(incoming):
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


def poll_calmly(server: Any) -> None:
    """Let a server that waits for messages do just that. For one that has started.

    oslo.messaging looks for acknowledgements to send after 1 ms, 2 ms, 4 ms and so on, which
    messages of RPC have not: while a request is handled it costs about as much as decoding it.
    After a long silence it looks every 5 seconds, and a stop waits for that.
    """
    connection = getattr(getattr(server.listener, "_poll_style_listener", None), "conn", None)
    if connection is None:
        return
    consume = connection.consume
    connection.consume = lambda timeout=None: consume(timeout=POLL)


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
