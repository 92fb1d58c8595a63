# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.weighing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.weighing import Ranking, Weighed
from scheduler.weighers.ram import RAMWeigher

NUMBERS = st.floats(-1e12, 1e12)
ENDS = st.none() | NUMBERS
NAN, INF = float("nan"), float("inf")


def normalize(raw, minval=None, maxval=None):
    """Return the shares of these raw weights by a weigher with these ends."""
    weigher = RAMWeigher()
    weigher.minval, weigher.maxval = minval, maxval
    found = Ranking(np.arange(len(raw)), [Weighed(weigher, 1.0)], [raw.astype(float)])
    return found.totals


def by_the_book(raw, minval, maxval):
    """Return what behaviour reference 2.1 says, one number after the other."""
    if minval is not None:
        raw = [max(each, minval) for each in raw]
    if maxval is not None:
        raw = [min(each, maxval) for each in raw]
    low = min(raw) if minval is None else minval
    high = max(raw) if maxval is None else maxval
    if low == high:
        return [0.0] * len(raw)
    return [(each - low) / (high - low) for each in raw]


@pytest.mark.parametrize(
    ("raw", "minval", "expected"),
    [
        ([2048, 8192, 4096], 0, [0.25, 1, 0.5]),
        ([-1024, 3072, 1024], 0, [0, 1, 1 / 3]),
        # All clamped to the lower end, so none is better.
        ([-1024, -2048, -1], 0, [0, 0, 0]),
        # Measured from 0, equal hosts are all full weight.
        ([4096, 4096, 4096], 0, [1, 1, 1]),
        ([0, 0, 0], 0, [0, 0, 0]),
        ([102400, 51200, 0], 0, [1, 0.5, 0]),
        ([2, 10, 6], None, [0, 1, 0.5]),
        ([4, 4], None, [0, 0]),
        ([7], None, [0]),
    ],
)
def test_worked_cases(raw, minval, expected):
    assert normalize(np.array(raw, float), minval).tolist() == pytest.approx(expected)


def test_numbers_that_are_too_far_apart_for_a_difference():
    assert normalize(np.array([-1.7e308, 0.0, 1.7e308])).tolist() == [0.0, 0.5, 1.0]


@given(st.lists(NUMBERS, min_size=1), ENDS, ENDS)
def test_equals_the_formula_of_the_reference(raw, minval, maxval):
    if minval is not None and maxval is not None and minval > maxval:
        minval, maxval = maxval, minval
    found = normalize(np.array(raw), minval, maxval)
    assert found.tolist() == pytest.approx(by_the_book(raw, minval, maxval), rel=1e-9, abs=1e-9)


@given(st.lists(NUMBERS, min_size=1))
def test_results_lie_between_0_and_1_and_keep_the_order(raw):
    found = normalize(np.array(raw))
    assert ((found >= 0) & (found <= 1)).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


@given(st.lists(NUMBERS, min_size=1), st.lists(st.sampled_from([NAN, INF, -INF]), min_size=1))
def test_what_is_no_number_counts_as_the_lowest(numbers, others):
    found = normalize(np.array([*numbers, *others]))
    assert found[: len(numbers)].tolist() == normalize(np.array(numbers)).tolist()
    assert found[len(numbers) :].tolist() == [0.0] * len(others)


def test_nothing_but_what_is_no_number_is_all_the_same():
    assert normalize(np.array([NAN, INF, -INF])).tolist() == [0, 0, 0]


def test_the_input_stays_as_it_was():
    raw = np.array([3.0, NAN, -1.0])
    normalize(raw, minval=0)
    assert raw[0] == 3.0
    assert np.isnan(raw[1])
    assert raw[2] == -1.0
