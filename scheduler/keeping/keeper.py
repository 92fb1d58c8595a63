# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Writes decisions into the database, in a thread of its own, so that no request waits for that.

A request leaves its course here, which is a matter of microseconds. All that is work, making bytes
of it and writing these, is done later, many at a time and in small steps.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from threading import Thread
from uuid import uuid4

from oslo_db.exception import DBDuplicateEntry
from oslo_log import log

from inventory import decisions
from inventory.engine import Database, DatabaseUnavailable
from scheduler.course import Course
from scheduler.decision.film import Film
from scheduler.keeping.batches import Batch, Origin, batch_of
from scheduler.keeping.line import Line

LOG = log.getLogger(__name__)
# Seconds between two steps of work, for those who answer requests.
REST = 0.001
# Seconds: until what failed is tried again; between two prunings, half as much more at most, since
# all schedulers do it; of a stop that waits for the rest; between two complaints.
PAUSE = 5.0
PRUNING = 60.0
PATIENCE = 5.0
QUIET = 60.0
# Seconds without a decision after which another film begins: this one may have been deleted with
# the last of its decisions, once nothing was written to it for as long as decisions.SETTLED.
IDLE = 100.0
# A film ends when what came after its first picture is that large, in bytes, and so many times as
# large as that picture: all of it is to be read for its last decision.
MUCH = 1_000_000
MOST_TIMES = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How long decisions are kept, in seconds, and how many."""

    max_age: float
    max_number: int


class Keeper:
    """A witness that keeps what was decided on pictures of its film. limits may be changed.

    scheduler is the name under which that is done. prune_more is called whenever old decisions are
    deleted, to delete what else is not needed any more.
    """

    def __init__(
        self,
        database: Database,
        scheduler: str,
        limits: Limits,
        pause: float = PAUSE,
        prune_more: Callable[[], object] = lambda: None,
    ) -> None:
        self.film = Film()
        self.limits = limits
        self._database = database
        self._pause = pause
        self._prune_more = prune_more
        self._origin = Origin(scheduler, uuid4().hex)
        self._line = Line(self.film)
        # In bytes: the first picture of the film, with what was written at once, and the rest.
        self._first = self._rest = 0
        self._chance = Random()
        self._prune_at = time.monotonic() + PRUNING * self._chance.random()
        self._kept_at = time.monotonic()
        self._quiet_until: dict[str, float] = {}
        self._thread = Thread(target=self._run, name="decisions", daemon=True)

    def start(self) -> None:
        """Begin to write; what is over before waits for that."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, unless that takes too long."""
        self._line.close()
        if self._thread.ident:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                LOG.warning("Leaving with decisions that could not be written in time")

    def ended(self, course: Course) -> None:
        """Take the course of a request that is over, if it has frames."""
        if course.frames:
            self._line.add(course)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            # Before it is looked at what waits, since nothing joins that afterwards.
            is_closed = self._line.closed
            courses = self._line.take(max(0.0, self._prune_at - time.monotonic()))
            is_last = is_closed and not courses
            if courses:
                self._keep(courses)
                self._kept_at = time.monotonic()
            elif time.monotonic() - self._kept_at > IDLE:
                self.film.begin_anew()
            if time.monotonic() >= self._prune_at:
                self._prune()
            self._say_what_is_lost()

    def _keep(self, courses: Sequence[Course]) -> None:
        try:
            batch = batch_of(courses, self._origin, _rest)
            self._cut(batch)
            is_written = self._write(batch)
        # A thread that ends would keep nothing any more.
        except Exception as error:
            self._complain("Decisions cannot be kept: %s", error)
            is_written = False
        if not is_written:
            self._line.lose(courses)

    def _cut(self, batch: Batch) -> None:
        """Let another film begin where this one has become too long."""
        for frames in batch.frames:
            if frames.first == 0:
                self._first, self._rest = len(frames.data), 0
            else:
                self._rest += len(frames.data)
        if self._rest > max(MUCH, MOST_TIMES * self._first):
            self.film.begin_anew()
            self._rest = 0

    def _write(self, batch: Batch) -> bool:
        """Write, and try again for as long as the database does not answer; tell whether it did."""
        while True:
            try:
                self._database.write(batch.write)
            except DatabaseUnavailable as error:
                self._complain("Decisions wait to be kept: %s", error)
            # The commit of an earlier attempt was not answered, and had taken place.
            except DBDuplicateEntry:
                return True
            else:
                return True
            if self._line.closed:
                return False
            self._line.rest(self._pause)
            self._say_what_is_lost()

    def _prune(self) -> None:
        """Delete what need not be kept any more; what fails is for the next time."""
        self._prune_at = time.monotonic() + PRUNING * (1 + self._chance.random() / 2)
        try:
            self._prune_decisions()
        except Exception as error:
            self._complain("Old decisions cannot be deleted: %s", error)
        try:
            self._prune_more()
        except Exception as error:
            self._complain("Rows that are not needed any more cannot be deleted: %s", error)

    def _prune_decisions(self) -> None:
        """Delete old decisions, in small steps."""
        limits = self.limits
        while not self._line.closed and self._database.write(
            lambda connection: decisions.prune(connection, limits.max_age, limits.max_number)
        ):
            _rest()

    def _say_what_is_lost(self) -> None:
        lost = "%s decisions were not kept: the database did not take them in time"
        if not self._is_quiet(lost) and (number := self._line.losses()):
            self._complain(lost, number)

    def _complain(self, text: str, value: object) -> None:
        """Warn, but not of the same all the time."""
        if not self._is_quiet(text):
            self._quiet_until[text] = time.monotonic() + QUIET
            LOG.warning(text, " ".join(str(value).split()) or repr(value))

    def _is_quiet(self, text: str) -> bool:
        return time.monotonic() < self._quiet_until.get(text, 0.0)


def _rest() -> None:
    """Let others have their turn who want to go on."""
    time.sleep(REST)
