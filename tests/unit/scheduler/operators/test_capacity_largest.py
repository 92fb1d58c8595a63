# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.capacity."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.hosts.host_state import HostState, candidate
from scheduler.operators.capacity import LARGEST_SIZE, max_size
from tests.hosts import a_host


def a_candidate(name="h1"):
    state: HostState = a_host(name)
    return candidate(state.table, state.row, {}, 0.0)


@given(st.integers(0, LARGEST_SIZE), st.integers(-1, LARGEST_SIZE))
@example(0, 1)
@example(1, 1)
@example(LARGEST_SIZE, 1)
@example(LARGEST_SIZE - 1, LARGEST_SIZE)
def test_it_is_found_in_a_few_steps_wherever_the_search_begins(limit, start):
    asked, host = [], a_candidate()

    def find(size):
        asked.append(size)
        return host if size <= limit else None

    found = max_size(find, start)
    assert found == (limit, host if limit else None)
    assert len(asked) <= 64
    assert all(1 <= each <= LARGEST_SIZE for each in asked)


@pytest.mark.parametrize(("limit", "host"), [(3, "h1"), (4, "h2"), (7, "h2")])
def test_the_host_is_the_one_that_takes_the_largest(limit, host):
    def find(size):
        return a_candidate("h1" if size < 4 else "h2") if size <= limit else None

    size, found = max_size(find)
    assert (size, found.host) == (limit, host)
