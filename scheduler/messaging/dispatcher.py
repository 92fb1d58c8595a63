# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Dispatch messages to endpoints; refuse malformed ones, send heartbeats to those who wait."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import ismethod
from threading import Lock, Thread
from typing import Any

import oslo_messaging
from oslo_log import log

from conf import private_apis
from inventory.objects.field_types import shown
from scheduler.messaging.call import Answer, Call
from scheduler.wire.context import Deadline, size_of
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


POLICY = PublicMethods()
# Of an endpoint that names none.
ANY = oslo_messaging.Target()
# What takes calls that it answers itself, such as many at once, and returns the others.
Take = Callable[[Sequence[Call]], Sequence[Call]]


def take_none(calls: Sequence[Call]) -> Sequence[Call]:
    """Leave all calls to the endpoints."""
    return calls


def dispatch(endpoints: Iterable[object], call: Call) -> None:
    """Let a method of an endpoint answer a call, in this thread; refuse what has not its form."""
    try:
        result = find_method(endpoints, call)(call.context, **call.args)
    except oslo_messaging.ExpectedException as expected:
        call.fail(expected.exc_info[1], is_expected=True)
    except REFUSALS as refusal:
        LOG.info("Refused a call: %s", str(refusal)[:MAX_REASON])
        call.fail(refusal, is_expected=True)
    except Exception as error:
        call.fail(error)
    else:
        call.reply(result)


def find_method(endpoints: Iterable[object], call: Call) -> Callable[..., Any]:
    """Return the method that a call asks for, or raise one of REFUSALS."""
    _check_form(call)
    is_served = False
    for endpoint in endpoints:
        target = getattr(endpoint, "target", None) or ANY
        if call.namespace not in target.accepted_namespaces or not _serves(target, call.version):
            continue
        if hasattr(endpoint, call.method) and POLICY.is_allowed(endpoint, call.method):
            method: Callable[..., Any] = getattr(endpoint, call.method)
            return method
        is_served = True
    if is_served:
        raise oslo_messaging.NoSuchMethod(call.method)
    raise oslo_messaging.UnsupportedVersion(call.version, method=call.method)


def _serves(target: oslo_messaging.Target, version: str | None) -> bool:
    """Return whether an endpoint of a version serves another: one major, and nothing newer."""
    if version is None:
        return False
    asked = [int(each) for each in version.split(".")]
    served = [int(each) for each in (target.version or "1.0").split(".")]
    return asked[0] == served[0] and [*asked[1:], 0][:2] <= [*served[1:], 0][:2]


class CheckedDispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc]  # no types
    """Dispatches what a server of oslo.messaging has received, and sends call-monitor heartbeats.

    take may answer a call instead of an endpoint; the thread of the call waits for that.
    """

    def __init__(self, endpoints: Sequence[object], take: Take = take_none) -> None:
        super().__init__(list(endpoints), None, PublicMethods)
        self._take = take
        self._heartbeats = CallHeartbeats()

    def dispatch(self, incoming: Any) -> Any:
        """Return the result of a call or raise its error, as an ExpectedException if it is one."""
        answered: Future[Answer | None] = Future()
        call = _call_of(incoming, answered)
        with self._heartbeats.during(incoming):
            for left in self._take([call]):
                dispatch(self.endpoints, left)
            answer = answered.result() or Answer()
        if answer.error is None:
            return answer.result
        try:
            raise answer.error
        except BaseException:
            if not answer.is_expected:
                raise
            # It takes over the error that is being handled, which is sent to the caller.
            refusal = oslo_messaging.ExpectedException()
        raise refusal


def _call_of(incoming: Any, answered: "Future[Answer | None]") -> Call:
    def on_answer(_: Call, answer: Answer | None) -> None:
        with suppress(InvalidStateError):
            answered.set_result(answer)

    message, awaits_reply = incoming.message, private_apis.awaits_reply(incoming)
    return Call(
        method=message.get("method"),
        version=message.get("version", "1.0"),
        namespace=message.get("namespace"),
        args=message.get("args", {}),
        context=incoming.ctxt,
        deadline=Deadline.of(incoming.ctxt),
        size=size_of(incoming.ctxt),
        message_id=incoming.msg_id if awaits_reply else None,
        reply_queue=incoming.reply_q if awaits_reply else None,
        # Its heartbeats are sent, and it has just been found to be in time.
        silence=None,
        queued=0.0,
        expiration=private_apis.expiration(incoming),
        on_answer=on_answer,
    )


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
            if is_answerable(message):
                receive(message)
                return
            message.acknowledge()
            log_unanswerable(message)
        except Exception as error:
            log_unreadable(error)

    return receive_readable


def _without_traceback(record: logging.LogRecord) -> bool:
    """Shorten the record of a sender's fault, of which there may be many in a second."""
    if record.exc_info and record.exc_info[0] and SENDERS_FAULTS.get(record.name) == record.msg:
        record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
        record.exc_info = None
    return True


def is_answerable(message: Mapping[str, Any]) -> bool:
    """Return whether a reply can be sent, or none is expected."""
    queue = message.get("_reply_q")
    if not message.get("_msg_id"):
        return True
    if not isinstance(queue, str) or not queue:
        return False
    return len(queue.encode(errors="replace")) <= MAX_QUEUE_NAME


def log_unanswerable(message: Mapping[str, Any]) -> None:
    LOG.info(
        "Dropped a call: its _reply_q %s is not the name of a queue", shown(message.get("_reply_q"))
    )


def log_unreadable(error: Exception) -> None:
    # The names and values in a message are the sender's, and so are the errors.
    LOG.info("Dropped a message that cannot be read: %s", type(error).__name__)


def _check_form(call: Call) -> None:
    """Raise one of REFUSALS for what has not the form of a call."""
    if not isinstance(call.method, str):
        raise oslo_messaging.NoSuchMethod(shown(call.method))
    if not _is_version(call.version):
        raise oslo_messaging.UnsupportedVersion(shown(call.version), method=shown(call.method))
    if not isinstance(call.args, dict):
        raise InvalidInput(f"args: {shown(call.args)} is not an object")


def _is_version(value: Any) -> bool:
    """Return whether it is a version of two or three numbers, or None, which fits no endpoint."""
    if value is None:
        return True
    parts = value.split(".") if isinstance(value, str) else ()
    return 2 <= len(parts) <= 3 and all(each.isdecimal() and len(each) < 10 for each in parts)


@dataclass(eq=False, slots=True)
class _Monitored:
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
        self._calls: set[_Monitored] = set()
        self._lock = Lock()
        self._looking = False

    @contextmanager
    def during(self, incoming: Any) -> Iterator[None]:
        """Send heartbeats to the caller that sent a message, if it asks for them."""
        period = heartbeat_period(private_apis.call_monitor_timeout(incoming))
        private_apis.disable_heartbeats(incoming)
        if period is None:
            yield
            return
        call = _Monitored(incoming, period, time.monotonic() + period)
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

    def _send(self, call: _Monitored) -> None:
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


def heartbeat_period(timeout: Any) -> float | None:
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
