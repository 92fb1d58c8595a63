# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Places of reservations with standbys: they and who is in them outlive any failure domain."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from inventory.claims.claims import release
from inventory.operations import reservation_operations, service_operations
from scheduler.operators.reserving import NoRoom
from tests.builders import a_group
from tests.contract.database import test_standbys
from tests.contract.database.standby_cloud import HOSTS, VCPUS, domain_of
from tests.contract.database.test_standbys import fill
from tests.databases import a_uuid

U = [a_uuid(f"instance {number}") for number in range(80)]
SIZE, SMALLER = (4, 8192, 20), (2, 2048, 10)
cloud = test_standbys.cloud


def boot(cloud, uuid, size=SIZE, mode=None, **changes):
    """Place an instance of the project, and let it start; return its host."""
    (host,) = cloud.ask([uuid], size, mode, **changes)
    cloud.arrive(uuid, host, size)
    return host


def die(cloud, host):
    cloud.force_down([each for each in HOSTS if domain_of(each) == domain_of(host)])


def check(cloud):
    """What is used is the sum, and each place has a standby in another failure domain."""
    assert cloud.usage() == cloud.expected_usage()
    held = cloud.held()
    for uuid, place in cloud.places().items():
        assert held[uuid], uuid
        assert domain_of(held[uuid]) != domain_of(place.host)


def test_each_place_has_a_standby_in_another_domain(cloud):
    cloud.reserve_protected("r", SIZE, 3)
    assert cloud.held().keys() == cloud.places().keys()
    check(cloud)
    found = cloud.keep()
    assert (found.made, found.ended, found.without) == (0, 0, {})


def test_standbys_of_places_in_different_domains_share_their_room(cloud):
    cloud.reserve_protected("r", SIZE, 4, spread="failure_domain")
    check(cloud)
    used = sum(vcpus for vcpus, _, _ in cloud.usage().values())
    assert used < 2 * 4 * SIZE[0]


def test_all_places_have_standbys_or_nothing_is_held(cloud):
    cloud.write(service_operations.disable, [host for host in HOSTS if domain_of(host) != "a"])
    before = cloud.usage()
    with pytest.raises(NoRoom, match="room for 0 of 2 places") as raised:
        cloud.reserve_protected("r", SIZE, 2)
    assert "no host of another failure domain could hold its standby" in raised.value.reason
    assert cloud.usage() == before
    assert (cloud.places(), cloud.standbys()) == ({}, [])


@pytest.mark.parametrize("mode", [None, "required"])
def test_an_instance_has_the_standby_of_the_place_that_it_takes(cloud, mode):
    cloud.reserve_protected("r", SIZE, 1)
    fill(cloud, U[10:])
    before, held = cloud.usage(), cloud.held()
    boot(cloud, U[0], SMALLER, mode)
    ((place, row),) = cloud.places().items()
    assert row.taken_by == U[0]
    assert cloud.held() == held == {place: held[place]}
    assert cloud.usage() == before
    check(cloud)
    assert cloud.keep().made == 0
    # The place is held again, and so is its standby.
    cloud.leave(U[0], row.host)
    assert (cloud.usage(), cloud.held()) == (before, held)
    assert cloud.keep().without == {}
    check(cloud)


def test_an_instance_goes_to_the_standby_of_its_place_and_takes_the_place_along(cloud):
    cloud.reserve_protected("r", SIZE, 3)
    hosts = {uuid: boot(cloud, uuid, size) for uuid, size in zip(U, (SIZE, SMALLER), strict=False)}
    fill(cloud, U[10:])
    check(cloud)
    for uuid, size in zip(hosts, (SIZE, SMALLER), strict=True):
        with cloud.copy():
            ((place, row),) = ((i, p) for i, p in cloud.places().items() if p.taken_by == uuid)
            standby = cloud.held()[place]
            die(cloud, row.host)
            assert cloud.ask([uuid], size, mode=None, ignore=[row.host]) == [standby]
            moved = cloud.places()[place]
            assert (moved.host, moved.node, moved.taken_by) == (standby, standby, uuid)
            assert cloud.usage() == cloud.expected_usage()
            cloud.arrive(uuid, standby, size)
            assert cloud.usage() == cloud.expected_usage()
            # What was there is found to be gone when the host is back.
            cloud.force_down(HOSTS, down=False)
            cloud.leave(uuid, row.host)
            assert cloud.usage() == cloud.expected_usage()
            cloud.leave(uuid, standby)
            assert cloud.places()[place].state == "reserved"
            cloud.keep()
            assert cloud.usage() == cloud.expected_usage()


