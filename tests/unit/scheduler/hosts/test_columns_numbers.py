# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.columns import NumericColumns, total

NAMES = st.sampled_from(["free_ram_mb", "cpu_allocation_ratio", "forced_down"])
VALUES = st.sampled_from([None, 0, 1, True, 3])
WRITES = st.lists(st.tuples(st.integers(0, 3), NAMES, VALUES, st.sampled_from("srcwo")))


@pytest.fixture
def numbers():
    found = NumericColumns()
    found.grow(4)
    return found


def contents(numbers):
    return {
        name: [numbers.get(row, name) for row in range(4)]
        for name in ("free_ram_mb", "cpu_allocation_ratio", "forced_down")
    }


@given(WRITES)
def test_a_copy_reads_as_if_all_of_it_had_been_copied_first(writes):
    numbers, other = NumericColumns(), NumericColumns()
    numbers.grow(4)
    other.grow(4)
    before, copy = contents(numbers), numbers.copy()
    for row, name, value, how in writes:
        other.set(row, name, value)
        if how == "w":
            copy.write([row], name, [value])
        else:
            copy.set(row, name, value)
        if how == "r":
            assert np.array_equal(copy.column(name), other.column(name), equal_nan=True)
        if how == "c":
            copy = copy.copy()
        if how == "o":
            copy.own(name)
        assert contents(copy) == contents(other)
    assert contents(numbers) == before


def test_writing_returns_the_rows_that_have_changed(numbers):
    assert numbers.write([0, 1, 3], "free_ram_mb", [5, 0, None]) == [0]
    assert numbers.column("free_ram_mb").tolist() == [5, 0, 0, 0]


def test_a_part_is_as_it_would_be_after_some_changes(numbers):
    copy = numbers.copy()
    copy.set(2, "free_ram_mb", 100)
    changes = {"free_ram_mb": -7, "vcpus_used": 1}
    part = copy.part(np.array([2, 2, 0]), changes, np.array([0, 2, 1]))
    assert part.column("free_ram_mb").tolist() == [100, 86, -7]
    assert copy.column("free_ram_mb").tolist() == [0, 0, 100, 0]


def test_one_that_grows_keeps_what_was_written(numbers):
    copy = numbers.copy()
    copy.set(1, "free_ram_mb", 9)
    copy.grow(6)
    assert copy.column("free_ram_mb").tolist() == [0, 9, 0, 0, 0, 0]
    assert np.isnan(copy.column("cpu_allocation_ratio")[5])


def test_sums_are_those_of_numpy_in_every_release_of_python():
    # sum() returns 1.0 from Python 3.12 on.
    tenths = [0.1] * 10
    assert total(tenths) == 0.9999999999999999 == sum((np.array([each]) for each in tenths), 0)[0]
    assert total([]) == 0.0
