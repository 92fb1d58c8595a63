# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys and the hints different_host and same_host, whichever instance comes first."""

from pathlib import Path

import pytest

from inventory.engine import Database
from tests.contract.database.standby_cloud import HOSTS, Size, StandbyCloud
from tests.contract.database.test_standbys_of_groups import BIG, FOUR, SMALL, A, B, D, only
from tests.databases import a_uuid

THREE = FOUR[:3]
# Of the memory of a host half, and a little less.
LARGE, MIDDLE = (2, 8192, 10), (2, 6144, 10)
APART = {"scheduler_hints": {"different_host": [A]}}


@pytest.fixture
def cloud(database: Database, tmp_path: Path) -> StandbyCloud:
    found = StandbyCloud(database, tmp_path)
    found.begin()
    return found


def fill(cloud: StandbyCloud, host: str, size: Size) -> None:
    """Place another instance on a host."""
    others = [each for each in HOSTS if each != host]
    assert cloud.ask([a_uuid(f"on {host}")], size, None, ignore=others) == [host]


def built(cloud: StandbyCloud, uuid: str, mode: str | None, **changes):
    """Return the host of an instance that has arrived, and that of its standby."""
    (host,) = cloud.ask([uuid], SMALL, mode, **changes)
    cloud.arrive(uuid, host, SMALL)
    return host, cloud.held().get(uuid)


def evacuated(cloud: StandbyCloud, uuid: str, host: str, **changes):
    with cloud.copy():
        cloud.force_down([host])
        return cloud.ask([uuid], SMALL, ignore=[host], **changes)


@pytest.mark.parametrize("mode", ["required", None])
def test_one_that_keeps_apart_from_another_goes_elsewhere_than_to_its_standby(cloud, mode):
    only(cloud, *FOUR)
    host, standby = built(cloud, A, "required")
    # The host of the standby has the most free memory.
    for each in {*FOUR} - {host, standby}:
        fill(cloud, each, LARGE)
    (other,) = cloud.ask([B], SMALL, mode, 1, **APART)
    assert {other, cloud.held().get(B)}.isdisjoint({host, standby})
    assert cloud.held()[A] == standby
    assert evacuated(cloud, A, host) == [standby]


def test_the_standby_makes_room_where_no_other_host_is_left(cloud):
    only(cloud, *FOUR)
    host, standby = built(cloud, A, "required")
    others = [each for each in FOUR if each != standby]
    assert cloud.ask([B], SMALL, None, 1, others, **APART) == [standby]
    moved = cloud.held()[A]
    assert moved not in (None, host, standby)
    assert cloud.usage() == cloud.expected_usage()
    assert evacuated(cloud, A, host) == [moved]


@pytest.mark.parametrize("mode", ["required", "preferred"])
def test_one_that_finds_no_other_host_is_refused_or_the_standby_given_up(cloud, mode):
    only(cloud, *THREE)
    assert cloud.ask([D], BIG, None, ignore=["a1", "b1"]) == ["c1"]
    host, standby = built(cloud, A, mode)
    found = cloud.ask([B], SMALL, None, 1, **APART)
    if mode == "required":
        assert found is None
        assert evacuated(cloud, A, host) == [standby]
    else:
        assert found == [standby]
        assert cloud.held()[A] is None
    assert cloud.usage() == cloud.expected_usage()


def test_one_that_moves_keeps_off_the_standby_of_who_keeps_apart_from_it(cloud):
    only(cloud, *FOUR)
    host, _ = built(cloud, A, None)
    other, standby = built(cloud, B, "required", **APART)
    assert standby not in (host, other)
    (last,) = {*FOUR} - {host, other, standby}
    # The host of the standby has more free memory.
    fill(cloud, last, LARGE)
    # The host of the other one is no place for it to be on this time.
    assert cloud.ask([A], SMALL, None, 1, [host, other]) == [last]
    assert cloud.held()[B] == standby
    cloud.leave(A, host)
    cloud.arrive(A, last, SMALL)
    assert evacuated(cloud, B, other, **APART) == [standby]


def test_the_standby_makes_room_for_one_that_moves(cloud):
    only(cloud, *FOUR)
    host, _ = built(cloud, A, None)
    other, standby = built(cloud, B, "required", **APART)
    others = [each for each in FOUR if each != standby]
    assert cloud.ask([A], SMALL, None, 1, others) == [standby]
    assert cloud.held()[B] not in (None, host, other, standby)
    assert cloud.usage() == cloud.expected_usage()


def test_a_claim_sees_a_standby_that_came_after_its_decision(cloud, monkeypatch):
    only(cloud, *THREE)
    host, _ = built(cloud, A, None)
    chosen, other = sorted({*THREE} - {host})
    fill(cloud, other, MIDDLE)
    rounds = cloud.schedulers[1].loop
    claim, come = rounds._claim_together, []

    def late(decided):
        monkeypatch.undo()
        # The other host has more free memory now, so that the standby comes to the chosen one.
        fill(cloud, chosen, LARGE)
        come.append(built(cloud, B, "required", **APART))
        return claim(decided)

    monkeypatch.setattr(rounds, "_claim_together", late)
    assert cloud.ask([A], SMALL, None, 1, [host]) == [other]
    assert come == [(other, chosen)]
    assert cloud.usage() == cloud.expected_usage()


def test_one_that_shares_the_host_of_another_cannot_have_a_standby_elsewhere(cloud):
    """Its standby would have to be where the other one is."""
    host, standby = built(cloud, A, "required")
    together = {"scheduler_hints": {"same_host": [A]}}
    assert cloud.ask([B], SMALL, "required", 1, **together) is None
    assert cloud.ask([B], SMALL, "preferred", 1, **together) == [host]
    assert cloud.held() == {A: standby, B: None}
    assert evacuated(cloud, A, host) == [standby]
