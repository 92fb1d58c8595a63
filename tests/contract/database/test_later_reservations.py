# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reservations that start later get their places at that moment, and nobody else before or then."""

from datetime import timedelta

import pytest

from inventory import reservations
from inventory.claims import claims
from inventory.claims.places import ending_by
from inventory.claims.types import ClaimLost
from inventory.errors import InUse, Malformed
from inventory.operations import reservation_operations
from tests.claimed import let_pass
from tests.contract.database.test_reserved_places import ONE, OTHER, SIZE, TWO, Fleet, P, times

SMALL = (3, 3072, 8192)
HOUR = 3600


@pytest.fixture
def fleet(database, tmp_path):
    """Return a fleet whose alpha is full with places of p1, which p2 gets after an hour."""
    found = Fleet(database, tmp_path)
    found.noon = found.now() + timedelta(seconds=HOUR)
    found.reserve("alpha", "alpha", ends_at=found.noon)
    follow(found)
    return found


def follow(fleet, name="s", size=SMALL, after=P[:2], **changes):
    settings = {"starts_at": fleet.noon, "project": "p2", "after": after} | changes
    fleet.reserve("alpha", "alpha", name=name, size=size, **settings)


def shown(fleet, name="s"):
    return fleet.database.read(lambda c: reservations.show(c, name))


def summary(fleet, name="s"):
    found = shown(fleet, name)
    return tuple(found[key] for key in ("state", "free", "taken", "taken_by_others"))


def test_a_place_that_is_handed_over_costs_nothing_until_then(fleet):
    assert fleet.used() == (times(2), 0)
    assert (fleet.free("p1"), fleet.free("p2")) == ([*P[:2]], [])
    assert summary(fleet) == ("scheduled", 2, 0, 0)
    assert {each["after"] for each in shown(fleet)["places"]} == {"r"}
    assert {each["after"] for each in shown(fleet, "r")["places"]} == {None}
    # Each place is promised once.
    assert fleet.database.read(lambda c: ending_by(c, fleet.noon)) == []
    with pytest.raises(ClaimLost, match="a place that is to be handed over"):
        follow(fleet, "t")


@pytest.mark.parametrize("audited", [False, True])
def test_at_its_time_a_place_goes_over_and_nobody_gets_between(fleet, audited):
    let_pass(fleet.database, HOUR)
    if audited:
        fleet.audit()
    # Whoever comes first: the time decides, not the one who writes.
    assert (fleet.free("p1"), fleet.free("p2")) == ([], [*P[:2]])
    for wanted in ({}, {"place": P[0]}):
        with pytest.raises(ClaimLost):
            fleet.claim(OTHER, SMALL, **wanted)
    with pytest.raises(ClaimLost, match="a reserved place is taken or has ended"):
        fleet.claim(OTHER, SIZE, place=P[0], project="p2")
    fleet.claim(ONE, SMALL, place=P[0], project="p2")
    assert summary(fleet) == ("held", 1, 1, 0)
    for _ in range(2):
        fleet.audit()
        assert fleet.used() == (times(2, SMALL), 1)
        assert {each["after"] for each in shown(fleet)["places"]} == {None}
    assert summary(fleet, "r") == ("ended", 0, 0, 0)
    fleet.database.write(lambda c: claims.release(c, [ONE]))
    assert fleet.free("p2") == [*P[:2]]


def test_between_the_end_and_the_start_a_place_is_for_nobody(fleet):
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    follow(fleet, starts_at=fleet.noon + timedelta(hours=1))
    for _ in range(2):
        let_pass(fleet.database, HOUR - 60)
        fleet.audit()
    assert (fleet.free("p1"), fleet.free("p2")) == ([], [])
    assert fleet.used() == (times(2, SMALL), 0)
    with pytest.raises(ClaimLost, match="a reserved place is taken or has ended"):
        fleet.claim(ONE, SMALL, place=P[0], project="p2")
    let_pass(fleet.database, 120)
    assert fleet.free("p2") == [*P[:2]]


