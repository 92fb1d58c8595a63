# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of reserved places with standbys when they or these do not hold any more."""

import logging
from datetime import timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from inventory.claims.claims import release_lost
from inventory.dialects import current_time
from inventory.operations import aggregate_operations, reservation_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from inventory.tables import services
from scheduler.claims import standby_keeper
from tests.builders import a_group
from tests.claimed import let_pass
from tests.contract.database import test_standbys
from tests.contract.database.standby_cloud import HOSTS, domain_of
from tests.contract.database.test_protected_places import SIZE, SMALLER, U, boot, check, die
from tests.contract.database.test_standbys import fill

NO_ROOM = "no host of another failure domain could hold its standby"
cloud = test_standbys.cloud


def only_place(cloud):
    """Return the uuid of the only place, its row, and the host of its standby."""
    ((place, row),) = cloud.places().items()
    return place, row, cloud.held()[place]


def is_held_again(cloud, place, host):
    """A place is free again, once the agent of its host has found that its instance is gone."""
    cloud.force_down(HOSTS, down=False)
    cloud.leave(U[0], host)
    assert cloud.places()[place].state == "reserved"
    assert boot(cloud, U[1]) == host
    check(cloud)


def fall_silent(cloud, host, seconds):
    """Date the last heartbeat of a host back; schedulers that start now have seen no later one."""

    def work(connection):
        seen = current_time(connection) - timedelta(seconds=seconds)
        mine = services.c.host == host
        connection.execute(sa.update(services).where(mine).values(last_seen_up=seen))

    cloud.write(work)
    cloud.schedulers = [cloud.scheduler()]


@pytest.mark.parametrize(("seconds", "goes"), [(20, False), (90, True)])
def test_a_host_that_is_silent_for_long_enough_has_lost_its_places(cloud, seconds, goes):
    cloud.reserve_protected("r", SIZE, 1)
    place, row, standby = only_place(cloud)
    fall_silent(cloud, row.host, seconds)
    cloud.keep()
    assert cloud.places()[place].host == (standby if goes else row.host)
    check(cloud)


