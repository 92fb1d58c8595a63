# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What each kind of value accepts, and how it words a refusal."""

import math
from collections import OrderedDict

import pytest

from scheduler.objects import kinds
from scheduler.objects.kinds import Malformed


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (kinds.COUNT, 12288, 12288),
        (kinds.COUNT, 12288.7, 12288),
        (kinds.COUNT, " 12 ", 12),
        (kinds.INTEGER, -3, -3),
        (kinds.TEXT, 2, "2"),
        (kinds.TEXT, 1.5, "1.5"),
        (kinds.TEXT, True, "True"),
        (kinds.TEXT, "zürich", "zürich"),
        (kinds.RATIO, "1.5", 1.5),
        (kinds.RATIO, 16, 16.0),
        (kinds.TRUTH, True, True),
        (kinds.TRUTH, 0, False),
        (kinds.TRUTH, " Yes ", True),
        (kinds.TRUTH, "off", False),
        (kinds.set_of(kinds.COUNT), [2, 1, 2], {1, 2}),
        (kinds.map_of(kinds.COUNT, key=kinds.COUNT), {"0": 3}, {0: 3}),
        (kinds.list_of(kinds.or_none(kinds.TEXT)), ["a", None], ["a", None]),
        # A caller in this process may give another collection than JSON has.
        (kinds.list_of(kinds.COUNT), (1, "2"), [1, 2]),
        (kinds.list_of(kinds.COUNT), {"3"}, [3]),
        (kinds.map_of(kinds.COUNT), OrderedDict(a="1"), {"a": 1}),
        (kinds.document(kinds.list_of(kinds.COUNT)), "[1, 2]", [1, 2]),
        (kinds.document(kinds.list_of(kinds.COUNT)), [1, 2], [1, 2]),
        (kinds.document(kinds.list_of(kinds.COUNT)), "null", None),
    ],
)
def test_accepted(kind, given, value):
    read = kind.read(given)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (kinds.COUNT, -1, "-1 is not between 0 and 2147483647"),
        (kinds.COUNT, 2**31, "2147483648 is not between 0 and 2147483647"),
        (kinds.COUNT, 1 << 9_999, "a 10000-bit number is not between 0 and 2147483647"),
        (kinds.COUNT, True, "True is not a whole number"),
        (kinds.COUNT, "abc", "'abc' is not a whole number"),
        (kinds.COUNT, math.nan, "nan is not a whole number"),
        (kinds.COUNT, math.inf, "inf is not a whole number"),
        (kinds.COUNT, "9" * 5000, f"'{'9' * 40}...' is not a whole number"),
        (kinds.COUNT, None, "null is not a whole number"),
        (kinds.COUNT, [1], "a list is not a whole number"),
        (kinds.TEXT, ["a"], "a list is not text"),
        (kinds.TEXT, 1 << 9_999, "a 10000-bit number is not text"),
        (kinds.TEXT, "\ud800", "'\\ud800' is not text of 0 to 65535 characters"),
        (kinds.UUID, "", "'' is not text of 1 to 36 characters"),
        (kinds.RATIO, math.nan, "nan is not a finite number"),
        (kinds.RATIO, True, "True is not a finite number"),
        (kinds.RATIO, 1 << 9_999, "a 10000-bit number is not a finite number"),
        (kinds.RATIO, {}, "a dict is not a finite number"),
        (kinds.TRUTH, "maybe", "'maybe' is neither true nor false"),
        (kinds.TRUTH, 2, "2 is neither true nor false"),
        (kinds.list_of(kinds.COUNT), "12", "'12' is not a list"),
        (kinds.list_of(kinds.COUNT), [1, "x", "y"], "[1]: 'x' is not a whole number"),
        (kinds.list_of(kinds.COUNT, 2), [1, 2, 3], "3 items are more than 2"),
        (kinds.map_of(kinds.COUNT), [1], "a list is not an object"),
        (kinds.map_of(kinds.COUNT), {"a": "x"}, "a: 'x' is not a whole number"),
        (kinds.map_of(kinds.COUNT), {"a" * 300: 1}, None),
        (kinds.map_of(kinds.COUNT, most=1), {"a": 1, "b": 2}, "2 items are more than 1"),
        (kinds.document(kinds.TEXT), "{", "'{' is not a JSON document"),
        (kinds.document(kinds.TEXT), "[" * 200_000, None),
    ],
)
def test_refused(kind, given, words):
    with pytest.raises(Malformed) as refused:
        kind.read(given)
    assert words is None or str(refused.value) == words
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (kinds.set_of(kinds.COUNT), {3, 1, 2}, [1, 2, 3]),
        (kinds.map_of(kinds.COUNT, key=kinds.COUNT), {0: 3}, {"0": 3}),
        (kinds.list_of(kinds.or_none(kinds.set_of(kinds.COUNT))), [{1}, None], [[1], None]),
    ],
)
def test_written(kind, value, written):
    assert kind.write(value) == written


def test_the_path_grows_while_the_error_rises():
    deep = kinds.map_of(kinds.list_of(kinds.map_of(kinds.COUNT)))
    with pytest.raises(Malformed) as refused:
        kinds.read_under("args", deep.read, {"a": [{}, {"b": "x"}]})
    assert str(refused.value) == "args.a[1].b: 'x' is not a whole number"