def test_an_instance_that_stays_is_named_and_leaves_its_place_to_the_next(fleet):
    fleet.claim(ONE, place=P[0])
    fleet.start(ONE)
    fleet.audit()
    assert summary(fleet) == ("scheduled", 1, 1, 0)
    let_pass(fleet.database, HOUR)
    for _ in range(2):
        fleet.audit()
        assert fleet.used()[0] == tuple(map(sum, zip(SIZE, SMALL, strict=True)))
        assert fleet.free("p2") == [P[1]]
        assert summary(fleet) == ("held", 1, 1, 1)
    (first, _) = sorted(shown(fleet)["places"], key=lambda each: each["id"] != P[0])
    assert (first["taken_by"], first["by_other_project"]) == (ONE, True)
    assert fleet.database.read(reservations.taken_by_others) == 1
    fleet.end(ONE)
    fleet.audit()
    assert summary(fleet) == ("held", 2, 0, 0)
    assert fleet.used()[0] == times(2, SMALL)


def test_instances_of_the_same_project_stay_in_its_next_reservation(fleet):
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    follow(fleet, project="p1", size=SIZE)
    fleet.claim(ONE, place=P[0])
    fleet.start(ONE)
    let_pass(fleet.database, HOUR)
    fleet.audit()
    assert summary(fleet) == ("held", 1, 1, 0)


def test_free_room_is_held_from_the_creation_on(fleet):
    fleet.reserve("beta", name="t", project="p2", starts_at=fleet.noon)
    assert fleet.used("beta")[0] == SIZE
    assert fleet.free("p2") == []
    with pytest.raises(ClaimLost, match="a reserved place is taken or has ended"):
        fleet.claim(ONE, host="beta", place=shown(fleet, "t")["places"][0]["id"], project="p2")
    let_pass(fleet.database, HOUR)
    assert len(fleet.free("p2")) == 3


def test_what_ends_first_leaves_the_other_one_what_it_has(fleet):
    fleet.claim(ONE, place=P[0])
    fleet.database.write(lambda c: reservation_operations.delete(c, ["r"]))
    assert summary(fleet) == ("scheduled", 1, 1, 1)
    fleet.audit()
    assert fleet.used() == (tuple(map(sum, zip(SIZE, SMALL, strict=True))), 1)
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    assert fleet.used() == (SIZE, 1)


@pytest.mark.parametrize("late", [False, True])
def test_a_deleted_successor_leaves_the_places_as_they_were(fleet, late):
    if late:
        let_pass(fleet.database, HOUR)
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    assert fleet.used() == (times(0) if late else times(2), 0)
    assert fleet.free("p1") == ([] if late else [*P[:2]])


def test_a_reservation_is_extended_until_the_next_one_at_most(fleet):
    extend, later = reservation_operations.extend, fleet.noon + timedelta(seconds=1)
    with pytest.raises(InUse, match="places of reservation r go to reservation s at"):
        fleet.database.write(lambda c: extend(c, "r", later))
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    follow(fleet, starts_at=fleet.noon + timedelta(hours=1))
    fleet.database.write(lambda c: extend(c, "r", fleet.noon + timedelta(hours=1)))
    let_pass(fleet.database, HOUR + 60)
    assert fleet.free("p1") == [*P[:2]]


@pytest.mark.parametrize("change", ["taken", "extended", "too large"])
def test_a_place_that_has_changed_since_is_not_promised(fleet, change):
    fleet.database.write(lambda c: reservation_operations.delete(c, ["s"]))
    if change == "taken":
        fleet.claim(TWO, place=P[1])
    elif change == "extended":
        later = fleet.noon + timedelta(hours=1)
        fleet.database.write(lambda c: reservation_operations.extend(c, "r", later))
    with pytest.raises(ClaimLost, match="a place that is to be handed over"):
        follow(fleet, size=(4, 4096, 10241) if change == "too large" else SMALL)
    assert [each["name"] for each in fleet.database.read(reservations.listed)] == ["r"]


def test_the_end_is_after_the_start_and_the_start_is_to_come(fleet):
    with pytest.raises(Malformed, match=r"until: .* is not later than .*, the start"):
        fleet.reserve("beta", name="t", starts_at=fleet.noon, ends_at=fleet.noon)
    with pytest.raises(Malformed, match=r"from: .* is in the past"):
        fleet.reserve("beta", name="t", starts_at=fleet.now() - timedelta(days=1))
