# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.picker."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.picker import Choice, best_first

TOTALS = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1.0, 3.0]), min_size=1, max_size=30)


def choices(totals, subset_size, shuffle):
    """Return how often each position is chosen for 300 seeds."""
    return Counter(
        Choice(seed, subset_size, shuffle).among(np.array(totals)) for seed in range(300)
    )


@given(TOTALS, st.integers(0, 40))
def test_best_first_sorts_and_keeps_the_order_of_equals(totals, count):
    by_hand = sorted(range(len(totals)), key=lambda position: -totals[position])
    assert best_first(np.array(totals), count) == by_hand[:count]


@pytest.mark.parametrize(
    ("subset_size", "shuffle", "possible"),
    [
        (1, False, {0}),
        (1, True, {0, 1}),
        (2, False, {0, 1}),
        (2, True, {0, 1}),
        (3, False, {0, 1, 2}),
        (3, True, {0, 1, 2}),
    ],
)
def test_worked_cases_a2_b2_c1(subset_size, shuffle, possible):
    assert set(choices([2.0, 2.0, 1.5], subset_size, shuffle)) == possible


def test_every_host_of_the_subset_has_the_same_chance():
    found = choices([5.0, 4.0, 1.0, 0.5], 3, False)
    assert set(found) == {0, 1, 2}
    assert min(found.values()) > 60


def test_shuffled_equals_fill_the_subset_from_all_of_them():
    # Four equal hosts, two places in the subset: each of the four can get one.
    assert set(choices([1.0, 1.0, 1.0, 1.0, 0.0], 2, True)) == {0, 1, 2, 3}


def test_shuffle_leaves_the_others_of_the_subset_in_their_places():
    assert set(choices([1.0, 1.0, 0.5, 0.4, 0.3], 4, True)) == {0, 1, 2, 3}


def test_a_single_best_host_is_no_case_for_shuffling():
    assert set(choices([1.0, 0.5, 0.5], 1, True)) == {0}
    assert set(choices([1.0, 0.5, 0.25], 2, True)) == {0, 1}


def test_a_subset_larger_than_the_table_is_the_table():
    assert set(choices([1.0, 0.5], 10, False)) == {0, 1}


@given(TOTALS, st.integers(1, 12), st.booleans(), st.integers())
def test_same_seed_same_choice(totals, subset_size, shuffle, seed):
    totals = np.array(totals)
    first = Choice(seed, subset_size, shuffle).among(totals)
    assert Choice(seed, subset_size, shuffle).among(totals) == first


@given(TOTALS, st.integers(1, 12), st.booleans(), st.integers())
def test_the_choice_is_among_the_best(totals, subset_size, shuffle, seed):
    position = Choice(seed, subset_size, shuffle).among(np.array(totals))
    better = sum(1 for total in totals if total > totals[position])
    assert better < subset_size


def draws(totals, choices, **settings):
    """Return the positions that are drawn in many draws."""
    weights = np.array(totals, np.float64)
    return {Choice(seed, choices=choices, **settings).among(weights) for seed in range(200)}


def test_more_choices_are_only_among_those_that_are_nearly_as_good():
    totals = [1.0, 0.995, 0.991, 0.98, 0.0]
    assert draws(totals, 1) == {0}
    assert draws(totals, 2) == {0, 1}
    assert draws(totals, 64) == {0, 1, 2}
    assert draws([5.0] * 5, 3) == {0, 1, 2}
    assert draws([5.0], 64) == {0}


def test_more_choices_never_take_away_any():
    assert draws([1.0, 0.5, 0.4, 0.0], 2, subset_size=3) == {0, 1, 2}
    assert draws([1.0, 0.5, 0.4, 0.0], 64, subset_size=3) == {0, 1, 2}
