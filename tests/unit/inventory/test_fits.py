# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.fits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inventory.fits import fits, limit

AMOUNTS = st.integers(-(10**9), 10**9)
RATIOS = st.floats(0, 100)
ROWS = st.tuples(AMOUNTS, AMOUNTS, RATIOS)


@given(AMOUNTS, AMOUNTS, RATIOS, st.integers(0, 10**9))
def test_what_fits_is_within_the_limit_and_within_the_bare_total(total, used, ratio, requested):
    expected = requested <= total and used + requested <= total * ratio + 1e-6
    assert (
        bool(fits(total, used, ratio, requested)) == expected
        or abs(total * ratio - used - requested) < 1e-5
    )


@given(AMOUNTS, AMOUNTS, RATIOS, st.integers(0, 10**9), st.integers(0, 10**9))
def test_what_fits_leaves_room_for_whatever_is_smaller(total, used, ratio, requested, less):
    smaller = max(requested - less, 0)
    assert not fits(total, used, ratio, requested) or fits(total, used, ratio, smaller)


@given(st.lists(ROWS, min_size=1), st.integers(0, 10**9))
def test_arrays_are_judged_as_their_elements_are(rows, requested):
    total, used, ratio = (np.array(column) for column in zip(*rows, strict=True))
    together = fits(total, used, ratio, requested)
    assert together.dtype == np.bool_
    assert together.tolist() == [bool(fits(*row, requested)) for row in rows]
    assert limit(total, ratio).tolist() == [limit(row[0], row[2]) for row in rows]


def test_an_unknown_ratio_fits_nothing():
    assert not fits(100, 0, float("nan"), 0)
    assert fits(np.array([100, 100]), np.array([0, 0]), np.array([np.nan, 1.0]), 1).tolist() == [
        False,
        True,
    ]


def test_over_commit_gives_no_instance_more_than_the_host_has():
    assert fits(100, 0, 2.0, 100)
    assert not fits(100, 0, 2.0, 101)
    assert fits(100, 100, 2.0, 100)
    assert not fits(100, 101, 2.0, 100)
