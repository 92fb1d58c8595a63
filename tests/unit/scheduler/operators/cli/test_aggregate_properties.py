# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Properties that filters and weighers read as numbers have to be such."""

from contextlib import suppress
from importlib.metadata import distribution

import pytest

from inventory.errors import Malformed
from scheduler.operators.cli import aggregate
from scheduler.plugins import FILTERS, WEIGHERS
from tests.builders import a_request
from tests.hosts import a_host, a_table

RATIOS = [key for key, cast in aggregate.FILTER_KEYS.items() if cast is float]
COUNTS = [key for key, cast in aggregate.FILTER_KEYS.items() if cast is int]


@pytest.mark.parametrize("key", [*RATIOS, "ram_weight_multiplier"])
@pytest.mark.parametrize("text", ["abc", "", "1,5", "nan", "inf", "1e101", "4.0 # four"])
def test_what_is_no_number_is_refused(key, text):
    with pytest.raises(Malformed) as caught:
        aggregate.check_properties({"ssd": "abc", key: text})
    assert str(caught.value) == f"{key}: {text!r} is not a number: schedulers would ignore it"


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize("text", ["many", "4.5", "4,20", "9" * 5000])
def test_what_is_no_whole_number_is_refused(key, text):
    with pytest.raises(Malformed, match="is not a whole number: schedulers would ignore it"):
        aggregate.check_properties({key: text})


@pytest.mark.parametrize("key", [*RATIOS, *COUNTS])
def test_no_filter_can_use_what_is_below_zero(key):
    with pytest.raises(Malformed, match=r"^[a-z_]+: '-1' is less than 0: no host would take any"):
        aggregate.check_properties({key: "-1"})
    aggregate.check_properties({key: "0"})


def test_numbers_and_all_other_properties_are_taken():
    numbers = dict.fromkeys(RATIOS, "1.5") | dict.fromkeys(COUNTS, "12")
    others = {"filter_tenant_id": "p1, p2", "instance_type": "m1.large", "ssd": "<or> 1 <or> 2"}
    aggregate.check_properties({})
    aggregate.check_properties(numbers | others | {"cpu_weight_multiplier": "-1e3"})


def test_it_knows_the_keys_of_all_filters(monkeypatch):
    read = set()

    def overridden(hosts, key, *others):
        read.add(key)
        raise ValueError("noted")

    monkeypatch.setattr("scheduler.filters.aggregate_limits.overridden", overridden)
    for point in distribution("berthmaster").entry_points:
        if point.group == FILTERS and point.name.startswith("Aggregate"):
            with suppress(ValueError):
                point.load()().mask(a_table(a_host()), a_request())
    assert read == aggregate.FILTER_KEYS.keys()


def test_it_knows_the_keys_of_all_weighers():
    points = distribution("berthmaster").entry_points
    keys = {each.load().aggregate_key for each in points if each.group == WEIGHERS} - {None}
    assert len(keys) > 10
    assert [key for key in keys if not key.endswith(aggregate.WEIGHER_KEYS)] == []
