# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Dispatch messages to endpoints; refuse malformed ones, send heartbeats to those who wait."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import ismethod
from threading import Lock, Thread
from typing import Any

import oslo_messaging
from oslo_log import log

from conf import private_apis
from inventory.objects.field_types import shown
from scheduler.wire.errors import InvalidInput

LOG = log.getLogger(__name__)
# Seconds between two looks at the calls, and at least between two heartbeats for a caller.
LOOK, SHORTEST = 0.5, 1.0
# Names of methods are as long as callers like.
MAX_REASON = 300
# What AMQP takes for the name of a queue.
MAX_QUEUE_NAME = 255
# What oslo.messaging logs, with a traceback each, of messages that are unreadable or come twice.
SENDERS_FAULTS = {
    private_apis.RABBIT_LOGGER: private_apis.UNREADABLE_MESSAGE,
    private_apis.AMQP_LOGGER: private_apis.DUPLICATE_MESSAGE,
}
REFUSALS = (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion, InvalidInput)


class PublicMethods(oslo_messaging.DefaultRPCAccessPolicy):  # type: ignore[misc]  # no types
    """Allow the methods of an endpoint without a leading underscore, and no other attributes."""

    def is_allowed(self, endpoint: object, method: str) -> bool:
        """Return whether a method may be called, by its name."""
        return super().is_allowed(endpoint, method) and ismethod(getattr(endpoint, method))


class CheckedDispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc]  # no types
    """Dispatches messages that have the form of a call, and sends call-monitor heartbeats.

    The caller gets an error for any other, and the log one line instead of a traceback.
    """

    def __init__(self, endpoints: Sequence[object]) -> None:
        super().__init__(list(endpoints), None, PublicMethods)
        self._heartbeats = CallHeartbeats()

    def dispatch(self, incoming: Any) -> Any:
        """Return what a method of an endpoint returns; raise ExpectedException for a refusal."""
        try:
            _check_form(incoming.message)
            with self._heartbeats.during(incoming):
                return super().dispatch(incoming)
        except REFUSALS as error:
            reason = str(error)
            # It takes over the error that is being handled, which is sent to the caller.
            refusal = oslo_messaging.ExpectedException()
        LOG.info("Refused a call: %s", reason[:MAX_REASON])
        raise refusal


def drop_unreadable(server: Any) -> None:
    """Have a started server drop unreadable messages with one line of the log.

    oslo.messaging acknowledges them and rejects them after that, whereupon the broker closes the
    connection and no request is served until it is back. A reply to an invalid name of a queue does
    the same, for a minute.
    """
    for logger in SENDERS_FAULTS:
        logging.getLogger(logger).addFilter(_without_traceback)
    private_apis.wrap_callbacks(server, _dropping_unreadable)


def _dropping_unreadable(receive: Callable[[Any], None]) -> Callable[[Any], None]:
    def receive_readable(message: Any) -> None:
        try:
            if _is_answerable(message):
                receive(message)
                return
            message.acknowledge()
            LOG.info(
                "Dropped a call: its _reply_q %s is not the name of a queue",
                shown(message.get("_reply_q")),
            )
        # The names and values in a context are the sender's, and so are the errors.
        except Exception as error:
            LOG.info("Dropped a message that cannot be read: %s", type(error).__name__)

    return receive_readable


def _without_traceback(record: logging.LogRecord) -> bool:
    """Shorten the record of a sender's fault, of which there may be many in a second."""
    if record.exc_info and record.exc_info[0] and SENDERS_FAULTS.get(record.name) == record.msg:
        record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
        record.exc_info = None
    return True


def _is_answerable(message: Any) -> bool:
    """Return whether a reply can be sent, or none is expected."""
    queue = message.get("_reply_q")
    if not message.get("_msg_id"):
        return True
    if not isinstance(queue, str) or not queue:
        return False
    return len(queue.encode(errors="replace")) <= MAX_QUEUE_NAME


def _check_form(message: Any) -> None:
    """Raise one of REFUSALS for what would be an error of the dispatcher itself."""
    method, version = message.get("method"), message.get("version", "1.0")
    arguments = message.get("args", {})
    if not isinstance(method, str):
        raise oslo_messaging.NoSuchMethod(shown(method))
    if not _is_version(version):
        raise oslo_messaging.UnsupportedVersion(shown(version), method=shown(method))
    if not isinstance(arguments, dict):
        raise InvalidInput(f"args: {shown(arguments)} is not an object")


def _is_version(value: Any) -> bool:
    """Return whether it is a version of two or three numbers, or None, which fits no endpoint."""
    if value is None:
        return True
    parts = value.split(".") if isinstance(value, str) else ()
    return 2 <= len(parts) <= 3 and all(each.isdecimal() and len(each) < 10 for each in parts)


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is being handled; lock is held while a heartbeat is sent."""

    incoming: Any
    period: float
    due: float
    lock: Lock = field(default_factory=Lock)
    over: bool = False


class CallHeartbeats:
    """Sends call-monitor heartbeats to callers who ask for them while their calls are handled.

    oslo.messaging starts a thread for every call and waits for its end, which callers since Stein
    pay for with each request, however soon it is answered. Here one thread looks after all calls.
    """

    def __init__(self) -> None:
        self._calls: set[_Call] = set()
        self._lock = Lock()
        self._looking = False

    @contextmanager
    def during(self, incoming: Any) -> Iterator[None]:
        """Send heartbeats to the caller that sent a message, if it asks for them."""
        period = _period(private_apis.call_monitor_timeout(incoming))
        private_apis.disable_heartbeats(incoming)
        if period is None:
            yield
            return
        call = _Call(incoming, period, time.monotonic() + period)
        try:
            with self._lock:
                self._calls.add(call)
                self._looking = self._looking or _started(self._look)
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
            # No heartbeat may follow the answer.
            with call.lock:
                call.over = True

    def _look(self) -> None:
        while True:
            time.sleep(LOOK)
            now = time.monotonic()
            with self._lock:
                if not self._calls:
                    self._looking = False
                    return
                # A heartbeat that hangs in the broker is not followed by another one.
                due = [each for each in self._calls if each.due <= now and not each.lock.locked()]
            for call in due:
                call.due = now + call.period
                # A caller whose queue is gone must not delay the heartbeats of others.
                _started(self._send, call)

    def _send(self, call: _Call) -> None:
        with call.lock:
            if call.over:
                return
            try:
                call.incoming.heartbeat()
            # The broker or the caller is gone; the call goes on, as with oslo.messaging.
            except Exception as error:
                LOG.debug("Stopped call-monitor heartbeats for a caller: %s", error)
                with self._lock:
                    self._calls.discard(call)


def _period(timeout: Any) -> float | None:
    """Return the seconds between heartbeats; None if the timeout is no number or too short."""
    try:
        period = int(timeout) / 2
    except (TypeError, ValueError, OverflowError):
        return None
    return period if period >= SHORTEST else None


def _started(work: Callable[..., None], *arguments: Any) -> bool:
    """Start a thread; return False where the process may have no more of them."""
    try:
        Thread(target=work, args=arguments, name="call-heartbeats", daemon=True).start()
    except RuntimeError as error:
        LOG.debug("Paused call-monitor heartbeats: %s", error)
        return False
    return True
