# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Work that is done once for all who need its result at the same time."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock

from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.fibers import result_of


class SingleFlight:
    """Run work for all callers who need its result at the same time; they may stop waiting.

    Each caller gets a run that began after its call, or one that is under way if he joins it: at
    most one is under way and one is next.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._threads = CachedThreadPool()
        self._lock, self._under_way = Lock(), Lock()
        self._next: Future[None] | None = None
        self._last: Future[None] | None = None

    def wait(self, timeout: float, joins: bool = False) -> None:
        """Wait for a run that begins after this call; raise its error, or TimeoutError.

        Who joins is content with one that has begun.
        """
        with self._lock:
            run = self._last if joins and self._last and not self._last.done() else self._next
            if run is None:
                run = self._next = self._threads.run(self._run)
        try:
            result_of(run, timeout)
        except TimeoutError:
            if run.done():
                raise
            raise TimeoutError(f"no answer within {timeout:g} s") from None

    def _run(self) -> None:
        with self._under_way:
            with self._lock:
                self._last, self._next = self._next, None
            try:
                self._work()
            except Exception:
                raise
            # What would end a thread must not end those of the callers.
            except BaseException as error:
                raise RuntimeError(f"{self._name} was interrupted: {error!r}") from error
