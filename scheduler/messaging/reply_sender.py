# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One thread that sends the answers to calls: all that have accumulated in one write.

While the broker confirms a batch the next one accumulates. What is not confirmed is sent again; a
queue that is gone, or a broker that is blocked or gone, stops this thread and nobody else.
"""

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from oslo_log import log

from conf import private_rabbit
from inventory.objects.field_types import shown
from scheduler.messaging.call import Answer, Call
from scheduler.messaging.dispatcher import heartbeat_period

LOG = log.getLogger(__name__)
# Seconds between two attempts: at a queue that is gone, as oslo.messaging has it; at a broker.
QUEUE_PAUSE = 0.25
FIRST_PAUSE, MAX_PAUSE = 0.5, 4.0
# Seconds an answer is of use where its caller does not say how long it waits.
LONGEST = 300.0
# Seconds between two looks at an idle connection.
IDLE = 5.0
# Seconds that a stop waits for queues that are gone.
STOPPING = 2.0
# For how many seconds answers to a queue are dropped once it was waited for in vain.
GONE = 60.0


@dataclass(eq=False, slots=True)
class _Reply:
    """An answer, or a heartbeat, on its way to the queue of a caller."""

    call: Call
    queue: str
    body: bytes
    is_last: bool
    # By the monotonic clock: when nobody waits for it any more, when it is sent, and since when
    # its queue is not there.
    expires: float
    due: float = 0.0
    missing_since: float | None = None


@dataclass(slots=True)
class _Heartbeats:
    """Those of a call that has no answer yet: one each period, the next when it is due."""

    period: float
    due: float


_Item = tuple[Call, Answer | _Heartbeats | None]


class ReplySender:
    """Sends answers, and call-monitor heartbeats as long as a call has no answer."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._patience = private_rabbit.missing_queue_patience(transport)
        # Calls that get heartbeats from now on, and answered ones; None ends the thread.
        self._accumulated: SimpleQueue[_Item | None] = SimpleQueue()
        self._unsent: dict[_Reply, None] = {}
        self._monitored: dict[Call, _Heartbeats] = {}
        # Until when answers to a queue are dropped.
        self._gone: dict[str, float] = {}
        self._broker_pause = FIRST_PAUSE
        self._publisher: private_rabbit.Publisher | None = None
        self._is_closing = False
        self._thread = Thread(target=self._run, name="replies", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def unsent(self) -> int:
        """How many answers the broker has not confirmed."""
        return self._accumulated.qsize() + len(self._unsent)

    def monitor(self, call: Call) -> None:
        """Send heartbeats to a caller that asks for them until its call is answered."""
        if (period := heartbeat_period(call.silence)) is not None:
            self._accumulated.put((call, _Heartbeats(period, time.monotonic() + period)))

    def send(self, call: Call, answer: Answer | None) -> None:
        """Send an answer, from any thread; None ends the heartbeats of a call that is dropped."""
        self._accumulated.put((call, answer))

    def close(self) -> None:
        """Return when all answers have been sent, or their callers have given up."""
        if self._thread.ident is not None:
            self._accumulated.put(None)
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closing or self._unsent:
            try:
                self._step()
            # A bug of ours or of a library's must not end all answers.
            except Exception:
                LOG.exception("Cannot send answers, trying again")
                time.sleep(FIRST_PAUSE)
        if self._publisher is not None:
            self._publisher.abandon()

    def _step(self) -> None:
        self._collect()
        self._add_heartbeats()
        now = time.monotonic()
        due = [reply for reply in self._unsent if reply.due <= now]
        try:
            if due:
                self._publisher = self._publisher or private_rabbit.Publisher(self._transport)
                self._publisher.publish(due, self._settle)
            elif self._publisher is not None:
                self._publisher.idle()
            self._broker_pause = FIRST_PAUSE
        # Of oslo.messaging, kombu, amqp or the socket.
        except Exception as error:
            LOG.info("Lost the connection for answers: %s: %s", type(error).__name__, error)
            self._lose_connection()

    def _collect(self) -> None:
        """Wait until there is something to do, and take all that has accumulated."""
        with suppress(Empty):
            self._take(self._accumulated.get(timeout=self._pause()))
            while True:
                self._take(self._accumulated.get_nowait())

    def _take(self, item: _Item | None) -> None:
        if item is None:
            self._is_closing = True
            return
        call, answer = item
        if isinstance(answer, _Heartbeats):
            self._monitored[call] = answer
            return
        self._monitored.pop(call, None)
        if answer is not None and not self._is_gone(call.reply_queue):
            self._add(call, _body(call, answer), is_last=True)

    def _pause(self) -> float:
        """Return for how many seconds there is nothing to do but what accumulates."""
        due = (reply.due for reply in self._unsent)
        first = min((*due, *(beat.due for beat in self._monitored.values())), default=math.inf)
        return max(min(first - time.monotonic(), IDLE), 0.0)

    def _add(self, call: Call, body: bytes, is_last: bool) -> None:
        left = min(call.expiration - call.queued - call.deadline.waited(), LONGEST)
        expires = time.monotonic() + left
        self._unsent[_Reply(call, str(call.reply_queue), body, is_last, expires)] = None

    def _add_heartbeats(self) -> None:
        now = time.monotonic()
        for call, beat in self._monitored.items():
            if beat.due <= now:
                beat.due = now + beat.period
                body = private_rabbit.reply_body(call.message_id, None, None, is_last=False)
                self._add(call, body, is_last=False)

    def _settle(self, reply: _Reply, is_sent: bool) -> None:
        """Forget what the broker has; keep what its queue is waited for."""
        now = time.monotonic()
        if is_sent:
            del self._unsent[reply]
        elif not reply.is_last or self._is_gone(reply.queue):
            del self._unsent[reply]
            self._monitored.pop(reply.call, None)
        else:
            reply.missing_since = reply.missing_since or now
            patience = min(self._patience, STOPPING) if self._is_closing else self._patience
            if now < min(reply.missing_since + patience, reply.expires):
                reply.due = now + QUEUE_PAUSE
                return
            del self._unsent[reply]
            self._gone[reply.queue] = now + GONE
            LOG.info(
                "Dropped the answer to the call %s: its queue %s is not there since %.1f s",
                *(shown(reply.call.method), shown(reply.queue), now - reply.missing_since),
            )

    def _is_gone(self, queue: str | None) -> bool:
        """Return whether answers to a queue are dropped, since it was missing for long lately."""
        if self._gone:
            now = time.monotonic()
            self._gone = {name: until for name, until in self._gone.items() if until > now}
        return queue in self._gone

    def _lose_connection(self) -> None:
        """Send unconfirmed answers whose callers still wait over another connection."""
        if self._publisher is not None:
            self._publisher.abandon()
            self._publisher = None
        now = time.monotonic()
        self._unsent = {
            reply: None for reply in self._unsent if reply.is_last and reply.expires > now
        }
        time.sleep(self._broker_pause)
        self._broker_pause = min(2 * self._broker_pause, MAX_PAUSE)


def _body(call: Call, answer: Answer) -> bytes:
    try:
        return private_rabbit.reply_body(call.message_id, answer.result, answer.error)
    # A result that JSON cannot say.
    except Exception as error:
        LOG.exception("Cannot send the answer to the call %s", shown(call.method))
        return private_rabbit.reply_body(call.message_id, None, error)
