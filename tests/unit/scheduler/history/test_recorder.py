# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.history.recorder."""

import logging
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import decisions
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.tables import decision_inputs
from scheduler.history import recorder, serialization
from scheduler.history.recorder import DecisionRecorder, Retention
from scheduler.history.saved_decision import from_database
from scheduler.messaging import background_publisher
from scheduler.request_trace import GIVEN_UP, REPEATED, RequestTrace
from scheduler.wire.context import RequestContext
from tests.databases import a_uuid
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.scheduler.history.traces import Scheduler

WEEK = Retention(max_age=604_800, max_number=10_000)


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
        assert self.answers.wait(PATIENCE)
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
def recording(moody: Moody, monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionRecorder]:
    """Yield a recorder that runs, and hardly waits for more or before it tries again."""
    monkeypatch.setattr(DecisionRecorder, "collect_seconds", 0.01)
    found = DecisionRecorder(moody, "s1", WEEK)  # type: ignore[arg-type]  # it has all it takes
    found.first_pause = 0.01
    found.start()
    yield found
    moody.failures = []
    moody.answers.set()
    found.stop()


@pytest.fixture
def scheduler(recording: DecisionRecorder) -> Scheduler:
    return Scheduler(recording.snapshot_log)


def listed(database: Database) -> list[Any]:
    return database.read(lambda connection: decisions.listed(connection, limit=10_000))


def kept(database: Database, row: Any) -> tuple[Any, Any]:
    """Return the record of a decision, and what the same driver decides on the same hosts."""
    found = database.read(lambda connection: from_database(connection, row))
    return found.record, found.again(Scheduler(None).driver)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_every_decision_can_be_made_again(database, recording, scheduler):
    traces = [scheduler.decide(f"u{each}", 1 + each % 3) for each in range(40)]
    traces.append(scheduler.decide("too large", memory_mb=10**6))
    # They end in another order than they were decided in.
    for each in reversed(traces):
        recording.on_finished(each)
    recording.stop()
    rows = {row.request_id: row for row in listed(database)}
    assert len(rows) == len(traces) == 41
    for trace in traces:
        row = rows[trace.caller.request_id]
        record, again = kept(database, row)
        assert record.decision == again == trace.decision
        assert record.settings == trace.driver.settings
        assert row.instances == len(trace.instance_uuids)
    assert {row.outcome for row in rows.values()} == {"placed", "refused"}
    assert rows["req-too large"].hosts is None
    assert rows["req-u0"].hosts == traces[0].decision.placements[0].chosen.host
    assert {(row.scheduler, row.project_id) for row in rows.values()} == {("s1", "project1")}
    assert len({row.snapshot_log for row in rows.values()}) == 1


def test_of_a_request_with_several_attempts_the_last_is_kept(database, recording, scheduler):
    first, last = scheduler.decide("u1"), scheduler.decide("u1")
    last.snapshots = [*first.snapshots, *last.snapshots]
    last.outcome, last.conflicts = GIVEN_UP, 1
    recording.on_finished(last)
    recording.stop()
    (row,) = listed(database)
    assert (row.outcome, row.conflicts, row.snapshot_number) == (GIVEN_UP, 1, 1)
    record, again = kept(database, row)
    assert record.decision == again == last.decision


def test_of_a_repeated_request_the_first_is_kept_and_its_snapshot_serves_others(
    database, recording, scheduler
):
    traces = [scheduler.decide(f"u{each}") for each in range(3)]
    traces[1].outcome = REPEATED
    for each in traces:
        recording.on_finished(each)
    recording.stop()
    assert [row.snapshot_number for row in listed(database)] == [2, 0]
    record, again = kept(database, listed(database)[0])
    assert record.decision == again


def test_a_request_without_a_decision_or_a_snapshot_is_not_saved(database, recording, scheduler):
    recording.on_finished(RequestTrace(RequestContext(), ["u1"], 0.0))
    undecided = scheduler.decide("u1")
    undecided.decision = None
    recording.on_finished(undecided)
    recording.stop()
    assert listed(database) == []


