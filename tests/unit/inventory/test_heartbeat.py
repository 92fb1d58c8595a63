# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A second beat for the same rows is noticed, and a heart stops in time."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from inventory import services
from inventory.heartbeat import CERTAIN, WINDOW, DuplicateDetector, Heartbeat
from tests.fixtures import agent
from tests.fixtures.daemons.process import PATIENCE


def after(strange: Sequence[int], own: int = 1) -> DuplicateDetector:
    """Return what is known after heartbeats between which somebody else made so many."""
    duplicates, count = DuplicateDetector(), 1000
    duplicates.note(count, own)
    for each in strange:
        count += own + each
        duplicates.note(count, own)
    return duplicates


@pytest.mark.parametrize(
    ("strange", "there"),
    [
        ([0] * 20, False),
        ([1, 1, 1], True),
        # Two timers that are almost in step.
        ([0, 2, 0, 1], True),
        # The last heartbeats of the agent before, or a commit that was made twice.
        ([2] + [0] * 10, False),
        ([1] + [0] * WINDOW + [1] + [0] * WINDOW + [1], False),
        ([1, 1, 1, 0, 0, 0, 0, 0], True),
        ([1, 1, 1] + [0] * WINDOW, False),
        # A database that has lost what was written last.
        ([0, -3, 0], False),
    ],
)
def test_who_beats_besides(strange: list[int], there: bool) -> None:
    assert after(strange).found == there
    assert after(strange, own=10_000).found == there


@given(st.lists(st.integers(-5, 0)))
def test_alone_there_is_nobody(strange: list[int]) -> None:
    assert not after(strange).found


def test_other_rows_are_counted_anew() -> None:
    duplicates = after([0])
    duplicates.forget()
    duplicates.note(5000 + CERTAIN, 1)
    assert not duplicates.found


class Hanging:
    """A database that answers twice, and hangs from then on."""

    def __init__(self):
        self.answers = [[1], (1, 0, None)]
        self.hangs, self.may_answer = Event(), Event()

    def write(self, work):
        if self.answers:
            return self.answers.pop(0)
        self.hangs.set()
        assert self.may_answer.wait(PATIENCE)
        return 1


def test_a_stop_does_not_wait_for_a_database_that_hangs(caplog):
    database = Hanging()
    heart = Heartbeat(database, ["h1"], services.COMPUTE, interval=0.01)
    heart.start()
    assert database.hangs.wait(PATIENCE)
    heart.stop(0.05)
    assert caplog.messages == [
        "The heartbeat still waits for the database; stopping without a last heartbeat"
    ]
    database.may_answer.set()
    heart.stop()
    assert not heart._thread.is_alive()


def test_services_that_join_are_no_second_beat(tmp_path: Path) -> None:
    database = agent.database(agent.options(tmp_path))
    database.write(lambda each: services.register(each, ["b"], services.COMPUTE, 1))
    values = {"report_count": 1000}
    database.write(lambda each: each.execute(sa.update(services.table).values(**values)))
    heart = Heartbeat(database, ["a"], services.COMPUTE, 3600, lambda: None)
    heart.start()
    for hosts in (["a"], ["a", "b"], ["b"], ["a", "b"]):
        heart.serve(hosts)
        for _ in range(2):
            heart._beat()
        assert heart.ids_by_host().keys() == {*hosts}
        assert not heart.duplicates.found
    heart.serve(["a", "b"], dead=["b"])
    heart._beat()
    counts = {row.host: row.report_count for row in database.read(services.all_live)}
    assert counts == {"a": 8, "b": 1006}
    heart.stop()
    database.close()
