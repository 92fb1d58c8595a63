# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.nova_casts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.aggregate import Aggregate
from scheduler.host_cache import nova_casts
from scheduler.host_cache.nova_casts import LIFETIME, CastAggregates, CastInstances
from scheduler.objects.instance import Instance

NOW = 1_000_000.0


def an_instance(uuid, **facts):
    return Instance(uuid=uuid, **facts)


def test_instances_are_kept_by_the_host_that_told_of_them():
    casts = CastInstances()
    kept = casts.put("h1", an_instance("u1", host="elsewhere", node="n1", vcpus=2), NOW)
    assert (kept.host, kept.node, kept.vcpus) == ("h1", "n1", 2)
    casts.put("h2", an_instance("u1"), NOW)
    assert casts.on("h1") == {"u1": kept}
    assert casts.hosts() == ["h1", "h2"]
    assert casts.on("H1") == casts.on("h9") == {}


def test_what_is_told_again_is_replaced():
    casts = CastInstances()
    casts.put("h1", an_instance("u1", vcpus=2), NOW)
    casts.put("h1", an_instance("u1", memory_mb=5), NOW)
    (instance,) = casts.on("h1").values()
    assert (instance.vcpus, instance.memory_mb) == (None, 5)


def test_dropped_and_forgotten_ones_are_gone():
    casts = CastInstances()
    for uuid in ("u1", "u2"):
        casts.put("h1", an_instance(uuid), NOW)
    casts.put("h2", an_instance("u3"), NOW)
    assert casts.drop("h1", "u1")
    assert not casts.drop("h1", "u9")
    assert not casts.drop("h9", "u2")
    assert list(casts.on("h1")) == ["u2"]
    casts.drop("h1", "u2")
    assert casts.hosts() == ["h2"]
    casts.drop("h2", "u3")
    assert casts.hosts() == []
    casts.put("h1", an_instance("u1"), NOW)
    assert list(casts.on("h1")) == ["u1"]


def test_what_was_not_told_again_for_long_is_forgotten():
    casts = CastInstances()
    casts.put("h1", an_instance("u1"), NOW)
    casts.put("h1", an_instance("u2"), NOW + 10)
    casts.put("h2", an_instance("u3"), NOW)
    casts.renew("h2", NOW + 20)
    casts.renew("h9", NOW + 20)
    assert list(casts.expire(NOW + LIFETIME - 1)) == []
    assert list(casts.expire(NOW + LIFETIME)) == [("h1", "u1")]
    assert (list(casts.on("h1")), list(casts.on("h2"))) == (["u2"], ["u3"])
    assert list(casts.expire(NOW + LIFETIME + 19)) == [("h1", "u2")]
    assert list(casts.expire(NOW + LIFETIME + 20)) == [("h2", "u3")]
    assert casts.hosts() == []


def test_what_was_told_before_the_time_was_known_counts_from_then():
    casts = CastInstances()
    casts.put("h1", an_instance("u1"), 0.0)
    assert list(casts.expire(NOW)) == []
    assert casts.announced_at("h1", "u1") == NOW
    assert list(casts.expire(NOW + LIFETIME)) == [("h1", "u1")]


@pytest.mark.parametrize("bound", ["MAX_INSTANCES", "MAX_ON_A_HOST"])
def test_no_more_are_kept_than_there_is_room_for(monkeypatch, caplog, bound):
    monkeypatch.setattr(nova_casts, bound, 2)
    casts = CastInstances()
    assert casts.put("h1", an_instance("u1"), NOW)
    assert casts.put("h1", an_instance("u2"), NOW)
    assert casts.put("h1", an_instance("u3"), NOW) is None
    assert casts.put("h1", an_instance("u4"), NOW) is None
    assert casts.put("h1", an_instance("u2", vcpus=7), NOW).vcpus == 7
    assert (casts.put("h2", an_instance("u5"), NOW) is None) == (bound == "MAX_INSTANCES")
    assert list(casts.on("h1")) == ["u1", "u2"]
    assert caplog.text.count("the others are ignored") == 1
    casts.drop("h2", "u5")
    casts.drop("h1", "u1")
    assert casts.put("h1", an_instance("u6"), NOW)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "expire"]),
        st.sampled_from(["h1", "h2"]),
        st.sampled_from(["u1", "u2", "u3"]),
    )
)


@given(STEPS)
def test_the_number_of_instances_is_never_lost(steps):
    casts, model = CastInstances(), set()
    for verb, host, uuid in steps:
        if verb == "put":
            casts.put(host, an_instance(uuid), NOW)
            model.add((host, uuid))
        elif verb == "drop":
            casts.drop(host, uuid)
            model.discard((host, uuid))
        else:
            casts.renew("h1" if host == "h2" else "h2", NOW + 1)
            model -= set(casts.expire(NOW + LIFETIME))
    assert {(host, uuid) for host in casts.hosts() for uuid in casts.on(host)} == model
    assert casts._count == len(model)


def an_aggregate(number, name="a", uuid=None, **changes):
    return Aggregate(number, uuid, name, **changes)


def names(aggregates):
    return [each.name for each in aggregates]


def test_told_aggregates_come_in_the_place_of_those_with_their_uuid():
    casts = CastAggregates()
    inventory = [an_aggregate(1, "one", "x1"), an_aggregate(2, "two", "x2")]
    assert casts.merge_into(inventory) == inventory
    # Of the same number, which says nothing: both sides count on their own.
    casts.put(an_aggregate(2, "other", "x9"))
    casts.put(an_aggregate(7, "one again", "x1"))
    assert names(casts.merge_into(inventory)) == ["one again", "two", "other"]


def test_an_aggregate_without_uuid_is_known_by_its_id_among_those_that_were_told():
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


def test_the_order_of_told_ones_does_not_depend_on_that_of_the_casts():
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


def test_an_aggregate_whose_end_was_told_is_back_when_it_is_told_again():
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
    monkeypatch.setattr(nova_casts, "MAX_AGGREGATES", 2)
    casts = CastAggregates()
    inventory = [an_aggregate(each, f"a{each}", f"x{each}") for each in (1, 2, 3)]
    for each in (1, 2, 1, 3):
        casts.delete(an_aggregate(each, uuid=f"x{each}"))
    assert names(casts.merge_into(inventory)) == ["a2"]


def test_no_more_aggregates_are_kept_than_there_is_room_for(monkeypatch, caplog):
    monkeypatch.setattr(nova_casts, "MAX_AGGREGATES", 1)
    casts = CastAggregates()
    casts.put(an_aggregate(1, "one", "x1"))
    casts.put(an_aggregate(2, "two", "x2"))
    casts.put(an_aggregate(1, "one again", "x1"))
    assert names(casts.merge_into([])) == ["one again"]
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
    casts = CastAggregates()
    for number in range(300):
        casts.put(Counted(number))
    assert len(casts.merge_into(())) == 300
    assert Counted.looks < 20 * 300
