# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Properties that filters and weighers read as numbers have to be such."""

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

import scheduler.filters
from inventory.refusals import Malformed
from scheduler.cli import aggregate_numbers
from scheduler.plugins import WEIGHERS

RATIOS = [key for key, cast in aggregate_numbers.OF_FILTERS.items() if cast is float]
COUNTS = [key for key, cast in aggregate_numbers.OF_FILTERS.items() if cast is int]


@pytest.mark.parametrize("key", [*RATIOS, "ram_weight_multiplier"])
@pytest.mark.parametrize("text", ["abc", "", "1,5", "nan", "inf", "1e101", "4.0 # four"])
def test_what_is_no_number_is_refused(key, text):
    with pytest.raises(Malformed) as caught:
        aggregate_numbers.check({"ssd": "abc", key: text})
    assert str(caught.value) == f"{key}: {text!r} is not a number: schedulers would ignore it"


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize("text", ["many", "4.5", "4,20", "9" * 5000])
def test_what_is_no_whole_number_is_refused(key, text):
    with pytest.raises(Malformed, match="is not a whole number: schedulers would ignore it"):
        aggregate_numbers.check({key: text})


@pytest.mark.parametrize("key", [*RATIOS, *COUNTS])
def test_no_filter_can_use_what_is_below_zero(key):
    with pytest.raises(Malformed, match=r"^[a-z_]+: '-1' is less than 0: no host would take any"):
        aggregate_numbers.check({key: "-1"})
    aggregate_numbers.check({key: "0"})


def test_numbers_and_all_other_properties_are_taken():
    numbers = dict.fromkeys(RATIOS, "1.5") | dict.fromkeys(COUNTS, "12")
    others = {"filter_tenant_id": "p1, p2", "instance_type": "m1.large", "ssd": "<or> 1 <or> 2"}
    aggregate_numbers.check({})
    aggregate_numbers.check(numbers | others | {"cpu_weight_multiplier": "-1e3"})


def test_it_knows_the_keys_of_all_filters():
    sources = [each.read_text() for each in Path(scheduler.filters.__path__[0]).glob("*.py")]
    read = [re.findall(r'overridden\(\s*\w+, "(\w+)"', text) for text in sources]
    assert {key for keys in read for key in keys} == aggregate_numbers.OF_FILTERS.keys()


def test_it_knows_the_keys_of_all_weighers():
    points = distribution("berthmaster").entry_points
    keys = {each.load().aggregate_key for each in points if each.group == WEIGHERS} - {None}
    assert len(keys) > 10
    assert [key for key in keys if not key.endswith(aggregate_numbers.OF_WEIGHERS)] == []
