# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One run of some work for many callers who ask for it at the same time."""

from collections.abc import Callable
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
        self._wanted = self._started = self._ended = 0
        self._error: Exception | None = None
        self._thread: Thread | None = None

    def take(self, timeout: float) -> None:
        """Return when a run that began after this call has ended, or raise what it raised.

        Raises TurnTimeout after that many seconds.
        """
        with self._condition:
            mine = self._wanted = self._started + 1
            if self._thread is None:
                self._thread = Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify_all()
            if not self._condition.wait_for(lambda: self._ended >= mine, timeout):
                raise TurnTimeout(timeout)
            if self._error is not None:
                raise self._error

    def _serve(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._wanted > self._started)
                self._started += 1
                turn = self._started
            error = self._run()
            with self._condition:
                self._ended, self._error = turn, error
                self._condition.notify_all()

    def _run(self) -> Exception | None:
        try:
            self._work()
        # Whatever went wrong is raised again in the callers who wait for it.
        except Exception as error:
            return error
        return None
