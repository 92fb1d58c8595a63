# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are over and wait to be kept, no more than there is room for."""

from collections.abc import Iterable
from threading import Condition

from scheduler.course import Course
from scheduler.decision.film import Film

# Decisions and their instances: no more than what takes some seconds to write when all is well,
# since each holds much of what was seen, the first one of a film all hosts.
MOST_WAITING = 5_000
# So many are written at once; who decides less often waits for more of them for so many seconds.
MANY = 100
COLLECTING = 1.0


class Line:
    """Takes courses from many threads, and gives them to one.

    A film of which a frame is lost is of no use any more: decisions are lost until the next film
    has begun, which is only when there is room for it.
    """

    def __init__(self, film: Film) -> None:
        self.closed = False
        self._film = film
        self._condition = Condition()
        self._waiting: list[Course] = []
        self._weight = 0
        # Films up to this one are of no use, and the next has been begun after that one.
        self._broken = self._left = 0
        self._lost = 0

    def add(self, course: Course) -> None:
        """Take a course with frames, or lose it; returns at once."""
        reel = course.frames[-1].reel
        with self._condition:
            if self._weight >= MOST_WAITING:
                self._broken = max(self._broken, reel)
            elif reel > self._broken:
                self._waiting.append(course)
                self._weight += 1 + len(course.instance_uuids)
                if len(self._waiting) in (1, MANY):
                    self._condition.notify()
                return
            elif self._left < self._broken:
                self._left = self._broken
                self._film.begin_anew()
            self._lost += 1

    def lose(self, courses: Iterable[Course]) -> None:
        """Lose what was taken and could not be kept."""
        with self._condition:
            for course in courses:
                self._broken = max(self._broken, course.frames[-1].reel)
                self._lost += 1

    def take(self, seconds: float) -> list[Course]:
        """Return what waits, as soon as something does and others had the time to join it.

        Waits so long at most, but for nothing once it is closed.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self.closed, seconds)
            if self._waiting:
                self._condition.wait_for(
                    lambda: len(self._waiting) >= MANY or self.closed, COLLECTING
                )
            taken, self._waiting = self._waiting, []
            self._weight = 0
            return taken

    def rest(self, seconds: float) -> None:
        """Wait so long, or until it is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self.closed, seconds)

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._condition:
            self.closed = True
            self._condition.notify_all()

    def losses(self) -> int:
        """Return how many were lost since it was asked before."""
        with self._condition:
            lost, self._lost = self._lost, 0
            return lost
