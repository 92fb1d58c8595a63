# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.existing.reconcile()."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.claims.existing import reconcile

NOW = datetime(2026, 1, 1)
LATE, EARLY = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
SIZE = (2, 2048)


def a_row(number=1, uuid="u1", state="pending", **changes):
    ordinary = {
        "id": number,
        "instance_uuid": uuid,
        "state": state,
        "in_place": False,
        "vcpus": SIZE[0],
        "memory_mb": SIZE[1],
        "expires_at": None if state == "confirmed" else EARLY,
    }
    return SimpleNamespace(**ordinary | changes)


def outcome(*rows, seen=()):
    """Return what becomes of claims as (confirmed, ended, pending), by their ids."""
    sizes = dict(seen) if isinstance(seen, dict) else dict.fromkeys(seen, SIZE)
    found = reconcile(iter(rows), sizes, NOW)
    return found.confirmed, found.ended, [row.id for row in found.pending]


@pytest.mark.parametrize(
    ("row", "seen", "expected"),
    [
        (a_row(), (), "pending"),
        (a_row(), ("u2",), "pending"),
        (a_row(), ("u1",), "confirmed"),
        (a_row(state="alternate"), ("u1",), "confirmed"),
        (a_row(uuid="U1"), ("u1",), "confirmed"),
        (a_row(expires_at=LATE), (), "ended"),
        (a_row(expires_at=NOW), (), "ended"),
        (a_row(expires_at=None), (), "pending"),
        (a_row(expires_at=LATE), ("u1",), "confirmed"),
        (a_row(state="confirmed"), ("u1",), "kept"),
        (a_row(state="confirmed"), (), "ended"),
        (a_row(state="confirmed", uuid="U1"), ("u1",), "kept"),
    ],
)
def test_what_becomes_of_a_claim(row, seen, expected):
    confirmed, ended, pending = outcome(row, seen=seen)
    found = {"confirmed": confirmed, "ended": ended, "pending": pending}
    assert [name for name, ids in found.items() if ids] == ([expected] * (expected != "kept"))


@pytest.mark.parametrize(
    ("size", "changes", "expected"),
    [
        (SIZE, {}, ([1], [], [])),
        ((1, 2048), {}, ([], [], [1])),
        ((2, 1024), {}, ([], [], [1])),
        ((2, 1024), {"expires_at": LATE}, ([], [1], [])),
    ],
)
def test_an_instance_that_is_resized_where_it_is_has_to_have_its_size(size, changes, expected):
    assert outcome(a_row(in_place=True, **changes), seen={"u1": size}) == expected


def test_a_new_claim_takes_the_place_of_the_confirmed_one():
    old, new = a_row(1, state="confirmed"), a_row(2)
    for rows in ((old, new), (new, old)):
        assert outcome(*rows, seen=["u1"]) == ([2], [1], [])
    waiting = a_row(2, in_place=True)
    assert outcome(old, waiting, seen={"u1": (1, 1)}) == ([], [], [2])


def test_one_guest_confirms_one_claim():
    assert outcome(a_row(1), a_row(2, state="alternate"), seen=["u1"]) == ([1], [2], [])


def test_a_guest_is_taken_for_the_one_that_comes_once_it_has_its_size():
    left, coming = a_row(1, state="leaving"), a_row(2, in_place=True)
    assert outcome(left, coming, seen={"u1": (1, 1)}) == ([1], [], [2])
    assert outcome(left, coming, seen=["u1"]) == ([2], [1], [])


ROWS = st.lists(
    st.builds(
        a_row,
        st.integers(1, 99),
        st.sampled_from(["u1", "U2", "u3"]),
        st.sampled_from(["pending", "alternate", "leaving", "confirmed"]),
        in_place=st.booleans(),
        expires_at=st.sampled_from([LATE, EARLY, None]),
    ),
    unique_by=lambda row: row.id,
)


@given(ROWS, st.dictionaries(st.sampled_from(["u1", "u2"]), st.sampled_from([SIZE, (1, 1)])))
def test_every_claim_has_one_end_and_a_second_look_changes_nothing(rows, seen):
    first = reconcile(rows, seen, NOW)
    pending = [row.id for row in first.pending]
    fates = first.confirmed + first.ended + pending
    assert len(fates) == len({*fates})
    left = {row.id for row in rows} - {*fates}
    assert all(row.state == "confirmed" for row in rows if row.id in left)
    after = [row for row in rows if row.id in left or row.id in pending]
    after += [
        a_row(row.id, row.instance_uuid, "confirmed") for row in rows if row.id in first.confirmed
    ]
    second = reconcile(after, seen, NOW)
    assert (second.confirmed, second.ended) == ([], [])
