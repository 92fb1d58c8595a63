# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.keeping.keeper and .batches."""

import logging
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import decisions
from inventory.decision_tables import decision_inputs
from inventory.engine import Database, DatabaseUnavailable
from scheduler.course import GIVEN_UP, REPEATED, Course
from scheduler.decision.film import last_picture
from scheduler.keeping import batches, keeper, line
from scheduler.keeping.documents import frames_from_bytes, record_from_bytes
from scheduler.keeping.keeper import Keeper, Limits
from scheduler.rpc.context import RequestContext
from tests.databases import a_uuid
from tests.fixtures.daemons.process import wait_until
from tests.unit.scheduler.keeping.courses import Scheduler

SOON = 20.0
WEEK = Limits(max_age=604_800, max_number=10_000)


class Moody:
    """A database that fails in the ways that it is told to, and then works."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.failures: list[Exception] = []
        self.failed = 0
        # A commit may come about although nobody hears of it.
        self.is_deaf = False
        self.answers = Event()
        self.answers.set()

    def write(self, work: Callable[[sa.Connection], Any]) -> Any:
        assert self.answers.wait(60)
        if not self.failures:
            return self._database.write(work)
        if self.is_deaf:
            self._database.write(work)
        self.failed += 1
        raise self.failures.pop(0)


@pytest.fixture
def moody(database: Database) -> Moody:
    return Moody(database)


@pytest.fixture
def kept_by(moody: Moody, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """Yield a keeper that runs, and neither waits for more nor before it tries again."""
    monkeypatch.setattr(line, "COLLECTING", 0.01)
    found = Keeper(moody, "s1", WEEK, pause=0.01)  # type: ignore[arg-type]  # it has all it takes
    found.start()
    yield found
    moody.failures = []
    moody.answers.set()
    found.stop()


@pytest.fixture
def scheduler(kept_by: Keeper) -> Scheduler:
    return Scheduler(kept_by.film)


def listed(database: Database) -> list[Any]:
    return database.read(lambda connection: decisions.listed(connection, limit=10_000))


def kept(database: Database, row: Any) -> tuple[Any, Any]:
    """Return the record of a decision, and what the same driver decides on the same hosts."""
    document, data = database.read(
        lambda c: (decisions.document(c, row.id), decisions.frames(c, row.film, row.frame))
    )
    record = record_from_bytes(document)
    frames = sorted(
        (each for some in data for each in frames_from_bytes(some) if each.number <= row.frame),
        key=lambda each: each.number,
    )
    hosts = last_picture(frames)
    return record, Scheduler(None).driver.decide(hosts.working_copy(), record.request)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_every_decision_can_be_made_again(database, kept_by, scheduler):
    courses = [scheduler.decide(f"u{each}", 1 + each % 3) for each in range(40)]
    courses.append(scheduler.decide("too large", memory_mb=10**6))
    # They end in another order than they were decided in.
    for each in reversed(courses):
        kept_by.ended(each)
    kept_by.stop()
    rows = {row.request_id: row for row in listed(database)}
    assert len(rows) == len(courses) == 41
    for course in courses:
        row = rows[course.caller.request_id]
        record, again = kept(database, row)
        assert record.decision == again == course.decision
        assert record.settings == course.driver.settings
        assert row.instances == len(course.instance_uuids)
    assert {row.outcome for row in rows.values()} == {"placed", "refused"}
    assert rows["req-too large"].hosts is None
    assert rows["req-u0"].hosts == courses[0].decision.placements[0].chosen.host
    assert {(row.scheduler, row.project_id) for row in rows.values()} == {("s1", "project1")}
    assert len({row.film for row in rows.values()}) == 1


def test_of_a_request_with_several_attempts_the_last_is_kept(database, kept_by, scheduler):
    first, last = scheduler.decide("u1"), scheduler.decide("u1")
    last.frames = [*first.frames, *last.frames]
    last.outcome, last.conflicts = GIVEN_UP, 1
    kept_by.ended(last)
    kept_by.stop()
    (row,) = listed(database)
    assert (row.outcome, row.conflicts, row.frame) == (GIVEN_UP, 1, 1)
    record, again = kept(database, row)
    assert record.decision == again == last.decision


def test_of_a_repeated_request_the_first_is_kept_and_its_frame_serves_others(
    database, kept_by, scheduler
):
    courses = [scheduler.decide(f"u{each}") for each in range(3)]
    courses[1].outcome = REPEATED
    for each in courses:
        kept_by.ended(each)
    kept_by.stop()
    assert [row.frame for row in listed(database)] == [2, 0]
    record, again = kept(database, listed(database)[0])
    assert record.decision == again


def test_a_request_without_a_decision_or_a_picture_is_none_to_keep(database, kept_by, scheduler):
    kept_by.ended(Course(RequestContext(), ["u1"], 0.0))
    undecided = scheduler.decide("u1")
    undecided.decision = None
    kept_by.ended(undecided)
    kept_by.stop()
    assert listed(database) == []


def test_the_database_may_be_away_for_a_while(database, moody, kept_by, scheduler, caplog):
    moody.failures = [DatabaseUnavailable("gone\nfor now") for _ in range(3)]
    moody.is_deaf = True
    for each in range(5):
        kept_by.ended(scheduler.decide(f"u{each}"))
    assert wait_until(lambda: len(listed(database)) == 5 and not moody.failures, SOON)
    kept_by.stop()
    # Nothing twice, and nobody reads the same complaint three times.
    assert len(listed(database)) == 5
    assert moody.failed == 3
    assert warnings(caplog) == [
        "Decisions wait to be kept: the database is not available: gone for now"
    ]


def test_what_cannot_be_written_is_lost_and_what_follows_is_not(
    database, moody, kept_by, scheduler, caplog
):
    moody.failures = [ValueError("too large for the server")]
    kept_by.ended(scheduler.decide("u1"))
    assert wait_until(lambda: moody.failed == 1, SOON)
    assert wait_until(lambda: len(warnings(caplog)) == 2, SOON)
    assert warnings(caplog) == [
        "Decisions cannot be kept: too large for the server",
        "1 decisions were not kept: the database did not take them in time",
    ]
    # It was made on a film that has a hole now.
    kept_by.ended(scheduler.decide("u2"))
    kept_by.ended(scheduler.decide("u3"))
    kept_by.stop()
    (row,) = listed(database)
    assert (row.request_id, row.frame) == ("req-u3", 0)


def test_a_document_that_fits_into_no_statement_is_left_out(
    database, kept_by, scheduler, caplog, monkeypatch
):
    monkeypatch.setattr(batches, "LARGEST", 2_000)
    kept_by.ended(scheduler.decide("many", instances=1_000))
    kept_by.ended(scheduler.decide("one"))
    kept_by.stop()
    assert [row.request_id for row in listed(database)] == ["req-one"]
    assert "request req-many cannot be kept: ValueError: with 1000 instances" in warnings(caplog)[0]
    # The other was made on pictures of which the first is that of the large one.
    record, again = kept(database, listed(database)[0])
    assert record.decision == again


def test_a_film_that_has_become_too_long_ends(database, kept_by, scheduler, monkeypatch):
    monkeypatch.setattr(keeper, "MUCH", 500)
    monkeypatch.setattr(keeper, "MOST_TIMES", 0)
    for each in range(6):
        kept_by.ended(scheduler.decide(f"u{each}"))
        assert wait_until(lambda number=each: len(listed(database)) == number + 1, SOON)
    rows = listed(database)
    assert len({row.film for row in rows}) > 1
    for row in rows:
        record, again = kept(database, row)
        assert record.decision == again


def test_what_is_old_is_deleted_now_and_then(
    database, moody, kept_by, scheduler, caplog, monkeypatch
):
    for each in range(5):
        kept_by.ended(scheduler.decide(f"u{each}"))
    assert wait_until(lambda: len(listed(database)) == 5, SOON)
    monkeypatch.setattr(keeper, "PRUNING", 0.01)
    # Another one, since this one looks at the clock when it is made.
    other = Keeper(moody, "s2", Limits(max_age=604_800, max_number=2))
    moody.failures = [ValueError("not now")]
    other.start()
    assert wait_until(lambda: [row.frame for row in listed(database)] == [4, 3], SOON)
    assert warnings(caplog) == ["Old decisions cannot be deleted: not now"]
    other.limits = Limits(max_age=604_800, max_number=1)
    assert wait_until(lambda: [row.frame for row in listed(database)] == [4], SOON)
    other.stop()


def test_what_else_is_not_needed_is_deleted_with_old_decisions(moody, caplog, monkeypatch):
    monkeypatch.setattr(keeper, "PRUNING", 0.01)
    failures, pruned = [ValueError("not now")], Event()

    def prune():
        if failures:
            raise failures.pop()
        pruned.set()

    moody.failures = [ValueError("nor these")]
    found = Keeper(moody, "s1", WEEK, prune_more=prune)
    found.start()
    assert pruned.wait(SOON)
    found.stop()
    assert warnings(caplog) == [
        "Old decisions cannot be deleted: nor these",
        "Rows that are not needed any more cannot be deleted: not now",
    ]


def test_a_film_that_nobody_adds_to_ends(database, scheduler, monkeypatch):
    """It may be deleted with the last of its decisions."""
    monkeypatch.setattr(keeper, "PRUNING", 0.01)
    monkeypatch.setattr(keeper, "IDLE", 0.02)
    idle = Keeper(database, "s1", WEEK)
    assert idle.film.take(scheduler.hosts).reel == 1
    idle.start()
    assert wait_until(lambda: idle.film.take(scheduler.hosts).reel > 1, SOON)
    idle.stop()


def test_a_stop_does_not_wait_for_ever(database, moody, kept_by, scheduler, caplog, monkeypatch):
    monkeypatch.setattr(keeper, "PATIENCE", 0.1)
    moody.answers.clear()
    kept_by.ended(scheduler.decide("u1"))
    kept_by.stop()
    assert warnings(caplog) == ["Leaving with decisions that could not be written in time"]


def test_what_the_database_does_not_take_at_the_end_is_lost(moody, kept_by, scheduler, caplog):
    moody.failures = [DatabaseUnavailable("gone") for _ in range(1_000)]
    kept_by.ended(scheduler.decide("u1"))
    kept_by.stop()
    assert "1 decisions were not kept: the database did not take them in time" in warnings(caplog)


def test_a_keeper_that_was_never_started_can_be_stopped(database):
    Keeper(database, "s1", WEEK).stop()


def test_frames_are_in_the_database_once(database, kept_by, scheduler):
    course = scheduler.decide(a_uuid("u1"))
    kept_by.ended(course)
    kept_by.stop()
    query = sa.select(decision_inputs.c.film, decision_inputs.c.first)
    ((film, first),) = database.read(lambda c: c.execute(query).all())
    assert (film, first) == (listed(database)[0].film, 0)
    # Processes never have a film in common.
    assert film != Keeper(database, "s1", WEEK)._origin.film(1)
