# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.journal."""

from scheduler.decision.journal import MOST, Journal


def test_it_knows_the_rows_that_were_written_since():
    journal = Journal()
    journal.note(3)
    seen = journal.position
    assert journal.since(seen) == []
    journal.note(5)
    journal.note(3)
    assert journal.since(seen) == [5, 3]
    assert journal.position == seen + 2


def test_a_write_of_all_rows_may_be_any():
    journal = Journal(7)
    seen = journal.position
    journal.note_all()
    assert journal.since(seen) is None
    assert journal.since(journal.position) == []
    assert journal.position > seen


def test_writes_may_be_counted_together():
    journal = Journal()
    journal.note_each([3, 5])
    assert journal.since(0) == [3, 5]
    journal.note_each(range(5 * MOST))
    assert journal.position == 5 * MOST + 2
    assert journal.since(0) is None
    assert journal.since(4 * MOST + 2) == [*range(4 * MOST, 5 * MOST)]


def test_the_oldest_writes_are_forgotten():
    journal = Journal()
    for row in range(3 * MOST):
        journal.note(row)
    assert journal.position == 3 * MOST
    assert journal.since(0) is None
    assert journal.since(2 * MOST) == [*range(2 * MOST, 3 * MOST)]
