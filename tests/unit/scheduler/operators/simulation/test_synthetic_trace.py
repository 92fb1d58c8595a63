# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.synthetic_trace."""

from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest

from scheduler.hosts.flavor_mix import make_mix
from scheduler.operators.simulation.synthetic_trace import SyntheticTrace

SMALL, LARGE = (1, 2048, 512), (8, 16384, 20480)
MIX = make_mix({SMALL: 3, LARGE: 1})


def test_the_same_seed_gives_the_same_arrivals():
    trace = SyntheticTrace(MIX, 50, lifetime=3600)
    assert [*trace.draw(1)] == [*trace.draw(1)] != [*trace.draw(2)]


def test_sizes_rate_and_lifetime_are_as_asked_for():
    found = [*SyntheticTrace(MIX, 4000, rate=120, lifetime=7200).draw(3)]
    assert len(found) == 4000
    sizes = Counter(each.size for each in found)
    assert sizes.keys() == {SMALL, LARGE}
    assert sizes[SMALL] / 4000 == pytest.approx(0.75, abs=0.03)
    assert found[-1].time == pytest.approx(4000 * 30, rel=0.05)
    stays = [time - each.time for each in found for time in each.leaves_at.values()]
    assert len(stays) == 4000
    assert fmean(stays) == pytest.approx(7200, rel=0.06)
    assert all(one.time <= other.time for one, other in pairwise(found))


def test_without_a_lifetime_all_stay():
    assert not any(each.leaves_at for each in SyntheticTrace(MIX, 20).draw(1))
