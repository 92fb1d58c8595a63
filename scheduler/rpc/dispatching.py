# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What oslo.messaging leaves open or does at a price: messages of no form, signs of life, polls."""

import logging
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
# Names of methods are as long as callers like.
MAX_REASON = 300
# What AMQP takes for the name of a queue.
MAX_QUEUE_NAME = 255
# What oslo.messaging says, with a traceback each, of messages that cannot be read or come twice.
SENDERS_FAULTS = {
    "oslo.messaging._drivers.impl_rabbit": "Failed to process message ... skipping it.",
    "oslo_messaging._drivers.amqpdriver": "ignoring duplicate message %s",
}
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
        LOG.info("Refused a call: %s", reason[:MAX_REASON])
        raise refusal

    dispatcher.dispatch = refusing


def drop_unreadable(server: Any) -> None:
    """Drop messages of which not even the context can be read, with one line of the log.

    oslo.messaging rejects them after it has acknowledged them, whereupon the connection to the
    broker is closed and made again: nobody is served meanwhile. An answer to what is no name of a
    queue does the same, for a minute. For a server that has started.
    """
    for logger in SENDERS_FAULTS:
        logging.getLogger(logger).addFilter(_without_traceback)
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
            if _is_answerable(message):
                take(message)
                return
            message.acknowledge()
            LOG.info(
                "Dropped a call: its _reply_q %s is no name of a queue",
                shown(message.get("_reply_q")),
            )
        # The names and values in a context are the sender's, and so are the errors.
        except Exception as error:
            LOG.info("Dropped a message that cannot be read: %s", type(error).__name__)

    return taking


def _without_traceback(record: logging.LogRecord) -> bool:
    """Say in one line what is the mistake of a sender: its messages come as fast as it likes."""
    if record.exc_info and record.exc_info[0] and SENDERS_FAULTS.get(record.name) == record.msg:
        record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
        record.exc_info = None
    return True


def _is_answerable(message: Any) -> bool:
    """Tell whether an answer can be sent, or none is wanted."""
    queue = message.get("_reply_q")
    if not message.get("_msg_id"):
        return True
    if not isinstance(queue, str) or not queue:
        return False
    return len(queue.encode(errors="replace")) <= MAX_QUEUE_NAME


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
