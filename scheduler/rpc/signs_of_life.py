# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Signs of life for callers who ask for them while their calls are being handled.

oslo.messaging starts a thread for every call and waits for its end, which callers since Stein pay
for with each request, however soon it is answered. Here one thread looks after all calls.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from oslo_log import log

LOG = log.getLogger(__name__)
# Seconds between two looks at the calls. No caller is told more often than once in a second.
LOOK, SHORTEST = 0.5, 1.0


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is being handled: its caller is to be told every so many seconds."""

    incoming: Any
    period: float
    due: float
    lock: Lock = field(default_factory=Lock)
    over: bool = False


class SignsOfLife:
    """Tells callers "still at it", in the place of a dispatcher of oslo.messaging."""

    def __init__(self) -> None:
        self._calls: set[_Call] = set()
        self._lock = Lock()
        self._looking = False

    @contextmanager
    def given(self, incoming: Any) -> Iterator[None]:
        """Tell whoever sent a message, if it wants to know, for as long as this lasts."""
        period = _period(getattr(incoming, "client_timeout", None))
        # The dispatcher has nothing to do then.
        incoming.client_timeout = None
        if period is None:
            yield
            return
        call = _Call(incoming, period, time.monotonic() + period)
        try:
            self._begin(call)
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
            # Nobody is told of a call that has been answered.
            with call.lock:
                call.over = True

    def _begin(self, call: _Call) -> None:
        with self._lock:
            self._calls.add(call)
            if self._looking:
                return
            self._looking = _started(self._look)

    def _look(self) -> None:
        while True:
            time.sleep(LOOK)
            now = time.monotonic()
            with self._lock:
                if not self._calls:
                    self._looking = False
                    return
                # Who is being told, over a broker that hangs, is not told once more.
                due = [each for each in self._calls if each.due <= now and not each.lock.locked()]
            for each in due:
                each.due = now + each.period
                # One whose queue is gone must not keep the others waiting.
                _started(self._tell, each)

    def _tell(self, call: _Call) -> None:
        with call.lock:
            if call.over:
                return
            try:
                call.incoming.heartbeat()
            # The broker or the caller is gone; the call goes on, as with oslo.messaging.
            except Exception as error:
                LOG.debug("No more signs of life for a caller: %s", error)
                with self._lock:
                    self._calls.discard(call)


def _period(patience: Any) -> float | None:
    """Return every how many seconds a caller is told that gives up after so many without a sign.

    None for one that does not, or who sent what nobody can wait for.
    """
    try:
        period = int(patience) / 2
    except (TypeError, ValueError, OverflowError):
        return None
    return period if period >= SHORTEST else None


def _started(work: Callable[..., None], *arguments: Any) -> bool:
    """Start a thread; False where the process may have no more of them."""
    try:
        Thread(target=work, args=arguments, name="signs-of-life", daemon=True).start()
    except RuntimeError as error:
        LOG.debug("No signs of life for now: %s", error)
        return False
    return True
