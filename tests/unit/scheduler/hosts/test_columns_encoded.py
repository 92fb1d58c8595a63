# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.columns."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.hosts.columns import EncodedColumn

LISTS = [[1], [1], {"a": 1}, {"a": 1}]
# Equal to one another, and yet not the same to whoever reads them.
VALUES = [None, "", "x", "y", 1, 1.0, True, 0, False, ("t",), ([],), *LISTS]


class InternedMachine(RuleBasedStateMachine):
    """A column beside a list of values."""

    @initialize(capacity=st.integers(1, 6))
    def begin(self, capacity):
        self.column = EncodedColumn(capacity)
        self.model = [None] * capacity
        self.original = None

    @rule(data=st.data(), value=st.sampled_from(VALUES))
    def set(self, data, value):
        row = data.draw(st.integers(0, len(self.model) - 1))
        self.column.set(row, value)
        self.model[row] = value

    @rule(more=st.integers(0, 4))
    def grow(self, more):
        self.column.grow(len(self.model) + more)
        self.model += [None] * more

    @rule()
    def copy(self):
        self.original = (self.column, list(self.model))
        self.column = self.column.copy()

    @rule()
    def swap(self):
        if self.original:
            column, model = self.original
            self.original = (self.column, self.model)
            self.column, self.model = column, model

    @invariant()
    def same(self):
        if hasattr(self, "column"):
            assert_same(self.column, self.model)
            if self.original:
                assert_same(*self.original)


def assert_same(column, model):
    assert [id(column[row]) for row in range(len(model))] == [id(value) for value in model]
    # Equal texts and numbers share a code, lists only with themselves.
    for i, first in enumerate(model):
        for j, second in enumerate(model):
            same = first is second if isinstance(first, list | dict) else _equal(first, second)
            assert (column.codes[i] == column.codes[j]) == same
    # What no row uses is forgotten.
    left = [value for value in column.values if value is not None]
    assert len(left) == len({int(code) for code in column.codes} - {0})
    # What is derived from values follows them, however often they change.
    seen = column.memo("kind", lambda value: type(value).__name__, object)[column.codes]
    assert seen.tolist() == [type(value).__name__ for value in model]


def _equal(first, second):
    return type(first) is type(second) and first == second and not isinstance(first, list | dict)


TestInterned = InternedMachine.TestCase
TestInterned.settings = settings(stateful_step_count=20)


def test_a_key_stands_for_its_value():
    column = EncodedColumn(3)
    value = [1, 2]
    column.write([0], ["the text"], lambda _: value)
    assert column.write([0, 1], ["the text", "the text"], list) == [1]
    assert column[1] is value
    assert column.codes[0] == column.codes[1] != column.codes[2]


def test_a_key_is_forgotten_with_the_last_row_that_uses_it():
    column = EncodedColumn(2)
    column.write([0], ["key"], lambda _: [1])
    column.write([1], ["key"], list)
    column.set(0, None)
    assert column[1] == [1]
    column.set(1, "other")
    column.write([1], ["key"], list)
    assert column[1] == ["k", "e", "y"]


def test_codes_are_used_again():
    column = EncodedColumn(1)
    for each in range(1000):
        column.set(0, f"value {each}")
    assert len(column.values) <= 3


def test_setting_the_same_value_again_changes_nothing():
    column = EncodedColumn(1)
    column.set(0, "x")
    column.set(0, "x")
    column.set(0, None)
    assert column.values == [None, None]


def test_a_value_is_asked_about_once():
    column = EncodedColumn(4)
    asked = []

    def length(value):
        asked.append(value)
        return len(value or "")

    for row, value in enumerate(["a", "bb", "a"]):
        column.set(row, value)
    assert column.memo("length", length, int)[column.codes].tolist() == [1, 2, 1, 0]
    asked.clear()
    column.set(3, "dddd")
    assert column.memo("length", length, int)[column.codes].tolist() == [1, 2, 1, 4]
    assert asked == ["dddd"]


def test_a_copy_derives_from_its_own_values():
    column = EncodedColumn(1)
    column.set(0, "a")
    column.memo("text", str, object)
    other = column.copy()
    other.set(0, "b")
    column.set(0, "c")
    assert other.memo("text", str, object)[other.codes].tolist() == ["b"]
    assert column.memo("text", str, object)[column.codes].tolist() == ["c"]


def test_the_number_of_memos_is_bounded():
    column = EncodedColumn(1)
    for number in range(100):
        column.memo(number, str, object)
    assert len(column._memos) == 64
    for number in range(5000):
        column.set(0, str(number))
    assert column.memo(99, str, object)[column.codes].tolist() == ["4999"]
    assert len(column._written) < 2000
