# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.extra_specs_ops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.extra_specs_ops import all_matching, matches

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
        ("b", "s== a b", False),
        ("aes,sse", "<in> ss", True),
        ("aes,sse", "<all-in> sse aes", True),
        ("aes", "<all-in> sse aes", False),
        ("foo bar", "<or> foo bar", False),
        ("5", "<or> 4 x 5", True),
        ("11", "<or> 11 <or> 12 <or>", True),
        ("12311321", "<in> 12311321 <in>", True),
        ("x", "<or> 4 x 5", False),
        ("inf", ">= 5", True),
        ("A", "a", False),
        (" a ", "a", False),
        ("", "", True),
        # No operators, but plain texts.
        ("=4", "=4", True),
        ("4", "=4", False),
        (">=4", ">=4", True),
        ("< 4", "< 4", True),
        ("3", "< 4", False),
        # The whole text counts, blanks included.
        (" a ", " a ", True),
        ("a b", "a  b", False),
        # One operator decides alone.
        ("5", ">= 4 <= 3", True),
        ("4", "!= 4.0", False),
        ("5", "!= 4", True),
        ("3", "<= 3", True),
        ("4", "<= 3", False),
        ("a", "s!= b", True),
        ("b", "s> a", True),
        ("a", "s>= a", True),
        ("b", "s<= a", False),
        ("a", "s<= a", True),
        ("a", "s< a", False),
        ("B", "s< a", True),
        ("a", "s== A", False),
        ("aes,sse", "<in> avx", False),
        ("aes,sse", "<in> aes avx", True),
        (None, "s!= a", False),
        (None, "<in> a", False),
        (None, "<or> a", False),
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


NUMBERS = st.one_of(
    st.lists(st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1), max_size=5).map(
        lambda drawn: np.array(drawn, np.int64)
    ),
    st.lists(st.integers(-3, 3).map(float) | st.floats(), max_size=5).map(
        lambda drawn: np.array(drawn, np.float64)
    ),
    st.lists(st.booleans(), max_size=5).map(lambda drawn: np.array(drawn, np.bool_)),
)
WRITTEN = st.one_of(
    st.integers(-3, 12).map(str),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["True", "-0.0", "+1", "01", "1_0", "1e1", "x", "inf", "nan", "9" * 5000]),
)


@given(NUMBERS, st.tuples(OPERATORS, WRITTEN).map(" ".join))
def test_a_column_of_numbers_is_compared_as_its_texts_are(numbers, requirement):
    found = all_matching(numbers, requirement)
    assert found.dtype == np.bool_
    assert found.tolist() == [matches(str(each), requirement) for each in numbers.tolist()]


@given(NUMBERS, WRITTEN | TEXTS)
def test_a_column_of_numbers_is_compared_with_texts(numbers, requirement):
    found = all_matching(numbers, requirement)
    assert found.dtype == np.bool_
    assert found.tolist() == [matches(str(each), requirement) for each in numbers.tolist()]


@pytest.mark.parametrize(
    ("numbers", "requirement", "expected"),
    [
        ([0, 1, 2], "1", [False, True, False]),
        ([0, 1, 2], "s== 1", [False, True, False]),
        ([0, 1, 2], "<or> 1 <or> 2", [False, True, True]),
        ([0, 1, 2], ">= 1", [False, True, True]),
        ([0, 1, 2], "s!= 0", [False, True, True]),
        ([0, 1, 2], "= x", [False, False, False]),
        ([0, 1, 2], ">=", [False, False, False]),
        ([0, 1, 2], "01", [False, False, False]),
        ([0.0, -0.0, 1.0], "0.0", [True, False, False]),
        ([0.0, -0.0, 1.0], "-0.0", [False, True, False]),
        ([0.0, -0.0, 1.0], "== 0", [True, True, False]),
        ([False, True], ">= 1", [False, False]),
        ([False, True], "True", [False, True]),
    ],
)
def test_columns_of_numbers(numbers, requirement, expected):
    assert all_matching(np.array(numbers), requirement).tolist() == expected
