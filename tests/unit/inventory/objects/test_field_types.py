# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What each kind of value accepts, and how it words a refusal."""

import math
from collections import OrderedDict

import pytest

from inventory.objects import field_types
from inventory.objects.field_types import Malformed


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (field_types.COUNT, 12288, 12288),
        (field_types.COUNT, 12288.7, 12288),
        (field_types.COUNT, " 12 ", 12),
        (field_types.INTEGER, -3, -3),
        (field_types.TEXT, 2, "2"),
        (field_types.TEXT, 1.5, "1.5"),
        (field_types.TEXT, True, "True"),
        (field_types.TEXT, "zürich", "zürich"),
        (field_types.RATIO, "1.5", 1.5),
        (field_types.RATIO, 16, 16.0),
        (field_types.TRUTH, True, True),
        (field_types.TRUTH, 0, False),
        (field_types.TRUTH, " Yes ", True),
        (field_types.TRUTH, "off", False),
        (field_types.set_of(field_types.COUNT), [2, 1, 2], {1, 2}),
        (field_types.map_of(field_types.COUNT, key=field_types.COUNT), {"0": 3}, {0: 3}),
        (field_types.list_of(field_types.or_none(field_types.TEXT)), ["a", None], ["a", None]),
        # A caller in this process may give another collection than JSON has.
        (field_types.list_of(field_types.COUNT), (1, "2"), [1, 2]),
        (field_types.list_of(field_types.COUNT), {"3"}, [3]),
        (field_types.map_of(field_types.COUNT), OrderedDict(a="1"), {"a": 1}),
        (field_types.document(field_types.list_of(field_types.COUNT)), "[1, 2]", [1, 2]),
        (field_types.document(field_types.list_of(field_types.COUNT)), [1, 2], [1, 2]),
        (field_types.document(field_types.list_of(field_types.COUNT)), "null", None),
    ],
)
def test_accepted(kind, given, value):
    read = kind.read(given)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (field_types.COUNT, -1, "-1 is not between 0 and 2147483647"),
        (field_types.COUNT, 2**31, "2147483648 is not between 0 and 2147483647"),
        (field_types.COUNT, 1 << 9_999, "a 10000-bit number is not between 0 and 2147483647"),
        (field_types.COUNT, True, "True is not a whole number"),
        (field_types.COUNT, "abc", "'abc' is not a whole number"),
        (field_types.COUNT, math.nan, "nan is not a whole number"),
        (field_types.COUNT, math.inf, "inf is not a whole number"),
        (field_types.COUNT, "9" * 5000, f"'{'9' * 40}...' is not a whole number"),
        (field_types.COUNT, None, "null is not a whole number"),
        (field_types.COUNT, [1], "a list is not a whole number"),
        (field_types.TEXT, ["a"], "a list is not text"),
        (field_types.TEXT, 1 << 9_999, "a 10000-bit number is not text"),
        (field_types.TEXT, "\ud800", "'\\ud800' is not text of 0 to 65535 characters"),
        (field_types.UUID, "", "'' is not text of 1 to 36 characters"),
        (field_types.RATIO, math.nan, "nan is not a finite number"),
        (field_types.RATIO, True, "True is not a finite number"),
        (field_types.RATIO, 1 << 9_999, "a 10000-bit number is not a finite number"),
        (field_types.RATIO, {}, "a dict is not a finite number"),
        (field_types.TRUTH, "maybe", "'maybe' is neither true nor false"),
        (field_types.TRUTH, 2, "2 is neither true nor false"),
        (field_types.list_of(field_types.COUNT), "12", "'12' is not a list"),
        (field_types.list_of(field_types.COUNT), [1, "x", "y"], "[1]: 'x' is not a whole number"),
        (field_types.list_of(field_types.COUNT, 2), [1, 2, 3], "3 items are more than 2"),
        (field_types.map_of(field_types.COUNT), [1], "a list is not an object"),
        (field_types.map_of(field_types.COUNT), {"a": "x"}, "a: 'x' is not a whole number"),
        (field_types.map_of(field_types.COUNT), {"a" * 300: 1}, None),
        (
            field_types.map_of(field_types.COUNT, most=1),
            {"a": 1, "b": 2},
            "2 items are more than 1",
        ),
        (field_types.document(field_types.TEXT), "{", "'{' is not a JSON document"),
        (field_types.document(field_types.TEXT), "[" * 200_000, None),
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
        (field_types.set_of(field_types.COUNT), {3, 1, 2}, [1, 2, 3]),
        (field_types.map_of(field_types.COUNT, key=field_types.COUNT), {0: 3}, {"0": 3}),
        (
            field_types.list_of(field_types.or_none(field_types.set_of(field_types.COUNT))),
            [{1}, None],
            [[1], None],
        ),
    ],
)
def test_written(kind, value, written):
    assert kind.write(value) == written


def test_the_path_grows_while_the_error_rises():
    deep = field_types.map_of(field_types.list_of(field_types.map_of(field_types.COUNT)))
    with pytest.raises(Malformed) as refused:
        field_types.read_under("args", deep.read, {"a": [{}, {"b": "x"}]})
    assert str(refused.value) == "args.a[1].b: 'x' is not a whole number"
