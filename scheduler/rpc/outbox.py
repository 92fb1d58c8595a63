# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Sending notifications from a thread of its own, so that no request waits for their broker.

oslo.messaging sends in the thread that notifies. With a broker that is gone, or that hangs, a
request would take a quarter of a minute longer, or never be answered.
"""

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

import oslo_messaging
from oslo_log import log

LOG = log.getLogger(__name__)

# So many wait at most: what a busy scheduler tells in seconds.
MOST_WAITING = 1_000
# How often oslo.messaging looks for the broker anew in one attempt. A connection that the broker
# has closed meanwhile shows only in its use.
RECONNECTIONS = 1
# Seconds: from one attempt to the next, twice as long each time; of a stop that waits for the rest.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class _Letter:
    """A notification with its address, in the terms of a driver of oslo.messaging."""

    target: oslo_messaging.Target
    context: dict[str, Any]
    message: dict[str, Any]
    version: float
    retry: int | None

    @property
    def waits_for_ever(self) -> bool:
        """Tell whether it is to be sent however long that takes, which is the default."""
        return self.retry is None or self.retry < 0


class Outbox:
    """Stands in for the driver of a transport: takes notifications, and has it send them later.

    Beyond MOST_WAITING they are lost. [oslo_messaging_notifications] retry counts as ever, save
    that for ever means as long as the process runs. What one sends waits for all that it took
    before, and for no other one; several may have the same transport. ``what`` is how the log
    calls what it sends.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        what: str = "notifications",
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self.conf = transport.conf
        self._transport = transport
        self._what = what
        self._first_pause = self._pause = first_pause
        self._waiting: deque[_Letter] = deque()
        self._condition = Condition()
        self._stopping = False
        self._failing = False
        self._lost = 0
        # What an operator was told since all was well.
        self._said: set[str] = set()
        self._thread = Thread(target=self._run, name="notifications", daemon=True)

    def start(self) -> None:
        """Begin to send; returns at once."""
        self._thread.start()

    def leave(self) -> None:
        """Begin to end: send what waits, unless that fails once more; returns at once."""
        with self._condition:
            self._stopping, self._failing = True, False
            self._condition.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, but not longer; tell whether nothing is being sent any more."""
        if self._thread.ident:
            self._thread.join(seconds)
        if self._waiting:
            LOG.warning("Leaving with %s %s that could not be sent", len(self._waiting), self._what)
        return not self._thread.is_alive()

    def send_notification(
        self,
        target: oslo_messaging.Target,
        context: dict[str, Any],
        message: dict[str, Any],
        version: float,
        retry: int | None = None,
    ) -> None:
        """Take a notification; returns at once and never fails. Called by oslo.messaging."""
        letter = _Letter(target, context, message, version, retry)
        with self._condition:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(letter)
                self._condition.notify_all()
            else:
                self._lose(f"{MOST_WAITING} others wait to be sent")

    def _run(self) -> None:
        while letter := self._next():
            try:
                self._send(letter)
            # Of oslo.messaging or any library below: a thread that ends would send no more.
            except Exception as error:
                self._failed(letter, error)
            else:
                self._sent()

    def _next(self) -> _Letter | None:
        """Wait for a notification, which stays the first; None when it is time to leave."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._stopping)
            if self._stopping and (self._failing or not self._waiting):
                return None
            return self._waiting[0]

    def _send(self, letter: _Letter) -> None:
        retry = RECONNECTIONS if letter.waits_for_ever else letter.retry
        # A copy: the driver adds to it, while another one of the notifier's may be reading.
        message = dict(letter.message)
        self._transport._send_notification(
            letter.target, letter.context, message, letter.version, retry=retry
        )

    def _sent(self) -> None:
        with self._condition:
            self._waiting.popleft()
            self._failing, self._pause = False, self._first_pause
            # As long as others wait, more may be lost at any moment.
            if self._said and not self._waiting:
                LOG.info("%s are sent again; %s were lost", self._what.capitalize(), self._lost)
                self._said.clear()
                self._lost = 0

    def _failed(self, letter: _Letter, error: Exception) -> None:
        said = " ".join(str(error).split()) or repr(error)
        with self._condition:
            self._failing = True
            self._say_once("%s cannot be sent: %s", said)
            # What cannot be written as JSON never can.
            if not letter.waits_for_ever or isinstance(error, (TypeError, ValueError)):
                self._waiting.popleft()
                self._lose("more attempts are not allowed")
            self._condition.wait_for(lambda: self._stopping, self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _lose(self, reason: str) -> None:
        self._lost += 1
        self._say_once("%s are being lost: %s", reason)

    def _say_once(self, text: str, reason: str) -> None:
        """Warn of something that has not been said since all was well."""
        if text not in self._said:
            self._said.add(text)
            LOG.warning(text, self._what.capitalize(), reason)


def stop(outboxes: Collection[Outbox], transport: oslo_messaging.Transport) -> None:
    """Let all of them send what waits, at the same time, and close their transport after that."""
    for each in outboxes:
        each.leave()
    until = time.monotonic() + PATIENCE
    ended = [each.wait(max(0.0, until - time.monotonic())) for each in outboxes]
    # An attempt that takes too long is left to end with the process.
    if all(ended):
        transport.cleanup()
