# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are over as they are written into the database: many at once, as bytes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_log import log

from inventory import decisions
from inventory.decisions import Decided, Frames
from scheduler.course import REPEATED, Course
from scheduler.decision.film import Frame
from scheduler.keeping.documents import frames_to_bytes, record_of, record_to_bytes

LOG = log.getLogger(__name__)
# In bytes: no document is larger, since it has to fit into one statement.
LARGEST = 4_000_000
# After so many small ones others have their turn.
SPELL = 8

Pause = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Origin:
    """Who decides: a scheduler by the name of its host, and a name that no other process has."""

    scheduler: str
    process: str

    def film(self, reel: int) -> str:
        """Return how a film is called."""
        return f"{self.process}-{reel}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written at once, and again where nobody knows whether it was."""

    decided: Sequence[Decided]
    frames: Sequence[Frames]

    def write(self, connection: sa.Connection) -> None:
        """Add all of it."""
        decisions.add(connection, self.decided, self.frames)


def batch_of(courses: Sequence[Course], origin: Origin, pause: Pause) -> Batch:
    """Return requests with frames as they are written. pause is called again and again."""
    by_reel: dict[int, list[Frame]] = defaultdict(list)
    for course in courses:
        for frame in course.frames:
            by_reel[frame.reel].append(frame)
    frames = [_frames(origin.film(reel), some, pause) for reel, some in sorted(by_reel.items())]
    return Batch([*_decided(courses, origin, pause)], frames)


def _frames(film: str, frames: list[Frame], pause: Pause) -> Frames:
    frames.sort(key=lambda frame: frame.number)
    return Frames(film, frames[0].number, frames_to_bytes(frames, pause))


def _decided(courses: Iterable[Course], origin: Origin, pause: Pause) -> Iterator[Decided]:
    for number, course in enumerate(courses, 1):
        if not number % SPELL:
            pause()
        try:
            row = _row(course, origin, pause)
        # A plug-in of a third party may put anything into a request; others are kept all the same.
        except Exception as error:
            LOG.warning(
                "The decision for request %s cannot be kept: %s: %s",
                course.caller.request_id,
                type(error).__name__,
                error,
            )
            continue
        if row is not None:
            yield row


def _row(course: Course, origin: Origin, pause: Pause) -> Decided | None:
    """Return a decision as it is written, None where there is none to keep."""
    frame = course.frame
    # The first answer to a request is what counts, and kept already.
    if course.outcome == REPEATED or course.driver is None or frame is None:
        return None
    record = record_of(course, course.driver.settings)
    if record is None:
        return None
    document = record_to_bytes(record, pause)
    if len(document) > LARGEST:
        raise ValueError(f"with {len(course.instance_uuids)} instances it is too large")
    request = record.request
    return Decided(
        film=origin.film(frame.reel),
        frame=frame.number,
        ended=course.began + course.total,
        scheduler=origin.scheduler,
        outcome=course.outcome,
        milliseconds=1000 * course.total,
        conflicts=course.conflicts,
        document=document,
        request_id=course.caller.request_id,
        project_id=request.spec.project_id or course.caller.project_id,
        instance_uuids=request.instance_uuids,
        hosts=[each.chosen.host for each in record.decision.placements],
    )
