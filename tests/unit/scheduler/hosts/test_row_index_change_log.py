# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.row_index: the rows that were written."""

from scheduler.hosts.row_index import MAX_WRITES, ChangeLog


def test_it_knows_the_rows_that_were_written_since():
    log = ChangeLog()
    log.note([3])
    seen = log.position
    assert log.since(seen) == []
    log.note([5])
    log.note([3])
    assert log.since(seen) == [5, 3]
    assert log.position == seen + 2


def test_a_write_of_all_rows_may_be_any():
    log = ChangeLog(7)
    seen = log.position
    log.note_all()
    assert log.since(seen) is None
    assert log.since(log.position) == []
    assert log.position > seen


def test_writes_may_be_counted_together():
    log = ChangeLog()
    log.note([3, 5])
    assert log.since(0) == [3, 5]
    log.note(range(5 * MAX_WRITES))
    assert log.position == 5 * MAX_WRITES + 2
    assert log.since(0) is None
    assert log.since(4 * MAX_WRITES + 2) == [*range(4 * MAX_WRITES, 5 * MAX_WRITES)]


def test_the_oldest_writes_are_forgotten():
    log = ChangeLog()
    for row in range(3 * MAX_WRITES):
        log.note([row])
    assert log.position == 3 * MAX_WRITES
    assert log.since(0) is None
    assert log.since(2 * MAX_WRITES) == [*range(2 * MAX_WRITES, 3 * MAX_WRITES)]
