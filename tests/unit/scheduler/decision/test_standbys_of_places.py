# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the decision who has the standby of a reserved place, and where it goes then."""

import pytest

from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import NONE, REQUIRED, Protection
from scheduler.decision.pipeline import Request
from scheduler.decision.standby_room import NO_STANDBY
from scheduler.decision.standbys import decide
from tests.builders import INSTANCE, a_group, a_request
from tests.unit.scheduler.decision.test_standbys import PLAN, dying, hosts, own, places

SIZE = (4, 4096, 30 * 1024)
PLACE = "11111111-0000-0000-0000-000000000001"


def reserved(standby_node_id=4, node_id=1, protected=True):
    """Return a place on a1; its standby is on c1."""
    return ReservedPlace(PLACE, node_id, *SIZE, protected, standby_node_id)


def decided(table, mode=NONE, spec=None, place=None, **known):
    known = {"sums": {4: {"a": SIZE}}} | known
    request = Request(
        spec or a_request(),
        [INSTANCE],
        places=(place or reserved(),),
        protection=Protection(mode, **known),
    )
    return decide(table, request, PLAN, request.protection)


@pytest.mark.parametrize("mode", [NONE, REQUIRED])
def test_an_instance_has_the_standby_of_the_place_that_it_takes(mode):
    # All of c1 is held, and b1 has room.
    table = hosts(b1=65536, c1=0)
    found = decided(table, mode)
    assert places(found) == [("a1", "c1")]
    standby = found.placements[0].standby
    assert (standby.place, standby.size, standby.domains) == (PLACE, SIZE, ("a",))
    assert (standby.more, standby.evacuates) == ((0, 0, 0), None)
    assert table.get(3, "free_ram_mb") == 0


def test_a_place_without_a_standby_says_nothing_of_any():
    found = decided(hosts(), place=reserved(None, protected=False))
    assert (found.placements[0].place, found.placements[0].standby) == (PLACE, None)
    assert decided(hosts(a1=0, a2=0, b1=0, c1=0), place=reserved(node_id=9)).shortage


@pytest.mark.parametrize("node_id", [None, 99])
def test_a_place_gets_a_standby_for_the_instance_where_it_has_none(node_id):
    found = decided(hosts(b1=65536), place=reserved(node_id), sums={})
    assert places(found) == [("a1", "b1")]
    standby = found.placements[0].standby
    assert (standby.place, standby.size, standby.more) == (PLACE, SIZE, SIZE)


def test_an_instance_takes_a_place_for_which_there_is_no_standby_unless_it_requires_one():
    free = {"b1": 0, "c1": 0}
    found = decided(hosts(**free), place=reserved(None), sums={})
    assert places(found) == [("a1", None)]
    assert (found.placements[0].standby.place, found.placements[0].standby.reason) == (
        PLACE,
        NO_STANDBY,
    )
    found = decided(hosts(**free), REQUIRED, place=reserved(None), sums={})
    assert NO_STANDBY in found.shortage.reason


@pytest.mark.parametrize("free", [0, 8192])
def test_an_instance_whose_standby_cannot_be_there_needs_its_own(free):
    """Another member of its group has its standby on c1."""
    table = hosts(b1=free, c1=100)
    spec = a_request(instance_group=a_group(hosts=["c1"]))
    found = decided(table, spec=spec)
    assert places(found) == [("a1", "b1" if free else None)]
    standby = found.placements[0].standby
    assert (standby.place, standby.size) == (None, (2, 2048, 20 * 1024))
    # What is held for the place stays held.
    assert table.get(3, "free_ram_mb") == 100


def test_a_place_without_a_standby_is_not_that_of_an_instance_that_cannot_be_protected():
    spec = a_request(needs_placement=True)
    standby = decided(hosts(), spec=spec, place=reserved(None), sums={}).placements[0].standby
    assert standby.place is None
    assert "cannot be protected" in standby.reason


def of_place(**changes):
    return own(place=PLACE, **{"size": SIZE, "used": (12, 61440, 0)} | changes)


def test_an_instance_goes_to_the_standby_of_its_place_with_the_place():
    found = decided(dying(a2=0, b1=65536, c1=0), place=reserved(node_id=9), own=(of_place(),))
    assert places(found) == [("c1", "b1")]
    (placement,) = found.placements
    assert placement.place == PLACE
    assert (placement.standby.place, placement.standby.evacuates) == (PLACE, 1)
    assert placement.standby.size == SIZE


def test_one_that_goes_elsewhere_leaves_place_and_standby():
    spec = a_request(vcpus=5, ignore_hosts=["a1"])
    found = decided(dying(a2=0, c1=0), spec=spec, place=reserved(node_id=9), own=(of_place(),))
    (placement,) = found.placements
    assert (placement.chosen.host, placement.place, placement.standby) == ("b1", None, None)
