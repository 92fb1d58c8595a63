# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view.tracking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.host_view import tracking
from scheduler.host_view.tracking import KEPT, ToldAggregates, ToldInstances
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance

NOW = 1_000_000.0


def an_instance(uuid, **facts):
    return Instance(uuid=uuid, **facts)


def test_instances_are_kept_by_the_host_that_told_of_them():
    told = ToldInstances()
    kept = told.put("h1", an_instance("u1", host="elsewhere", node="n1", vcpus=2), NOW)
    assert (kept.host, kept.node, kept.vcpus) == ("h1", "n1", 2)
    told.put("h2", an_instance("u1"), NOW)
    assert told.on("h1") == {"u1": kept}
    assert told.hosts() == ["h1", "h2"]
    assert told.on("H1") == told.on("h9") == {}


def test_what_is_told_again_is_replaced():
    told = ToldInstances()
    told.put("h1", an_instance("u1", vcpus=2), NOW)
    told.put("h1", an_instance("u1", memory_mb=5), NOW)
    (instance,) = told.on("h1").values()
    assert (instance.vcpus, instance.memory_mb) == (None, 5)


def test_dropped_and_forgotten_ones_are_gone():
    told = ToldInstances()
    for uuid in ("u1", "u2"):
        told.put("h1", an_instance(uuid), NOW)
    told.put("h2", an_instance("u3"), NOW)
    assert told.drop("h1", "u1")
    assert not told.drop("h1", "u9")
    assert not told.drop("h9", "u2")
    assert list(told.on("h1")) == ["u2"]
    told.drop("h1", "u2")
    assert told.hosts() == ["h2"]
    told.drop("h2", "u3")
    assert told.hosts() == []
    told.put("h1", an_instance("u1"), NOW)
    assert list(told.on("h1")) == ["u1"]


def test_what_was_not_told_again_for_long_is_forgotten():
    told = ToldInstances()
    told.put("h1", an_instance("u1"), NOW)
    told.put("h1", an_instance("u2"), NOW + 10)
    told.put("h2", an_instance("u3"), NOW)
    told.renew("h2", NOW + 20)
    told.renew("h9", NOW + 20)
    assert list(told.expired(NOW + KEPT - 1)) == []
    assert list(told.expired(NOW + KEPT)) == [("h1", "u1")]
    assert (list(told.on("h1")), list(told.on("h2"))) == (["u2"], ["u3"])
    assert list(told.expired(NOW + KEPT + 19)) == [("h1", "u2")]
    assert list(told.expired(NOW + KEPT + 20)) == [("h2", "u3")]
    assert told.hosts() == []


def test_what_was_told_before_the_time_was_known_counts_from_then():
    told = ToldInstances()
    told.put("h1", an_instance("u1"), 0.0)
    assert list(told.expired(NOW)) == []
    assert told.was_told("h1", "u1") == NOW
    assert list(told.expired(NOW + KEPT)) == [("h1", "u1")]


@pytest.mark.parametrize("bound", ["MOST_INSTANCES", "MOST_ON_A_HOST"])
def test_no_more_are_kept_than_there_is_room_for(monkeypatch, caplog, bound):
    monkeypatch.setattr(tracking, bound, 2)
    told = ToldInstances()
    assert told.put("h1", an_instance("u1"), NOW)
    assert told.put("h1", an_instance("u2"), NOW)
    assert told.put("h1", an_instance("u3"), NOW) is None
    assert told.put("h1", an_instance("u4"), NOW) is None
    assert told.put("h1", an_instance("u2", vcpus=7), NOW).vcpus == 7
    assert (told.put("h2", an_instance("u5"), NOW) is None) == (bound == "MOST_INSTANCES")
    assert list(told.on("h1")) == ["u1", "u2"]
    assert caplog.text.count("no more are remembered") == 1
    told.drop("h2", "u5")
    told.drop("h1", "u1")
    assert told.put("h1", an_instance("u6"), NOW)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "expire"]),
        st.sampled_from(["h1", "h2"]),
        st.sampled_from(["u1", "u2", "u3"]),
    )
)


@given(STEPS)
def test_the_number_of_instances_is_never_lost(steps):
    told, model = ToldInstances(), set()
    for verb, host, uuid in steps:
        if verb == "put":
            told.put(host, an_instance(uuid), NOW)
            model.add((host, uuid))
        elif verb == "drop":
            told.drop(host, uuid)
            model.discard((host, uuid))
        else:
            told.renew("h1" if host == "h2" else "h2", NOW + 1)
            model -= set(told.expired(NOW + KEPT))
    assert {(host, uuid) for host in told.hosts() for uuid in told.on(host)} == model
    assert told._count == len(model)


