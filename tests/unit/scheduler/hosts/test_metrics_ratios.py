# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.metrics."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.metrics import parse_ratios


@pytest.mark.parametrize(
    ("setting", "pair"),
    [
        ("cpu.idle.percent=1.0", ("cpu.idle.percent", 1.0)),
        ("a=-2", ("a", -2.0)),
        ("a=0", ("a", 0.0)),
        ("a=1e3", ("a", 1000.0)),
        # Nova keeps the blanks of the name and then finds no such metric.
        ("b = 2", ("b", 2.0)),
        ("  b\t=\t2\n", ("b", 2.0)),
        ("two words=1", ("two words", 1.0)),
    ],
)
def test_a_setting_is_a_name_and_a_ratio(setting, pair):
    assert parse_ratios([setting]) == ([pair], [])


@pytest.mark.parametrize(
    "setting",
    ["", "a", "=", "=1", " = 1", "a=", "a= ", "a=x", "a=1=2", "a==1", "a=nan", "a=inf", "a=-1e999"],
)
def test_anything_else_is_refused(setting):
    assert parse_ratios([setting]) == ([], [setting])


def test_the_others_keep_their_order_and_their_repetitions():
    found = parse_ratios(["b=1", "x", "a=2", "b=3", "=4"])
    assert found.ratios == [("b", 1.0), ("a", 2.0), ("b", 3.0)]
    assert found.invalid == ["x", "=4"]


def test_no_settings_are_none():
    assert parse_ratios([]) == parse_ratios(None) == ([], [])


def test_each_refused_setting_is_warned_of():
    warnings = []
    parse_ratios(["a=1", "b", "c=x"]).warn(warnings.append, "[group] option")
    assert warnings == [
        "[group] option has 'b', which is not of the form name=ratio and is ignored",
        "[group] option has 'c=x', which is not of the form name=ratio and is ignored",
    ]


@given(st.lists(st.text() | st.from_regex("[a-c ]*=[0-9. ]*", fullmatch=True)))
def test_every_setting_is_either_read_or_refused(settings):
    found = parse_ratios(settings)
    assert len(found.ratios) + len(found.invalid) == len(settings)
    for name, ratio in found.ratios:
        assert name == name.strip() != ""
        assert "=" not in name
        assert math.isfinite(ratio)