def test_the_database_may_be_away_for_a_while(database, moody, recording, scheduler, caplog):
    moody.failures = [DatabaseUnavailable("gone\nfor now") for _ in range(3)]
    moody.is_deaf = True
    for each in range(5):
        recording.on_finished(scheduler.decide(f"u{each}"))
    assert wait_until(lambda: len(listed(database)) == 5 and not moody.failures)
    recording.stop()
    # Nothing twice, and the same warning is not logged three times.
    assert len(listed(database)) == 5
    assert moody.failed == 3
    assert warnings(caplog) == [
        "Writing decisions failed, trying again: the database is not available: gone for now"
    ]


def test_what_cannot_be_written_is_lost_and_what_follows_is_not(
    database, moody, recording, scheduler, caplog
):
    moody.failures = [ValueError("too large for the server")]
    recording.on_finished(scheduler.decide("u1"))
    assert wait_until(lambda: moody.failed == 1)
    assert wait_until(lambda: len(warnings(caplog)) == 2)
    assert warnings(caplog) == [
        "Writing decisions failed, trying again: too large for the server",
        "Writing decisions drops items: they cannot be sent",
    ]
    # It was made on a snapshot log that lacks a snapshot now.
    recording.on_finished(scheduler.decide("u2"))
    recording.on_finished(scheduler.decide("u3"))
    recording.stop()
    (row,) = listed(database)
    assert (row.request_id, row.snapshot_number) == ("req-u3", 0)


def test_a_document_that_fits_into_no_statement_is_left_out(
    database, recording, scheduler, caplog, monkeypatch
):
    monkeypatch.setattr(serialization, "MAX_DECISION_BYTES", 10_000)
    recording.on_finished(scheduler.decide("many", instances=1_000))
    recording.on_finished(scheduler.decide("one"))
    recording.stop()
    assert [row.request_id for row in listed(database)] == ["req-one"]
    assert recording.dropped == 1
    assert "decision for request req-many: ValueError: with 1000 instances" in warnings(caplog)[0]
    # The other was made on snapshots of which the first is that of the large one.
    record, again = kept(database, listed(database)[0])
    assert record.decision == again


def test_a_snapshot_log_that_has_become_too_long_ends(database, recording, scheduler, monkeypatch):
    monkeypatch.setattr(recorder, "MAX_DELTA_BYTES", 500)
    monkeypatch.setattr(recorder, "MAX_DELTA_RATIO", 0)
    for each in range(6):
        recording.on_finished(scheduler.decide(f"u{each}"))
        assert wait_until(lambda number=each: len(listed(database)) == number + 1)
    rows = listed(database)
    assert len({row.snapshot_log for row in rows}) > 1
    for row in rows:
        record, again = kept(database, row)
        assert record.decision == again


def test_what_is_old_is_deleted_now_and_then(
    database, moody, recording, scheduler, caplog, monkeypatch
):
    for each in range(5):
        recording.on_finished(scheduler.decide(f"u{each}"))
    assert wait_until(lambda: len(listed(database)) == 5)
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 0.01)
    # Another one, since this one looks at the clock when it is made.
    other = DecisionRecorder(moody, "s2", Retention(max_age=604_800, max_number=2))
    moody.failures = [ValueError("not now")]
    other.start()
    assert wait_until(lambda: [row.snapshot_number for row in listed(database)] == [4, 3])
    assert warnings(caplog) == ["Deleting old decisions failed, trying again later: not now"]
    other.retention = Retention(max_age=604_800, max_number=1)
    assert wait_until(lambda: [row.snapshot_number for row in listed(database)] == [4])
    other.stop()


def test_what_else_is_not_needed_is_deleted_with_old_decisions(moody, caplog, monkeypatch):
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 0.01)
    failures, pruned = [ValueError("not now")], Event()

    def prune():
        if failures:
            raise failures.pop()
        pruned.set()

    moody.failures = [ValueError("nor these")]
    found = DecisionRecorder(moody, "s1", WEEK, prune_more=prune)
    found.start()
    assert pruned.wait(PATIENCE)
    found.stop()
    assert warnings(caplog) == [
        "Deleting old decisions failed, trying again later: nor these",
        "Deleting other unneeded rows failed, trying again later: not now",
    ]


def test_a_long_deletion_goes_on_in_steps_and_ends_with_the_recorder(moody, monkeypatch):
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 0.01)
    steps, third = [], Event()

    def prune():
        steps.append(1)
        if len(steps) == 3:
            third.set()
        return True

    found = DecisionRecorder(moody, "s1", WEEK, prune_more=prune)
    # The next deletion is out of reach, so these are the steps of the first.
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 1e6)
    found.start()
    assert third.wait(PATIENCE)
    assert found.stop(timeout=PATIENCE)


