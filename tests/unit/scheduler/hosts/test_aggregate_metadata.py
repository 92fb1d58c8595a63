# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.aggregate_metadata."""

import pytest

from scheduler.hosts.aggregate_metadata import (
    keys,
    overridden,
    quoted,
    smallest,
    split_values,
    values,
)
from tests.hosts import a_host, a_table, an_aggregate, in_aggregates


@pytest.mark.parametrize(
    ("texts", "whole", "split"),
    [
        ([], set(), set()),
        (["4,20"], {"4,20"}, {"4", "20"}),
        ([" 12 "], {" 12 "}, {"12"}),
        (["10", "9"], {"10", "9"}, {"10", "9"}),
        (["x", "x"], {"x"}, {"x"}),
        ([""], {""}, {""}),
    ],
)
def test_values_are_whole_or_split_and_trimmed(texts, whole, split):
    aggregates = in_aggregates("k", texts)
    assert values(aggregates, "k") == whole
    assert split_values(aggregates, "k") == split


def test_aggregates_without_the_key_have_no_value():
    aggregates = [an_aggregate(other="1"), an_aggregate(k="2")]
    assert values(aggregates, "k") == {"2"}
    assert values(None, "k") == set()
    assert split_values(None, "k") == set()


def test_keys_are_found_by_how_they_begin():
    aggregates = [an_aggregate(kind="1", k="4", other="5"), an_aggregate(kind="3")]
    assert keys(aggregates, "k") == ["k", "kind"]
    assert keys(aggregates, "") == ["k", "kind", "other"]
    assert keys(aggregates, "x") == []
    assert keys(None, "") == []


def test_texts_are_quoted_in_their_order():
    assert quoted({"b", "a\n", ""}) == r"'', 'a\n', 'b'"
    assert quoted([]) == "none"


@pytest.mark.parametrize(
    ("texts", "number"),
    [
        ([], 1.5),
        (["2.0"], 2.0),
        (["1.5", "2.0"], 1.5),
        # Compared as numbers; as texts '10' would be the smaller.
        (["10", "9"], 9.0),
        ([" 12 "], 12.0),
        (["-2"], -2.0),
        # As Python reads numbers.
        (["1_0"], 10.0),
        (["1e1"], 10.0),
    ],
)
def test_smallest_number_or_the_default(texts, number):
    warnings = []
    assert smallest(in_aggregates("k", texts), "k", 1.5, warnings.append) == number
    assert warnings == []


@pytest.mark.parametrize("bad", ["abc", "2,3", "", "nan", "inf", "-inf", "1e999"])
def test_a_bad_value_is_named_and_the_default_serves(bad):
    warnings = []
    assert smallest(in_aggregates("k", [bad]), "k", 1.5, warnings.append) == 1.5
    assert warnings == [f"aggregate metadata k = {bad!r} is not a number and is ignored"]


@pytest.mark.parametrize(
    ("text", "number"), [("1_0", 10), (" 12 ", 12), ("1e1", 7), ("4.5", 7), ("4,20", 7), ("", 7)]
)
def test_smallest_whole_number_or_the_default(text, number):
    assert smallest(in_aggregates("k", [text]), "k", 7, lambda _: None, int) == number


def test_unlike_nova_only_the_bad_value_is_ignored():
    # Nova falls back to the default for the whole host: one typing error undoes all aggregates.
    warnings = []
    assert smallest(in_aggregates("k", ["x", "20"]), "k", 8, warnings.append, int) == 20
    warnings.clear()
    assert smallest(in_aggregates("k", ["abc", "3"]), "k", 1.5, warnings.append) == 3.0
    assert len(warnings) == 1


def test_there_is_one_number_for_each_row():
    table = a_table(
        a_host("h1", aggregates=in_aggregates("k", ["5", "3"])),
        a_host("h2"),
        a_host("h3", aggregates=in_aggregates("k", ["bad"])),
        a_host("h4", aggregates=None),
    )
    assert overridden(table, "k", 1.0).tolist() == [3.0, 1.0, 1.0, 1.0]
    assert list(table.warnings) == ["aggregate metadata k = 'bad' is not a number and is ignored"]


def test_a_host_has_its_own_number_where_no_aggregate_has_the_key():
    assert overridden(a_table(a_host(aggregates=[an_aggregate(other="1")])), "k", 1.0) == 1.0
