# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.assumed."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.host_cache.assumed import LIFETIME, AssumedInstances
from scheduler.objects.instance import Instance

A, B, C = ("h1", "n1"), ("h2", "n2"), ("h3", "n3")
U1 = Instance(uuid="u1")


def test_a_promise_lasts_for_a_while():
    assumed = AssumedInstances()
    assert assumed.assume(U1, A, 100.0) is None
    assert list(assumed.expire(100.0 + LIFETIME - 1)) == []
    assert list(assumed) == [("u1", A)]
    assert list(assumed.expire(100.0 + LIFETIME)) == [("u1", A)]
    assert list(assumed) == []


def test_a_newer_promise_replaces_the_older_one():
    assumed = AssumedInstances()
    assumed.assume(U1, A, 100.0)
    assert assumed.assume(U1, B, 200.0) == A
    assert list(assumed) == [("u1", B)]
    assert list(assumed.expire(100.0 + LIFETIME)) == []
    assert list(assumed.expire(200.0 + LIFETIME)) == [("u1", B)]


def test_what_an_agent_has_reported_is_no_promise_any_more():
    assumed = AssumedInstances()
    assumed.assume(U1, A, 100.0)
    assert assumed.confirm("u1", A) == A
    assert assumed.confirm("u1", A) is None
    assert list(assumed) == []


def test_an_instance_that_moves_has_not_arrived_while_it_is_seen_where_it_was():
    assumed = AssumedInstances()
    assumed.assume(U1, B, 100.0, before=[A, B])
    assert assumed.confirm("u1", A) is None
    assert list(assumed) == [("u1", B)]
    assert assumed.confirm("u1", B) == B


def test_a_place_that_was_only_promised_before_is_none_where_it_was():
    assumed = AssumedInstances()
    assumed.assume(U1, A, 100.0)
    assumed.assume(U1, B, 200.0, before=[A])
    assert assumed.confirm("u1", A) == B


def test_an_instance_that_was_built_on_an_alternate_has_arrived():
    assumed = AssumedInstances()
    assumed.assume(U1, B, 100.0, before=[A])
    assert assumed.confirm("u1", C) == B


def test_what_is_known_of_an_instance_is_asked_for_by_its_place():
    assumed = AssumedInstances()
    assumed.assume(U1, A, 100.0)
    assert assumed.of(["u1", "u2"]) == {A: {"u1": U1}}
    assert assumed.of(["u2"]) == {}


def test_a_promise_is_withdrawn_by_its_host_only():
    assumed = AssumedInstances()
    assumed.assume(U1, A, 100.0)
    assumed.forget("u1", "h2")
    assumed.forget("u2", "h1")
    assert list(assumed) == [("u1", A)]
    assumed.forget("u1", "h1")
    assert list(assumed) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "kept", "expired"]),
        st.sampled_from(["u1", "u2", "u3"]),
        st.sampled_from([A, B]),
        st.floats(0, LIFETIME),
    )
)


@given(STEPS)
def test_only_what_is_neither_kept_nor_too_old_is_left(steps):
    assumed, model, now = AssumedInstances(), {}, 0.0
    for verb, uuid, place, later in steps:
        now += later
        if verb == "add":
            older = model.pop(uuid, (None, None))[0]
            assert assumed.assume(Instance(uuid=uuid), place, now) == older
            model[uuid] = (place, now + LIFETIME)
        elif verb == "kept":
            assert assumed.confirm(uuid, place) == model.pop(uuid, (None, None))[0]
        else:
            gone = {uuid: place for uuid, (place, until) in model.items() if until <= now}
            assert dict(assumed.expire(now)) == gone
            model = {uuid: each for uuid, each in model.items() if uuid not in gone}
    assert dict(assumed) == {uuid: place for uuid, (place, _) in model.items()}
