# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of asking again, and when there is another attempt to build."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client import backoff
from scheduler.client.backoff import RetryPolicy
from tests.builders import a_request

seconds = st.floats(0.001, 1000)


@given(seconds, seconds, st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_pauses_grow_up_to_the_longest_and_chance_takes_at_most_half(first, longest, chances):
    policy = RetryPolicy(first_pause=first, longest_pause=longest)
    draw = iter(chances).__next__
    for number, pause in enumerate(islice(backoff.pauses(policy, draw), len(chances))):
        whole = min(first * 2**number, longest)
        assert whole / 2 * 0.999 <= pause <= whole * 1.001


def test_without_luck_they_double():
    policy = RetryPolicy(first_pause=0.5, longest_pause=3)
    assert [*islice(backoff.pauses(policy, lambda: 0), 5)] == [0.5, 1, 2, 3, 3]
    assert [*islice(backoff.pauses(policy, lambda: 1), 5)] == [0.25, 0.5, 1, 1.5, 1.5]


def test_they_never_end_nor_overflow():
    assert next(islice(backoff.pauses(RetryPolicy(), lambda: 0), 5000, None)) == 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_attempts": 0}, "max_attempts is 0, must be at least 1"),
        ({"attempt_timeout": 0}, "attempt_timeout is 0, must be more than 0 s"),
        ({"deadline": -1.5}, r"deadline is -1\.5, must be"),
        ({"first_pause": float("nan")}, "first_pause is nan, must be"),
        ({"longest_pause": 0.0}, r"longest_pause is 0\.0, must be"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    ("changes", "most", "expected"),
    [
        ({}, 3, True),
        ({}, 2, True),
        ({}, 1, False),
        ({"force_hosts": ["h1"]}, 3, False),
        ({"force_nodes": ["n1"]}, 3, False),
        ({"force_hosts": ["h1", "h2"], "force_nodes": ["n1"]}, 3, False),
        ({"force_hosts": ["h1", "h2"]}, 3, True),
        ({"force_nodes": ["n1", "n2"]}, 3, True),
        ({"force_hosts": [], "force_nodes": []}, 3, True),
    ],
)
def test_one_attempt_or_one_forced_place_is_never_followed_by_another(changes, most, expected):
    assert backoff.may_reschedule(a_request(**changes), most) is expected