def test_nobody_else_gets_the_room_before_the_place_has_moved_nor_then(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    place, row, standby = only_place(cloud)
    fill(cloud, U[10:])
    die(cloud, row.host)
    for _ in range(2):
        assert cloud.ask([U[0]], (1, 1024, 5), mode=None, project_id="others") is None
        cloud.keep()
    assert cloud.places()[place].host == standby
    assert boot(cloud, U[0]) == standby


def test_a_place_that_has_moved_has_a_new_standby(cloud):
    """So has one with an instance, from the next look on; and so the next loss is survived."""
    cloud.reserve_protected("r", SIZE, 1)
    place, row, standby = only_place(cloud)
    die(cloud, row.host)
    cloud.keep()
    check(cloud)
    assert boot(cloud, U[0]) == standby
    second = cloud.held()[place]
    die(cloud, standby)
    assert cloud.ask([U[0]], SIZE, mode=None, ignore=[standby]) == [second]
    assert cloud.held()[place] != second
    cloud.keep()
    check(cloud)
    assert len({domain_of(each) for each in (row.host, standby, second, cloud.held()[place])}) == 4


@pytest.mark.parametrize("lost", ["down", "disabled", "deleted", "failing with it", "filled"])
def test_a_place_gets_a_new_standby_when_its_own_does_not_hold(cloud, lost):
    cloud.reserve_protected("r", SIZE, 1)
    place, row, standby = only_place(cloud)
    if lost == "down":
        cloud.force_down([standby])
    elif lost == "disabled":
        cloud.write(service_operations.disable, [standby])
    elif lost == "deleted":
        fall_silent(cloud, standby, 1_000_000)
        cloud.write(partial(service_operations.delete, hosts=[standby], limit=60.0))
    elif lost == "failing with it":
        cloud.write(aggregate_operations.create, "power", {"failure_domain": "power"})
        rules = ZoneRules("nova")
        cloud.write(aggregate_operations.add_hosts, "power", [row.host, standby], rules)
    else:
        # As by a forced host, without a scheduler.
        cloud.arrive(U[0], standby, (8, 16384, 50))
    assert cloud.keep().without == {}
    assert cloud.held()[place] not in {None, standby}
    assert cloud.places()[place].host == row.host
    check(cloud)


def test_the_largest_place_gets_a_new_standby_first(cloud):
    """The smaller one was there before; there is room for one of them."""

    def only(*hosts):
        cloud.write(service_operations.enable, HOSTS)
        cloud.write(service_operations.disable, [each for each in HOSTS if each not in hosts])

    only("b1")
    assert cloud.ask([U[8]], (1, 12288, 5), mode=None, project_id="others")
    only("a1", "b1")
    for name, size in (("small", (3, 1024, 5)), ("large", (4, 1024, 5))):
        cloud.reserve_protected(name, size, 1)
    small, large = cloud.places()
    assert {place.host for place in cloud.places().values()} == {"a1"}
    assert cloud.held() == {small: "b1", large: "b1"}
    only("c1")
    assert cloud.ask([U[9]], (4, 1024, 5), mode=None, project_id="others")
    assert cloud.keep().without == {small: NO_ROOM}
    assert cloud.held()[large] == "c1"


def test_the_keeper_warns_whenever_others_are_without_a_standby(cloud, caplog):
    cloud.reserve_protected("r", SIZE, 1)
    place, row, _ = only_place(cloud)
    each = cloud.schedulers[0]
    keeper = standby_keeper.StandbyKeeper(
        cloud.database, each.host_cache, lambda: each.driver.plan, lambda: each.claimer
    )
    with caplog.at_level(logging.INFO, logger=standby_keeper.__name__):
        for work in (service_operations.disable, service_operations.enable):
            cloud.write(work, [host for host in HOSTS if host != row.host])
            keeper.keep()
            keeper.keep()
    warned, well = (each for each in caplog.messages if not each.startswith("Made or moved"))
    assert warned == f"1 protected instance or place has no standby: {place}"
    assert well == "All protected instances and places have standbys"


def test_a_place_whose_instance_ends_while_its_host_is_down_waits_for_the_agent(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    host = boot(cloud, U[0])
    place, _, standby = only_place(cloud)
    die(cloud, host)
    # Nova tells of the end; whether the guest still runs, only the agent there knows.
    cloud.write(release_lost, {(host, U[0])})
    cloud.keep()
    waiting = cloud.places()[place]
    assert (waiting.host, waiting.state, waiting.taken_by) == (host, "waiting", U[0])
    assert cloud.held()[place] == standby
    assert cloud.usage() == cloud.expected_usage()
    is_held_again(cloud, place, host)


def test_a_place_waits_for_the_lost_host_if_its_instance_went_elsewhere(cloud):
    cloud.reserve_protected("r", SIZE, 1)
    host = boot(cloud, U[0])
    place, _, standby = only_place(cloud)
    die(cloud, host)
    (elsewhere,) = cloud.ask([U[0]], SIZE, mode=None, ignore=[host, standby])
    cloud.arrive(U[0], elsewhere, SIZE)
    cloud.keep()
    waiting = cloud.places()[place]
    assert (waiting.host, waiting.state, cloud.held()[place]) == (host, "waiting", standby)
    is_held_again(cloud, place, host)


def test_places_may_be_together_after_a_loss_and_stay_so(cloud):
    """One is in each failure domain, so one of them brings two together."""
    cloud.reserve_protected("r", SMALLER, 4, spread="failure_domain")

    def domains():
        return sorted(domain_of(each.host) for each in cloud.places().values())

    assert len({*domains()}) == 4
    die(cloud, "a1")
    cloud.keep()
    after = domains()
    assert ("a" in after, len(after), len({*after})) == (False, 4, 3)
    cloud.force_down(HOSTS, down=False)
    cloud.keep()
    assert domains() == after
    check(cloud)


def test_an_instance_whose_place_has_no_standby_for_it_is_listed_with_the_reason(cloud):
    """Every other host is full: the standby of the place is no help, as its group is there."""
    group = a_group(members=U[:2])
    cloud.reserve_protected("r", SIZE, 1)
    _, row, standby = only_place(cloud)
    elsewhere = [host for host in HOSTS if host != standby]
    assert boot(cloud, U[1], (1, 1024, 5), instance_group=group, ignore=elsewhere) == standby
    fill(cloud, U[10:])
    assert cloud.ask([U[0]], SIZE, mode="required", instance_group=group) is None
    assert boot(cloud, U[0], instance_group=group) == row.host
    assert cloud.keep().without[U[0]] == NO_ROOM


def test_standbys_end_with_the_time_of_the_reservation(cloud):
    ends_at = cloud.database.read(current_time) + timedelta(hours=1)
    cloud.reserve_protected("r", SIZE, 2, ends_at=ends_at)
    boot(cloud, U[0])
    let_pass(cloud.database, 3600)
    assert cloud.keep().ended == 2
    assert cloud.standbys() == []
    assert cloud.usage() == cloud.expected_usage()


@pytest.mark.parametrize("ends", ["deleted", "by its time"])
@pytest.mark.parametrize("mode", ["required", "preferred", None])
def test_a_protected_instance_keeps_the_standby_of_its_place_when_that_ends(cloud, ends, mode):
    until = cloud.database.read(current_time) + timedelta(hours=1)
    cloud.reserve_protected("r", SIZE, 1, ends_at=until)
    host = boot(cloud, U[0], mode=mode)
    fill(cloud, U[10:])
    _, _, standby = only_place(cloud)
    if ends == "deleted":
        cloud.write(reservation_operations.delete, ["r"])
    else:
        let_pass(cloud.database, 3600)
        # A keeper may look before the agent does.
        assert cloud.keep().ended == (0 if mode else 1)
        cloud.audit(host)
    assert cloud.places() == {}
    cloud.keep()
    assert cloud.held() == ({U[0]: standby} if mode else {})
    assert cloud.usage() == cloud.expected_usage()
    if mode:
        fill(cloud, U[40:])
        die(cloud, host)
        assert cloud.ask([U[0]], SIZE, mode=mode, ignore=[host]) == [standby]


def test_an_instance_in_two_places_keeps_the_larger_standby_when_both_end(cloud):
    """Resized in place, it is in both until its agent has looked."""
    cloud.reserve_protected("small", SMALLER, 1)
    host = boot(cloud, U[0], SMALLER, mode="required")
    cloud.reserve_protected("large", (3, 4096, 20), 6, spread="host")
    others = [each for each in HOSTS if each != host]
    assert cloud.ask([U[0]], (3, 4096, 20), "required", ignore=others) == [host]
    assert [each.taken_by for each in cloud.places().values()].count(U[0]) == 2
    cloud.write(reservation_operations.delete, ["small", "large"])
    cloud.keep()
    (row,) = cloud.standbys()
    assert (row.instance_uuid, row.vcpus) == (U[0], 3)
