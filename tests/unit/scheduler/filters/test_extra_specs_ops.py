# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.extra_specs_ops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.extra_specs_ops import matches

TEXTS = st.text(alphabet="abA 19.-<>=!sinor", max_size=12) | st.text(max_size=5)
NUMERIC = ["=", "==", "!=", ">=", "<="]
OF_TEXTS = ["s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>", "<or>"]
UNKNOWN = [">", "<", "<OR>", "s="]
OPERATORS = st.sampled_from([*NUMERIC, *OF_TEXTS, *UNKNOWN])


@pytest.mark.parametrize(
    ("value", "requirement", "met"),
    [
        ("4", "> 2", False),
        ("> 2", "> 2", True),
        ("5", "= 4", True),
        ("3", "= 4", False),
        ("4.0", "== 4", True),
        ("5", ">= 4 9", True),
        ("5", ">=4", False),
        ("10", "s< 9", True),
        ("a b", "s== a b", False),
        ("aes,sse", "<in> ss", True),
        ("aes,sse", "<all-in> sse aes", True),
        ("aes", "<all-in> sse aes", False),
        ("foo bar", "<or> foo bar", False),
        ("5", "<or> 4 x 5", True),
        ("x", "<or> 4 x 5", False),
        ("inf", ">= 5", True),
        ("A", "a", False),
        (" a ", "a", False),
        ("", "", True),
        ("4", "!= 4.0", False),
        ("5", "!= 4", True),
        ("3", "<= 3", True),
        ("4", "<= 3", False),
        ("a", "s!= b", True),
        ("b", "s> a", True),
        ("a", "s>= a", True),
        ("b", "s<= a", False),
        (None, "x", False),
        (None, "None", False),
        (None, "!= 4", False),
        (None, "", False),
        ("4", "==", False),
        ("4", "s==", False),
        ("4", "<all-in>", False),
    ],
)
def test_worked_cases(value, requirement, met):
    assert matches(value, requirement) is met


@pytest.mark.parametrize(
    ("value", "requirement"), [("4", "<or>"), ("abc", "== 4"), ("4", ">= abc"), ("", "= 1")]
)
def test_what_raises_in_nova_is_not_met_here(value, requirement):
    assert matches(value, requirement) is False


@given(TEXTS | st.none(), TEXTS | st.tuples(OPERATORS, TEXTS).map(" ".join))
def test_nothing_raises(value, requirement):
    assert matches(value, requirement) in (True, False)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numeric_operators_are_those_of_numbers(left, right):
    found = {name: matches(str(left), f"{name} {right}") for name in NUMERIC}
    assert found == {
        "=": left >= right,
        "==": left == right,
        "!=": left != right,
        ">=": left >= right,
        "<=": left <= right,
    }


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), st.sampled_from(["a", "b", "c"]))
def test_or_takes_every_second_word(alternatives, value):
    requirement = "<or> " + " <or> ".join(alternatives)
    assert matches(value, requirement) == (value in alternatives)
