# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.flavor_mix."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.flavor_mix import MAX_FLAVORS, FlavorShare, make_mix

SIZES = st.tuples(*[st.integers(0, 10**6)] * 3)
WEIGHTS = st.dictionaries(SIZES, st.floats(0.001, 10**6), max_size=90)


def test_shares_are_of_all_and_the_most_usual_comes_first():
    found = make_mix({(1, 2048, 0): 1, (4, 8192, 1024): 3})
    assert found == (FlavorShare(4, 8192, 1024, 0.75), FlavorShare(1, 2048, 0, 0.25))
    assert found[0].size == (4, 8192, 1024)


def test_what_takes_nothing_or_is_never_asked_for_does_not_count():
    assert make_mix({(0, 0, 0): 9, (1, 1, 1): 0, (2, 2, 2): -1}) == ()
    assert make_mix({}) == ()


@given(WEIGHTS)
def test_the_most_usual_sizes_share_everything_in_any_order(weights):
    found = make_mix(weights)
    assert found == make_mix(dict(reversed(weights.items())))
    real = {size: weight for size, weight in weights.items() if any(size)}
    assert len(found) == min(len(real), MAX_FLAVORS)
    assert not found or math.isclose(sum(each.share for each in found), 1)
    kept = {each.size for each in found}
    left_out = [weight for size, weight in real.items() if size not in kept]
    assert all(real[size] >= max(left_out, default=0) for size in kept)
