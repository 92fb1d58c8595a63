# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.requested_sizes."""

from itertools import pairwise

import pytest

from scheduler.hosts.flavor_mix import PRESENT_COUNT, make_mix
from scheduler.operators.simulation.requested_sizes import RequestedSizes

SMALL, LARGE = (1, 2048, 0), (8, 16384, 0)


def shares(mix):
    return {each.size: each.share for each in mix}


def times(half_life, seconds, start=100):
    """Return after how many seconds a mix is found."""
    sizes = RequestedSizes(half_life)
    found = []
    for time in range(start, start + seconds + 1):
        sizes.add(SMALL, 1)
        if sizes.mix_at(time) is not None:
            found.append(time - start)
    return found


def test_a_mix_is_found_soon_at_first_and_later_eight_times_in_a_half_life():
    found = times(80_000, 100_000)
    assert found[:3] == [600, 1200, 1800]
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 10_000
    assert len(found) < 40
    assert times(800, 350) == [100, 200, 300]


def test_the_mix_is_of_what_was_asked_for():
    sizes = RequestedSizes(8000)
    assert sizes.mix_at(100) is None
    sizes.add(SMALL, 3)
    sizes.add(LARGE, 1)
    assert sizes.mix_at(699) is None
    assert sizes.mix_at(700) == make_mix({SMALL: 3, LARGE: 1})
    assert sizes.mix_at(700) is None


def test_what_was_asked_for_counts_half_after_a_half_life():
    sizes = RequestedSizes(1000)
    sizes.mix_at(0)
    sizes.add(SMALL, 4)
    sizes.mix_at(1000)
    sizes.add(LARGE, 4)
    assert shares(sizes.mix_at(2000)) == pytest.approx({SMALL: 1 / 3, LARGE: 2 / 3})


def test_the_mix_that_was_known_before_counts_as_instances_do():
    sizes = RequestedSizes(1000, make_mix({SMALL: 1}))
    sizes.mix_at(0)
    sizes.add(LARGE, PRESENT_COUNT)
    assert shares(sizes.mix_at(1000)) == pytest.approx({SMALL: 0.5, LARGE: 0.5})
