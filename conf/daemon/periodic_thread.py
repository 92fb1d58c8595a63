# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that does the same work again and again."""

from collections.abc import Callable
from threading import Event, Thread


class PeriodicThread(Thread):
    """Does work every interval seconds until it is stopped. An error of work would end it.

    Work may set another interval, which counts from its end.
    """

    def __init__(
        self, name: str, work: Callable[[], object], interval: float, at_once: bool = False
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.interval = interval
        self._work, self._at_once = work, at_once
        self._ended = Event()

    def run(self) -> None:
        if self._at_once:
            self._work()
        while not self._ended.wait(self.interval):
            self._work()

    def stop(self, timeout: float | None = None) -> None:
        """Begin no more work, and wait for what is under way, up to timeout seconds."""
        self._ended.set()
        if self.ident:
            self.join(timeout)
