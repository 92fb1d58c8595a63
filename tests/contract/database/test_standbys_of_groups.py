# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Members of a server group and the standbys of other members, whichever comes first."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from inventory.engine import Database
from inventory.operations import server_group_operations, service_operations
from tests.builders import a_group
from tests.contract.database.standby_cloud import HOSTS, StandbyCloud
from tests.databases import a_uuid

A, B, C, D = (a_uuid(f"member {number}") for number in range(4))
SMALL = (2, 4096, 10)
BIG = (8, 16384, 50)
FOUR = ("a1", "b1", "c1", "lone")


@pytest.fixture
def cloud(database: Database, tmp_path: Path) -> StandbyCloud:
    found = StandbyCloud(database, tmp_path)
    found.begin()
    return found


def only(cloud: StandbyCloud, *hosts: str) -> None:
    """Take all other hosts out of service."""
    cloud.write(service_operations.disable, [each for each in HOSTS if each not in hosts])


def apart(*members: str, most: int = 1):
    rules = {"max_server_per_host": most} if most > 1 else {}
    return a_group(members=[*members], rules=rules)


def evacuated(cloud: StandbyCloud, uuid: str, host: str, group, mode="required"):
    """Return where an instance goes when its host dies, and put all back."""
    with cloud.copy():
        cloud.force_down([host])
        found = cloud.ask([uuid], SMALL, mode, ignore=[host], instance_group=group)
        assert cloud.usage() == cloud.expected_usage()
        return found


def test_a_later_member_leaves_the_standby_of_an_earlier_one_alone(cloud):
    """Of three hosts the third is full: the standby cannot move, and it is required."""
    only(cloud, "a1", "b1", "c1")
    group = apart(A, B)
    assert cloud.ask([D], BIG, None, ignore=["a1", "b1"]) == ["c1"]
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    assert cloud.ask([B], SMALL, None, scheduler=1, instance_group=group) is None
    assert evacuated(cloud, A, host, group) == [standby]


@pytest.mark.parametrize("mode", ["required", "preferred", None])
def test_a_later_member_goes_elsewhere_where_it_can(cloud, mode):
    group = apart(A, B)
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    (other,) = cloud.ask([B], SMALL, mode, scheduler=1, instance_group=group)
    assert other not in (host, standby)
    assert cloud.held()[A] == standby
    assert evacuated(cloud, A, host, group) == [standby]


@pytest.mark.parametrize("mode", ["required", "preferred", None])
def test_the_standby_moves_where_a_later_member_has_no_other_host(cloud, mode):
    only(cloud, *FOUR)
    group = apart(A, B)
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    others = [each for each in FOUR if each != standby]
    if mode:
        # Then the last host is that of its own standby.
        only(cloud, *FOUR, "a2")
    assert cloud.ask([B], SMALL, mode, 1, others, instance_group=group) == [standby]
    held = cloud.held()
    assert held[A] not in (None, host, standby)
    assert held.get(B) not in (held[A], standby, host)
    assert cloud.usage() == cloud.expected_usage()
    assert evacuated(cloud, A, host, group) == [held[A]]
    assert cloud.keep().made == 0


