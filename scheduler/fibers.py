# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Fibers: requests that share one thread, and hand it on only where they wait for another one.

Native threads hand the interpreter on at each read and write of a socket. With 30 of them that
takes more of the processor than the requests. Eventlet's threads are fibers already.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet
from oslo_context import context as oslo

from scheduler.cached_thread_pool import CachedThreadPool

T = TypeVar("T")
# For how many seconds fibers stand still for what has been run_when_idle(): side by side both would
# take longer.
GRACE = 0.02


def result_of(future: "Future[T]", seconds: float = inf) -> T:
    """Return the result of a future, while other fibers run; raise TimeoutError after some seconds.

    In a thread without fibers it waits as future.result() does.
    """
    fiber = getcurrent()
    if isinstance(fiber, Fiber) and not future.done():
        fiber.wait_for(future, seconds)
        seconds = 0.0
    return future.result(None if seconds == inf else max(0.0, seconds))


def sleep(seconds: float) -> None:
    """Sleep while other fibers run; in a thread without fibers all of it sleeps."""
    if not isinstance(getcurrent(), Fiber):
        time.sleep(seconds)
        return
    with suppress(TimeoutError):
        result_of(Future(), seconds)


class Fibers:
    """Runs work as fibers of one thread, which is started with the first and ends with the process.

    Work that takes long, or waits otherwise than by result_of(), holds up all other fibers.
    """

    def __init__(self) -> None:
        self._ready: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._idle_work: deque[Callable[[], object]] = deque()
        # (time, number, what is to be resumed then).
        self._timers: list[tuple[float, int, _Wait]] = []
        self._numbers = count()
        self._threads = CachedThreadPool()
        self._lock = Lock()
        self._is_started = False

    def run(self, work: Callable[[], T]) -> "Future[T]":
        """Begin work in its turn, and return the future of its result."""
        future: Future[T] = Future()
        self._go_on_with(lambda: Fiber(self).switch(future, work))
        return future

    def run_when_idle(self, work: Callable[[], object]) -> None:
        """Run work in a thread of its own when no fiber can go on any more."""
        self._idle_work.append(work)
        self._go_on_with(lambda: None)

    def resume(self, waiting: "_Wait") -> None:
        """Let a fiber go on in its turn; any thread may call it."""
        self._ready.put(waiting.resume)

    def resume_at(self, time: float, waiting: "_Wait") -> None:
        """Let a fiber go on at a time of the monotonic clock, unless it has gone on before."""
        heapq.heappush(self._timers, (time, next(self._numbers), waiting))

    def _go_on_with(self, step: Callable[[], object]) -> None:
        with self._lock:
            if not self._is_started:
                Thread(target=self._serve, name="fibers", daemon=True).start()
                self._is_started = True
        self._ready.put(step)

    def _serve(self) -> None:
        while True:
            self._next()()

    def _next(self) -> Callable[[], object]:
        """Return what goes on next, as soon as there is something."""
        try:
            return self._ready.get_nowait()
        except Empty:
            while self._idle_work:
                futures.wait([self._threads.run(self._idle_work.popleft())], GRACE)
        try:
            until = self._timers[0][0] - monotonic() if self._timers else None
            return self._ready.get(timeout=None if until is None else max(0.0, until))
        except Empty:
            return heapq.heappop(self._timers)[2].resume


class Fiber(greenlet):  # type: ignore[misc]  # greenlet has no types
    """One piece of work, as long as it takes."""

    def __init__(self, fibers: Fibers) -> None:
        super().__init__()
        self._fibers = fibers

    def run(self, future: "Future[T]", work: Callable[[], T]) -> None:
        try:
            result = work()
        # Whatever it is, the future raises it where the result is awaited.
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def wait_for(self, future: "Future[Any]", seconds: float) -> None:
        """Let others run until a future is done, at most some seconds."""
        waiting = _Wait(self)
        if seconds != inf:
            self._fibers.resume_at(monotonic() + seconds, waiting)
        future.add_done_callback(lambda _: self._fibers.resume(waiting))
        # The context of a request, for its log lines, is kept by thread.
        context = oslo.get_current()
        self.parent.switch()
        if context is not None:
            context.update_store()


class _Wait:
    """A fiber that waits. It goes on once, whatever comes first."""

    def __init__(self, fiber: Fiber) -> None:
        self._fiber: Fiber | None = fiber

    def resume(self) -> None:
        fiber, self._fiber = self._fiber, None
        if fiber is not None:
            fiber.switch()
