# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view.promises."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.host_view.promises import KEPT, Promises
from scheduler.objects.instance import Instance

A, B, C = ("h1", "n1"), ("h2", "n2"), ("h3", "n3")
U1 = Instance(uuid="u1")


def test_a_promise_lasts_for_a_while():
    promises = Promises()
    assert promises.add(U1, A, 100.0) is None
    assert list(promises.expired(100.0 + KEPT - 1)) == []
    assert list(promises) == [("u1", A)]
    assert list(promises.expired(100.0 + KEPT)) == [("u1", A)]
    assert list(promises) == []


def test_a_newer_promise_replaces_the_older_one():
    promises = Promises()
    promises.add(U1, A, 100.0)
    assert promises.add(U1, B, 200.0) == A
    assert list(promises) == [("u1", B)]
    assert list(promises.expired(100.0 + KEPT)) == []
    assert list(promises.expired(200.0 + KEPT)) == [("u1", B)]


def test_what_an_agent_has_reported_is_no_promise_any_more():
    promises = Promises()
    promises.add(U1, A, 100.0)
    assert promises.kept("u1", A) == A
    assert promises.kept("u1", A) is None
    assert list(promises) == []


def test_an_instance_that_moves_has_not_arrived_while_it_is_seen_where_it_was():
    promises = Promises()
    promises.add(U1, B, 100.0, before=[A, B])
    assert promises.kept("u1", A) is None
    assert list(promises) == [("u1", B)]
    assert promises.kept("u1", B) == B


def test_a_place_that_was_only_promised_before_is_none_where_it_was():
    promises = Promises()
    promises.add(U1, A, 100.0)
    promises.add(U1, B, 200.0, before=[A])
    assert promises.kept("u1", A) == B


def test_an_instance_that_was_built_on_an_alternate_has_arrived():
    promises = Promises()
    promises.add(U1, B, 100.0, before=[A])
    assert promises.kept("u1", C) == B


def test_what_is_known_of_an_instance_is_asked_for_by_its_place():
    promises = Promises()
    promises.add(U1, A, 100.0)
    assert promises.of(["u1", "u2"]) == {A: {"u1": U1}}
    assert promises.of(["u2"]) == {}


def test_a_promise_is_withdrawn_by_its_host_only():
    promises = Promises()
    promises.add(U1, A, 100.0)
    promises.withdraw("u1", "h2")
    promises.withdraw("u2", "h1")
    assert list(promises) == [("u1", A)]
    promises.withdraw("u1", "h1")
    assert list(promises) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "kept", "expired"]),
        st.sampled_from(["u1", "u2", "u3"]),
        st.sampled_from([A, B]),
        st.floats(0, KEPT),
    )
)


@given(STEPS)
def test_only_what_is_neither_kept_nor_too_old_is_left(steps):
    promises, model, now = Promises(), {}, 0.0
    for verb, uuid, place, later in steps:
        now += later
        if verb == "add":
            older = model.pop(uuid, (None, None))[0]
            assert promises.add(Instance(uuid=uuid), place, now) == older
            model[uuid] = (place, now + KEPT)
        elif verb == "kept":
            assert promises.kept(uuid, place) == model.pop(uuid, (None, None))[0]
        else:
            gone = {uuid: place for uuid, (place, until) in model.items() if until <= now}
            assert dict(promises.expired(now)) == gone
            model = {uuid: each for uuid, each in model.items() if uuid not in gone}
    assert dict(promises) == {uuid: place for uuid, (place, _) in model.items()}
