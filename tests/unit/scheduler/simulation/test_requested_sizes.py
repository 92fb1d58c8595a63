# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.simulation.requested_sizes."""

import pytest

from scheduler.hosts.flavor_mix import PRESENT_COUNT, make_mix
from scheduler.simulation.requested_sizes import RequestedSizes

SMALL, LARGE = (1, 2048, 0), (8, 16384, 0)


def shares(mix):
    return {each.size: each.share for each in mix}


def test_a_mix_is_found_eight_times_in_a_half_life():
    sizes = RequestedSizes(8000)
    assert sizes.mix_at(100) is None
    sizes.add(SMALL, 3)
    sizes.add(LARGE, 1)
    assert sizes.mix_at(1099) is None
    assert sizes.mix_at(1100) == make_mix({SMALL: 3, LARGE: 1})
    assert sizes.mix_at(1100) is None


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