def test_a_standby_that_is_only_preferred_is_given_up(cloud, caplog):
    only(cloud, "a1", "b1", "c1")
    group = apart(A, B)
    assert cloud.ask([D], BIG, None, ignore=["a1", "b1"]) == ["c1"]
    (host,) = cloud.ask([A], SMALL, "preferred", instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    assert cloud.ask([B], SMALL, None, scheduler=1, instance_group=group) == [standby]
    (row,) = cloud.standbys()
    assert row.compute_node_id is None
    assert row.reason == "no host of another failure domain could hold its standby"
    assert f"Gave up the standby of instance {A} on {standby}" in caplog.text
    assert cloud.usage() == cloud.expected_usage()


def test_as_many_members_and_standbys_share_a_host_as_the_rule_allows(cloud):
    only(cloud, "a1", "b1")
    group = apart(A, B, C, most=2)
    (host,) = cloud.ask([A], SMALL, ignore=["b1"], instance_group=group)
    cloud.arrive(A, host, SMALL)
    assert cloud.held()[A] == "b1"
    assert cloud.ask([B], SMALL, None, 1, ["a1"], instance_group=group) == ["b1"]
    assert cloud.ask([C], SMALL, None, 0, ["a1"], instance_group=group) is None
    assert cloud.ask([C], SMALL, None, instance_group=group) == ["a1"]
    assert evacuated(cloud, A, host, group) == ["b1"]


@pytest.mark.parametrize(
    ("first", "second", "most"), [*product(["required", None], ["required", None], [1, 2])]
)
def test_members_that_came_in_any_order_all_survive_the_loss_of_any_host(
    cloud, first, second, most
):
    """Half of them move once, which must not go to the standby of another one either."""
    only(cloud, *FOUR)
    modes = {A: first, B: second, C: first, D: second}
    group, placed = apart(*modes, most=most), {}
    for number, (uuid, mode) in enumerate(modes.items()):
        found = cloud.ask([uuid], SMALL, mode, number % 2, instance_group=group)
        if found:
            (placed[uuid],) = found
            cloud.arrive(uuid, placed[uuid], SMALL)
    assert A in placed
    for uuid, host in [*placed.items()][1::2]:
        moved = cloud.ask([uuid], SMALL, modes[uuid], ignore=[host], instance_group=group)
        if moved:
            cloud.leave(uuid, host)
            cloud.arrive(uuid, moved[0], SMALL)
            placed[uuid] = moved[0]
    cloud.keep()
    assert cloud.usage() == cloud.expected_usage()
    for uuid, host in placed.items():
        standby = cloud.held().get(uuid)
        if modes[uuid]:
            assert standby is not None
            assert evacuated(cloud, uuid, host, group) == [standby]


def test_members_of_one_request_keep_apart_from_standbys(cloud):
    group = apart(A, B, C)
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    placed = cloud.ask([B, C], SMALL, instance_group=group)
    held = cloud.held()
    assert len({host, *placed, *held.values()}) == 6
    assert held[A] == standby


def test_places_keep_their_standbys_from_the_members_that_come_later(cloud):
    only(cloud, "a1", "b1", "c1")
    cloud.reserve_protected("one", SMALL, 1)
    ((uuid, place),) = cloud.places().items()
    standby = cloud.held()[uuid]
    group = apart(A, B)
    (last,) = {"a1", "b1", "c1"} - {place.host, standby}
    assert cloud.ask([D], BIG, None, 0, [place.host, standby], project_id="x") == [last]
    assert cloud.ask([A], SMALL, None, instance_group=group) == [place.host]
    cloud.arrive(A, place.host, SMALL)
    assert cloud.ask([B], SMALL, None, 1, instance_group=group, project_id="x") is None
    assert evacuated(cloud, A, place.host, group, None) == [standby]


def test_two_schedulers_that_place_members_at_the_same_time_break_no_standby(cloud):
    only(cloud, *FOUR)
    group = apart(A, B, C, D)
    with ThreadPoolExecutor(4) as pool:
        asked = {
            uuid: pool.submit(cloud.ask, [uuid], SMALL, mode, at % 2, instance_group=group)
            for at, (uuid, mode) in enumerate(
                {A: "required", B: None, C: "preferred", D: "required"}.items()
            )
        }
    hosts = [each.result()[0] for each in asked.values() if each.result()]
    standbys = [each for each in cloud.held().values() if each]
    assert len({*hosts, *standbys}) == len([*hosts, *standbys])
    assert cloud.usage() == cloud.expected_usage()


def test_a_keeper_and_a_scheduler_that_choose_the_same_host_do_not_both_get_it(cloud, monkeypatch):
    """The keeper has decided to hold the standby where a member is placed before it writes."""
    only(cloud, "a1", "b1", "c1")
    group = apart(A, B)
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    first = cloud.held()[A]
    (other,) = {"a1", "b1", "c1"} - {host, first}
    cloud.force_down([first])
    claimer = cloud.schedulers[0].claimer
    settle, asked = claimer.settle_standbys, []

    def late(made, ending):
        if made and not asked:
            asked.append(cloud.ask([B], SMALL, None, 1, instance_group=group))
        return settle(made, ending)

    monkeypatch.setattr(claimer, "settle_standbys", late)
    cloud.keep()
    assert asked == [[other]]
    assert cloud.held()[A] == first
    cloud.keep()
    assert cloud.held()[A] is None
    assert cloud.usage() == cloud.expected_usage()


def test_the_keeper_moves_a_standby_from_a_member_on_a_forced_host(cloud):
    group = apart(A, B)
    (host,) = cloud.ask([A], SMALL, instance_group=group)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    forced = {"instance_group": group, "force_hosts": [standby]}
    assert cloud.ask([B], SMALL, None, **forced) == [standby]
    # Of many standbys, it is judged at the next look.
    cloud.keep()
    assert cloud.held()[A] not in (None, host, standby)
    assert evacuated(cloud, A, host, group) == [cloud.held()[A]]


def test_an_instance_that_joins_a_group_brings_its_standby(cloud):
    made = cloud.write(server_group_operations.create, "g", "anti-affinity")
    group = replace(apart(A, B), uuid=made["id"])
    (host,) = cloud.ask([A], SMALL)
    cloud.arrive(A, host, SMALL)
    standby = cloud.held()[A]
    cloud.write(server_group_operations.add_instances, "g", [A])
    others = [each for each in HOSTS if each not in (host, standby)]
    cloud.write(service_operations.disable, others)
    assert cloud.ask([B], SMALL, None, instance_group=group) is None
