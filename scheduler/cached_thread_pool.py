# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Threads for work that may hang, kept for the next: to start one costs as much as a claim."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

# For how long a thread waits for more to do. Seconds.
IDLE = 30.0
# To whom the result goes, and what to do.
_Task = tuple["Future[Any]", Callable[[], Any]]


class CachedThreadPool:
    """Begins every work at once, in a thread that waits or in a new one. Many threads may use it.

    So nobody waits for works that hang, however many these are. They end with the process.
    """

    def __init__(self, idle: float = IDLE) -> None:
        self._longest = idle
        # Of each thread that waits, where it finds what to do.
        self._waiting: list[SimpleQueue[_Task]] = []

    def run(self, work: Callable[[], T]) -> "Future[T]":
        """Return what will have the result of the work, or what it raised."""
        future: Future[T] = Future()
        try:
            tasks = self._waiting.pop()
        except IndexError:
            tasks = SimpleQueue()
            Thread(target=self._serve, args=(tasks,), name="cached", daemon=True).start()
        tasks.put((future, work))
        return future

    def _serve(self, tasks: "SimpleQueue[_Task]") -> None:
        while True:
            try:
                self._do(tasks, *tasks.get(timeout=self._longest))
            except Empty:
                try:
                    self._waiting.remove(tasks)
                # Somebody has just chosen this one.
                except ValueError:
                    continue
                return

    def _do(self, tasks: "SimpleQueue[_Task]", future: "Future[T]", work: Callable[[], T]) -> None:
        try:
            found = work()
        # Whatever it is, it is raised again where the result is waited for.
        except BaseException as error:
            self._waiting.append(tasks)
            future.set_exception(error)
        else:
            self._waiting.append(tasks)
            future.set_result(found)
