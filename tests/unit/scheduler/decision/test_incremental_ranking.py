# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.incremental_ranking."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.incremental_ranking import IncrementalRanking
from scheduler.decision.weighing import Ranking, WeigherScores, sum_scores
from scheduler.weighers.build_failure import BuildFailureWeigher
from scheduler.weighers.fill_first_cost import FillFirstCostWeigher
from scheduler.weighers.ram import RAMWeigher

RAW = st.integers(-3, 12).map(float)


class Capped(RAMWeigher):
    maxval = 8.0


KINDS = [RAMWeigher(), Capped(), BuildFailureWeigher(), FillFirstCostWeigher()]


@st.composite
def scales(draw, size):
    """Return weighers with the raw weights of so many hosts, some with multipliers of their own."""
    found = []
    for weigher in draw(st.lists(st.sampled_from(KINDS), max_size=4)):
        raw = draw(st.lists(RAW, min_size=size, max_size=size))
        multipliers = draw(st.floats(-3, 3) | st.lists(RAW, min_size=size, max_size=size))
        if isinstance(multipliers, list):
            multipliers = np.array(multipliers)
        found.append((weigher, multipliers, raw))
    return found


def standings(made, size, few):
    rows = np.arange(size) * 2
    scales = [WeigherScores(w, m, np.array(raw)) for w, m, raw in made] if size > 1 else []
    return IncrementalRanking(Ranking(rows, sum_scores(scales, size), scales), few)


@given(st.data(), st.integers(1, 12), st.integers(1, 3))
def test_looking_at_few_finds_the_best_of_all(data, size, few):
    made = data.draw(scales(size))
    some, everyone = standings(made, size, few), standings(made, size, None)
    for _ in range(12):
        here, there = some.best(), everyone.best()
        row = int(everyone.rows[there])
        assert int(some.rows[here]) == row
        assert some.totals[here] == everyone.totals[there]
        assert some.shares(here) == everyone.shares(there)
        if data.draw(st.integers(0, 4)) == 0:
            some.drop(here)
            everyone.drop(there)
        else:
            raw = data.draw(st.tuples(*[RAW] * len(made)))
            some.change(here, raw)
            everyone.change(there, raw)
        assert some.left().tolist() == everyone.left().tolist()
        if not len(some):
            return
