# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.metrics."""

import math

import pytest

from scheduler.hosts.metrics import to_float


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7.0), (-0.5, -0.5), ("98", 98.0), (" 1e3 ", 1000.0), (10**300, 1e300)],
)
def test_numbers_and_texts_that_spell_one(value, expected):
    assert to_float(value) == expected


@pytest.mark.parametrize(
    "value", [None, "", "x", "1,5", [], {"0": 5}, math.nan, math.inf, "-inf", "1e400", 10**400]
)
def test_all_else_is_no_number(value):
    assert math.isnan(to_float(value))