def an_aggregate(number, name="a", uuid=None, **changes):
    return Aggregate(number, uuid, name, **changes)


def names(aggregates):
    return [each.name for each in aggregates]


def test_told_aggregates_come_in_the_place_of_those_with_their_uuid():
    told = ToldAggregates()
    inventory = [an_aggregate(1, "one", "x1"), an_aggregate(2, "two", "x2")]
    assert told.over(inventory) == inventory
    # Of the same number, which says nothing: both sides count on their own.
    told.put(an_aggregate(2, "other", "x9"))
    told.put(an_aggregate(7, "one again", "x1"))
    assert names(told.over(inventory)) == ["one again", "two", "other"]


def test_an_aggregate_without_uuid_is_known_by_its_id_among_those_that_were_told():
    told = ToldAggregates()
    told.put(an_aggregate(2, "theirs"))
    # The numbers of the inventory are others.
    inventory = [an_aggregate(1, "one", "x1"), an_aggregate(2, "two", "x2")]
    assert names(told.over(inventory)) == ["one", "two", "theirs"]
    told.forget("x2")
    assert names(told.over(inventory)) == ["one", "two", "theirs"]
    told.put(an_aggregate(2, "with uuid", "x3"))
    assert names(told.over(inventory)) == ["one", "two", "with uuid"]
    told.end(an_aggregate(2))
    assert told.over(inventory) == inventory


def test_the_order_of_told_ones_does_not_depend_on_that_of_the_casts():
    told = ToldAggregates()
    for each in (3, 1, 2):
        told.put(an_aggregate(each, f"a{each}", f"x{each}"))
    told.put(an_aggregate(None, "a0", "x0"))
    assert names(told.over([])) == ["a0", "a1", "a2", "a3"]


def test_a_deleted_aggregate_is_gone_wherever_it_was():
    told = ToldAggregates()
    for name in ("one", "two"):
        told.put(an_aggregate(1, name, name))
    told.end(an_aggregate(9, "anything", "one"))
    told.end(an_aggregate(9, "anything", "unknown"))
    assert names(told.over([an_aggregate(1, "of the inventory", "one")])) == ["two"]
    told.end(an_aggregate(1, "two", "two"))
    assert told.over([]) == []


def test_an_aggregate_whose_end_was_told_is_back_when_it_is_told_again():
    told = ToldAggregates()
    inventory = [an_aggregate(1, "of the inventory", "x1")]
    told.end(an_aggregate(1, "one", "x1"))
    assert told.over(inventory) == []
    told.put(an_aggregate(1, "one", "x1"))
    assert names(told.over(inventory)) == ["one"]
    told.forget("x1")
    assert told.over(inventory) == inventory
    told.end(an_aggregate(1, "one", "x1"))
    told.forget("x1")
    told.forget(None)
    assert told.over(inventory) == inventory


def test_the_ends_of_the_last_aggregates_are_remembered(monkeypatch):
    monkeypatch.setattr(tracking, "MOST_AGGREGATES", 2)
    told = ToldAggregates()
    inventory = [an_aggregate(each, f"a{each}", f"x{each}") for each in (1, 2, 3)]
    for each in (1, 2, 1, 3):
        told.end(an_aggregate(each, uuid=f"x{each}"))
    assert names(told.over(inventory)) == ["a2"]


def test_no_more_aggregates_are_kept_than_there_is_room_for(monkeypatch, caplog):
    monkeypatch.setattr(tracking, "MOST_AGGREGATES", 1)
    told = ToldAggregates()
    told.put(an_aggregate(1, "one", "x1"))
    told.put(an_aggregate(2, "two", "x2"))
    told.put(an_aggregate(1, "one again", "x1"))
    assert names(told.over([])) == ["one again"]
    assert "more than 1 aggregates; x2 ignored" in caplog.text


class Counted:
    """An aggregate that counts how often it is looked at."""

    looks = 0

    def __init__(self, number):
        self._facts = {"id": number, "uuid": f"a{number}" if number % 2 else None}

    def __getattr__(self, name):
        Counted.looks += 1
        return self._facts[name]


def test_many_aggregates_are_told_of_at_the_cost_of_each():
    told = ToldAggregates()
    for number in range(300):
        told.put(Counted(number))
    assert len(told.over(())) == 300
    assert Counted.looks < 20 * 300