def test_evacuations_at_the_same_time_all_have_their_places(cloud):
    cloud.reserve_protected("r", SMALLER, 6)
    hosts = {uuid: boot(cloud, uuid, SMALLER) for uuid in U[:6]}
    fill(cloud, U[10:])
    domains = [domain_of(host) for host in hosts.values()]
    lost = {
        uuid: host
        for uuid, host in hosts.items()
        if domain_of(host) == max(domains, key=domains.count)
    }
    assert len(lost) > 1
    die(cloud, min(lost.values()))
    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(cloud.ask, [uuid], SMALLER, None, at % 2, [host])
            for at, (uuid, host) in enumerate(lost.items())
        ]
    assert all(each.result() for each in found)
    assert cloud.usage() == cloud.expected_usage()
    taken = {place.taken_by: place.host for place in cloud.places().values()}
    assert [taken[uuid] for uuid in lost] == [each.result()[0] for each in found]


def test_a_free_place_is_where_its_standby_was_after_a_loss(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    fill(cloud, U[10:])
    ((place, row),) = cloud.places().items()
    standby = cloud.held()[place]
    die(cloud, row.host)
    assert cloud.ask([U[0]], SIZE, mode=None) is None
    cloud.keep()
    moved = cloud.places()[place]
    assert (moved.host, moved.state) == (standby, "reserved")
    assert cloud.usage() == cloud.expected_usage()
    assert boot(cloud, U[0]) == standby
    assert cloud.usage() == cloud.expected_usage()
    # It stays there when the host is back.
    cloud.force_down(HOSTS, down=False)
    cloud.audit(row.host)
    cloud.keep()
    assert cloud.places()[place].host == standby
    assert cloud.usage() == cloud.expected_usage()


def test_all_free_places_of_a_domain_are_where_their_standbys_were(cloud):
    """Also where standbys of other domains have to make room for them."""
    for number in range(4):
        cloud.reserve_protected(f"r{number}", SMALLER, 3, spread="failure_domain")
    fill(cloud, U[10:])
    for domain in sorted({domain_of(place.host) for place in cloud.places().values()}):
        with cloud.copy():
            held = cloud.held()
            lost = [i for i, place in cloud.places().items() if domain_of(place.host) == domain]
            cloud.force_down([host for host in HOSTS if domain_of(host) == domain])
            cloud.keep()
            assert {i: cloud.places()[i].host for i in lost} == {i: held[i] for i in lost}
            assert cloud.usage() == cloud.expected_usage()
            # Standbys that do not fit any more were found anew, or are given up.
            assert all(vcpus <= VCPUS for vcpus, _, _ in cloud.usage().values())


def test_a_place_that_was_just_taken_does_not_go_without_its_instance(cloud, monkeypatch):
    """An instance takes a place after the keeper has looked, whose host is forced down then."""
    cloud.reserve_protected("r", SIZE, 1)
    ((place, row),) = cloud.places().items()
    claimer = cloud.schedulers[0].claimer
    settle = claimer.settle_standbys

    def late(made, ending):
        monkeypatch.undo()
        cloud.force_down([row.host], down=False)
        assert cloud.ask([U[0]], SIZE, mode=None, scheduler=1) == [row.host]
        settle(made, ending)

    monkeypatch.setattr(claimer, "settle_standbys", late)
    die(cloud, row.host)
    assert cloud.keep().made == 0
    now = cloud.places()[place]
    assert (now.host, now.taken_by) == (row.host, U[0])
    assert cloud.usage() == cloud.expected_usage()


def test_an_evacuation_that_is_given_up_leaves_the_place_where_it_was_to_go(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    host = boot(cloud, U[0])
    (standby,) = cloud.held().values()
    die(cloud, host)
    assert cloud.ask([U[0]], SIZE, mode=None, ignore=[host]) == [standby]
    cloud.write(release, [U[0]])
    (place,) = cloud.places().values()
    assert (place.host, place.state) == (standby, "reserved")
    assert cloud.usage() == cloud.expected_usage()
    # The next attempt gets it as any request of the project does.
    assert cloud.ask([U[0]], SIZE, mode=None, ignore=[host]) == [standby]
    check(cloud)


def test_an_evacuation_to_another_host_leaves_the_place_and_its_standby(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    host = boot(cloud, U[0])
    held = cloud.held()
    (standby,) = held.values()
    die(cloud, host)
    found = cloud.ask([U[0]], SIZE, mode=None, ignore=[host, standby])
    assert found
    assert cloud.held() == held
    assert cloud.usage() == cloud.expected_usage()


def test_an_instance_that_moves_leaves_the_standby_to_its_place(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    host = boot(cloud, U[0])
    held = cloud.held()
    (new,) = cloud.ask([U[0]], SIZE, mode=None, ignore=[host])
    cloud.arrive(U[0], new, SIZE)
    cloud.leave(U[0], host)
    assert cloud.held() == held
    cloud.keep()
    check(cloud)


def test_a_standby_is_found_for_who_is_in_the_place(cloud):
    """The keeper finds another one for a member of a group, apart from the other members."""
    group = a_group(members=U[:2])
    cloud.reserve_protected("r", SIZE, 1)
    first = boot(cloud, U[0], instance_group=group)
    second = boot(cloud, U[1], mode="required", instance_group=group)
    held = cloud.held()
    assert len({first, second, *held.values()}) == 4
    ((place, _),) = cloud.places().items()
    cloud.force_down([held[place]])
    cloud.keep()
    assert cloud.held()[place] not in {held[place], first, second, held[U[1]]}
    check(cloud)


def test_an_instance_that_cannot_have_the_standby_of_its_place_gets_its_own(cloud):
    """It is on the host of another member of the server group."""
    group = a_group(members=U[:2])
    cloud.reserve_protected("r", SIZE, 1)
    ((place, row),) = cloud.places().items()
    standby = cloud.held()[place]
    elsewhere = [host for host in HOSTS if host != standby]
    assert boot(cloud, U[1], (1, 1024, 5), instance_group=group, ignore=elsewhere) == standby
    assert boot(cloud, U[0], instance_group=group) == row.host
    held = cloud.held()
    assert held[place] == standby
    assert domain_of(held[U[0]]) != domain_of(row.host)
    assert held[U[0]] != standby
    assert cloud.usage() == cloud.expected_usage()


def test_members_of_a_group_come_and_go_with_the_standby_of_one_place(cloud):
    """Of a member that has gone nothing keeps the next one from it."""
    cloud.reserve_protected("r", SIZE, 1)
    fill(cloud, U[10:])
    held = cloud.held()
    for uuid in U[:3]:
        host = boot(cloud, uuid, instance_group=a_group(members=[uuid]))
        assert cloud.held() == held
        cloud.leave(uuid, host)
    check(cloud)


def test_the_standby_of_a_place_is_in_no_way_of_the_instance_in_it(cloud):
    """It is not the standby of another member of the server group."""
    cloud.write(service_operations.disable, ["lone"])
    group = a_group(members=U[:1])
    cloud.reserve_protected("r", SIZE, 1)
    ((place, row),) = cloud.places().items()
    assert boot(cloud, U[0], mode="required", instance_group=group) == row.host
    rack = {host for host in HOSTS if domain_of(host) == domain_of(row.host)}
    left = rack | {cloud.held()[place]}
    cloud.write(service_operations.disable, [host for host in HOSTS if host not in left])
    found = cloud.ask([U[0]], SIZE, ignore=[row.host], instance_group=group)
    assert found is not None
    assert {*found} < rack
    assert cloud.usage() == cloud.expected_usage()


def test_a_place_without_a_standby_takes_an_instance_unless_its_flavor_requires_one(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    ((place, row),) = cloud.places().items()
    cloud.write(service_operations.disable, [each for each in HOSTS if each != row.host])
    assert cloud.keep().without == {
        place: "no host of another failure domain could hold its standby"
    }
    assert cloud.ask([U[0]], SIZE, mode="required") is None
    assert cloud.ask([U[0]], SIZE, mode=None) == [row.host]
    assert cloud.held() == {place: None}
    cloud.write(service_operations.enable, HOSTS)
    assert cloud.keep().without == {}
    check(cloud)


def test_standbys_end_with_the_places(cloud):
    cloud.reserve_protected("r", SIZE, 2)
    boot(cloud, U[0])
    cloud.write(reservation_operations.delete, ["r"])
    assert cloud.keep().ended == 2
    assert cloud.standbys() == []
    assert cloud.usage() == cloud.expected_usage()