def test_an_idle_snapshot_log_ends(database, scheduler, monkeypatch):
    """It may be deleted with the last of its decisions."""
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 0.01)
    monkeypatch.setattr(recorder, "IDLE_SECONDS", 0.02)
    idle = DecisionRecorder(database, "s1", WEEK)
    assert idle.snapshot_log.take(scheduler.hosts).log_id == 1
    idle.start()
    assert wait_until(lambda: idle.snapshot_log.take(scheduler.hosts).log_id > 1)
    idle.stop()


def test_a_stop_does_not_wait_for_ever(database, moody, recording, scheduler, caplog, monkeypatch):
    monkeypatch.setattr(DecisionRecorder, "stop_timeout", 0.1)
    moody.answers.clear()
    recording.on_finished(scheduler.decide("u1"))
    recording.stop()
    assert warnings(caplog) == ["Writing decisions stopped with 1 item not sent"]


def test_what_the_database_does_not_take_at_the_end_is_lost(moody, recording, scheduler, caplog):
    moody.failures = [DatabaseUnavailable("gone") for _ in range(1_000)]
    recording.on_finished(scheduler.decide("u1"))
    recording.stop()
    assert "Writing decisions stopped with 1 item not sent" in warnings(caplog)


def test_a_recorder_that_was_never_started_can_be_stopped(database):
    DecisionRecorder(database, "s1", WEEK).stop()


def test_snapshots_are_in_the_database_once(database, recording, scheduler):
    trace = scheduler.decide(a_uuid("u1"))
    recording.on_finished(trace)
    recording.stop()
    query = sa.select(decision_inputs.c.snapshot_log, decision_inputs.c.first)
    query = query.where(decision_inputs.c.first >= 0)
    ((log, first),) = database.read(lambda c: c.execute(query).all())
    assert (log, first) == (listed(database)[0].snapshot_log, 0)
    # Processes never have a snapshot log in common.
    assert log != DecisionRecorder(database, "s1", WEEK)._origin.log_name(1)


def fill(recorder: DecisionRecorder, scheduler: Scheduler) -> None:
    """Fill the queue of a recorder whose thread is not started."""
    recorder.on_finished(scheduler.decide("large"))
    larger = scheduler.decide("larger", instances=2)
    larger.instance_uuids = ["u"] * recorder.max_waiting
    recorder.on_finished(larger)


def test_beyond_a_full_queue_decisions_are_dropped_and_counted(database, caplog):
    idle = DecisionRecorder(database, "s1", WEEK)
    idle.collect_seconds = 0.01
    scheduler = Scheduler(idle.snapshot_log)
    fill(idle, scheduler)
    for each in range(3):
        idle.on_finished(scheduler.decide(f"u{each}"))
    caplog.set_level(logging.INFO, background_publisher.__name__)
    idle.start()
    assert wait_until(lambda: len(caplog.messages) == 2)
    assert caplog.messages == [
        "Writing decisions drops items: the database does not store the decisions in time",
        "Writing decisions recovered; 3 items were dropped",
    ]
    idle.stop()
    assert idle.dropped == 3
    assert len(listed(database)) == 2


def test_after_a_lost_snapshot_another_log_begins_when_there_is_room(database):
    idle = DecisionRecorder(database, "s1", WEEK)
    scheduler = Scheduler(idle.snapshot_log)
    fill(idle, scheduler)
    late = scheduler.decide("late")
    idle.on_finished(scheduler.decide("lost"))
    # A whole snapshot for each that is lost would cost more than it is worth.
    assert scheduler.decide("not queued").snapshots[0].number == 4
    idle.remove(idle.next_batch())
    idle.on_finished(late)
    first = scheduler.decide("first")
    assert (first.snapshots[0].log_id, first.snapshots[0].number) == (
        late.snapshots[0].log_id + 1,
        0,
    )
    idle.on_finished(first)
    # Its log lacks the same snapshot, and is no reason to begin another one.
    idle.on_finished(late)
    second = scheduler.decide("second")
    assert second.snapshots[0].number == 1
    idle.on_finished(second)
    assert idle.next_batch() == [first, second]
