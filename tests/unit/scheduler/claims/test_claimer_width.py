# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.claimer."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.claims.claimer import MAX_CHOICES, WINS_TO_NARROW, SpreadWidth


def test_it_widens_with_every_loss_up_to_a_bound():
    width = SpreadWidth()
    assert width.choices == 1
    found = []
    for _ in range(8):
        width.lost()
        found.append(width.choices)
    assert found == [2, 4, 8, 16, 32, 64, MAX_CHOICES, MAX_CHOICES]


def test_it_narrows_when_nobody_disputes_anything_any_more():
    width = SpreadWidth()
    for _ in range(3):
        width.lost()
    for expected in (8, 4, 2, 1, 1):
        assert width.choices == expected
        for _ in range(WINS_TO_NARROW):
            width.won()


def test_a_loss_begins_the_calm_anew():
    width = SpreadWidth()
    width.lost()
    for _ in range(WINS_TO_NARROW - 1):
        width.won()
    width.lost()
    width.won()
    assert width.choices == 4


@given(st.lists(st.booleans()))
def test_whatever_happens_there_is_a_choice(outcomes):
    width = SpreadWidth()
    for won in outcomes:
        width.won() if won else width.lost()
        assert 1 <= width.choices <= MAX_CHOICES
