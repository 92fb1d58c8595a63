# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Threads for work that may hang, kept since starting one costs as much as a claim."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

# For how many seconds an idle thread waits for work.
IDLE_TIMEOUT = 30.0
# The future that gets the result, and the work.
_Task = tuple["Future[Any]", Callable[[], Any]]


class CachedThreadPool:
    """Start all work at once, in an idle thread or a new one. Many threads may use it.

    So work that hangs delays no other. The threads end with the process.
    """

    def __init__(self, idle_timeout: float = IDLE_TIMEOUT) -> None:
        self._idle_timeout = idle_timeout
        # The queue of each idle thread.
        self._idle: list[SimpleQueue[_Task]] = []

    def run(self, work: Callable[[], T]) -> "Future[T]":
        """Start work and return the future of its result."""
        future: Future[T] = Future()
        try:
            tasks = self._idle.pop()
        except IndexError:
            tasks = SimpleQueue()
            Thread(target=self._serve, args=(tasks,), name="cached", daemon=True).start()
        tasks.put((future, work))
        return future

    def _serve(self, tasks: "SimpleQueue[_Task]") -> None:
        while True:
            try:
                # Passed on at once: a local variable would keep the last result alive.
                self._do(tasks, *tasks.get(timeout=self._idle_timeout))
            except Empty:
                try:
                    self._idle.remove(tasks)
                # run() has just chosen this thread.
                except ValueError:
                    continue
                return

    def _do(self, tasks: "SimpleQueue[_Task]", future: "Future[T]", work: Callable[[], T]) -> None:
        # A caller that stopped waiting before the work began has cancelled it.
        if not future.set_running_or_notify_cancel():
            self._idle.append(tasks)
            return
        try:
            result = work()
        # Whatever it is, the future raises it where the result is awaited.
        except BaseException as error:
            self._idle.append(tasks)
            future.set_exception(error)
        else:
            self._idle.append(tasks)
            future.set_result(result)
