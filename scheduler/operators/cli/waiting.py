# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Wait for others no longer than a user does: databases, agents and schedulers may say nothing.

What may hang is done in a thread of its own, which the command leaves behind when it ends.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread, Timer
from typing import TypeVar

from cliff.app import App

T = TypeVar("T")


@dataclass(slots=True)
class WorkTime:
    """Says whether work goes on: until a deadline on the monotonic clock, or Ctrl-C."""

    deadline: float = math.inf
    interrupted: bool = False

    def __call__(self) -> bool:
        return not self.interrupted and time.monotonic() < self.deadline

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Let the first Ctrl-C in the block end the work, not the command."""

        def interrupt(*_: object) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


# Seconds after which a command says what it waits for.
NOTICE_AFTER = 1.5
# Seconds for an answer that is due, whose error says more than that there was none.
GRACE = 1.0


def in_background(
    work: Callable[[], T], discard: Callable[[T], object] = lambda _: None
) -> Future[T]:
    """Return the result of work() to come, or its error. discard gets one that was cancelled."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        # Who waits for the answer raises it, whatever it is.
        except BaseException as error:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
            return
        if answer.set_running_or_notify_cancel():
            answer.set_result(result)
        else:
            discard(result)

    Thread(target=run, daemon=True).start()
    return answer


@contextmanager
def notice(app: App, whom: str, after: float = NOTICE_AFTER) -> Iterator[None]:
    """Say whom the command waits for, if what is done inside takes longer than after seconds."""
    text = f"waiting for {whom} ...\n"
    timer = Timer(after, lambda: print(text, end="", file=app.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
