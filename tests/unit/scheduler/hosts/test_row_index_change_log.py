# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.row_index: the rows that were written."""

from scheduler.hosts.row_index import MAX_NOTED, MAX_ROWS, MAX_WRITES, ChangeLog, WriteLog


def test_it_knows_the_rows_that_were_written_since():
    log = ChangeLog()
    log.note([3])
    seen = log.position
    assert log.since(seen) == []
    log.note([5])
    log.note([3])
    assert log.since(seen) == [5, 3]
    assert log.position == seen + 2


def test_of_a_table_columns_are_known_with_their_rows_or_as_a_whole():
    log = WriteLog(7)
    seen = log.position
    log.note("a", [3])
    log.note("b", None)
    log.note("a", range(MAX_ROWS + 1))
    assert log.since(seen) == [("a", [3]), ("b", None), ("a", None)]
    assert log.position == seen + 3
    assert log.since(6) is None


def test_what_nobody_has_asked_for_in_time_is_forgotten():
    log = WriteLog()
    for _ in range(MAX_NOTED + 1):
        log.note("a", [1])
    assert log.since(0) is None
    assert log.since(log.position) == []
    log.note("a", [2])
    assert log.since(log.position - 1) == [("a", [2])]


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
