# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One run of some work for many callers who ask for it at the same time."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread


class TurnTimeout(Exception):
    """The work did not end in time; it goes on for those who ask later."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.seconds = seconds


class SharedTurn:
    """Runs the work in a thread of its own, so that no caller waits longer than it wants to.

    A caller is served by a run that began after it asked: at most one run is under way and one
    more is wanted, however many callers there are.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._condition = Condition()
        # The run that is wanted next. Each has an outcome of its own: who wakes up late must not
        # take that of a later run for it.
        self._next: Future[None] | None = None
        self._thread: Thread | None = None

    def take(self, timeout: float) -> None:
        """Return when a run that began after this call has ended, or raise what it raised.

        Raises TurnTimeout after that many seconds.
        """
        with self._condition:
            if self._next is None:
                self._next = Future()
            mine = self._next
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify_all()
        try:
            error = mine.exception(timeout)
        except TimeoutError:
            raise TurnTimeout(timeout) from None
        if error is not None:
            raise error

    def _serve(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._next is not None)
                turn, self._next = self._next, None
            if turn is not None:
                self._run(turn)

    def _run(self, turn: "Future[None]") -> None:
        try:
            self._work()
        # Whatever went wrong is raised again in the callers who wait for it.
        except Exception as error:
            turn.set_exception(error)
        # What is to end a thread ends neither this one, which serves all who ask later, nor theirs.
        except BaseException as error:
            turn.set_exception(RuntimeError(f"{self._name} was broken off: {error!r}"))
        else:
            turn.set_result(None)
