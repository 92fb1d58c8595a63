# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.host_aggregates."""

from inventory.objects.aggregate import Aggregate
from scheduler.host_cache import host_aggregates
from scheduler.host_cache.host_aggregates import CastAggregates


def an_aggregate(number, name="a", uuid=None, **changes):
    return Aggregate(number, uuid, name, **changes)


def names(aggregates):
    return [each.name for each in aggregates]


def test_announced_aggregates_replace_those_with_their_uuid():
    casts = CastAggregates()
    inventory = [an_aggregate(1, "one", "x1"), an_aggregate(2, "two", "x2")]
    assert casts.merge_into(inventory) == inventory
    # Of the same number, which says nothing: both sides count on their own.
    casts.put(an_aggregate(2, "other", "x9"))
    casts.put(an_aggregate(7, "one again", "x1"))
    assert names(casts.merge_into(inventory)) == ["one again", "two", "other"]


def test_an_aggregate_without_uuid_is_known_by_its_id_among_announced_ones():
    casts = CastAggregates()
    casts.put(an_aggregate(2, "theirs"))
    # The numbers of the inventory are others.
    inventory = [an_aggregate(1, "one", "x1"), an_aggregate(2, "two", "x2")]
    assert names(casts.merge_into(inventory)) == ["one", "two", "theirs"]
    casts.forget("x2")
    assert names(casts.merge_into(inventory)) == ["one", "two", "theirs"]
    casts.put(an_aggregate(2, "with uuid", "x3"))
    assert names(casts.merge_into(inventory)) == ["one", "two", "with uuid"]
    casts.delete(an_aggregate(2))
    assert casts.merge_into(inventory) == inventory


def test_the_order_of_announced_ones_does_not_depend_on_that_of_the_casts():
    casts = CastAggregates()
    for each in (3, 1, 2):
        casts.put(an_aggregate(each, f"a{each}", f"x{each}"))
    casts.put(an_aggregate(None, "a0", "x0"))
    assert names(casts.merge_into([])) == ["a0", "a1", "a2", "a3"]


def test_a_deleted_aggregate_is_gone_wherever_it_was():
    casts = CastAggregates()
    for name in ("one", "two"):
        casts.put(an_aggregate(1, name, name))
    casts.delete(an_aggregate(9, "anything", "one"))
    casts.delete(an_aggregate(9, "anything", "unknown"))
    assert names(casts.merge_into([an_aggregate(1, "of the inventory", "one")])) == ["two"]
    casts.delete(an_aggregate(1, "two", "two"))
    assert casts.merge_into([]) == []


def test_a_deleted_aggregate_is_back_when_it_is_announced_again():
    casts = CastAggregates()
    inventory = [an_aggregate(1, "of the inventory", "x1")]
    casts.delete(an_aggregate(1, "one", "x1"))
    assert casts.merge_into(inventory) == []
    casts.put(an_aggregate(1, "one", "x1"))
    assert names(casts.merge_into(inventory)) == ["one"]
    casts.forget("x1")
    assert casts.merge_into(inventory) == inventory
    casts.delete(an_aggregate(1, "one", "x1"))
    casts.forget("x1")
    casts.forget(None)
    assert casts.merge_into(inventory) == inventory


def test_the_ends_of_the_last_aggregates_are_remembered(monkeypatch):
    monkeypatch.setattr(host_aggregates, "MAX_AGGREGATES", 2)
    casts = CastAggregates()
    inventory = [an_aggregate(each, f"a{each}", f"x{each}") for each in (1, 2, 3)]
    for each in (1, 2, 1, 3):
        casts.delete(an_aggregate(each, uuid=f"x{each}"))
    assert names(casts.merge_into(inventory)) == ["a2"]


def test_no_more_aggregates_are_kept_than_there_is_room_for(monkeypatch, caplog):
    monkeypatch.setattr(host_aggregates, "MAX_AGGREGATES", 1)
    casts = CastAggregates()
    casts.put(an_aggregate(1, "one", "x1"))
    casts.put(an_aggregate(2, "two", "x2"))
    casts.put(an_aggregate(1, "one again", "x1"))
    assert names(casts.merge_into([])) == ["one again"]
    assert "more than 1 aggregates; aggregate x2 is ignored" in caplog.text


class Counted:
    """An aggregate that counts how often it is looked at."""

    looks = 0

    def __init__(self, number):
        self._facts = {"id": number, "uuid": f"a{number}" if number % 2 else None}

    def __getattr__(self, name):
        Counted.looks += 1
        return self._facts[name]


def test_announcing_many_aggregates_costs_the_sum_of_each():
    casts = CastAggregates()
    for number in range(300):
        casts.put(Counted(number))
    assert len(casts.merge_into(())) == 300
    assert Counted.looks < 20 * 300
