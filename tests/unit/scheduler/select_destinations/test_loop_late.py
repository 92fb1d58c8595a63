# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of select_destinations with requests that come late, twice, or partly answered."""

from time import monotonic

import pytest
import sqlalchemy as sa

from inventory import instances
from inventory.claims import claims
from inventory.tables import allocations
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.wire.context import Deadline
from scheduler.wire.errors import InvalidInput, NoValidHost, ServiceUnavailable
from tests.builders import a_group
from tests.claimed import let_pass
from tests.databases import a_node, an_instance, execute, save, serve
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.scheduler.select_destinations.test_loop_orders import HeldDatabase
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    FREE,
    PLAN,
    U,
    a_scheduler,
    ask,
    claimed,
    used,
)

LATER = {
    "retry": {"retry": SchedulerRetries(2, [TriedHost("h1", "h1")])},
    "ignored": {"ignore_hosts": ["h1"]},
}


@pytest.fixture
def cloud(database):
    """Return a database with three hosts that have room for four, three and two instances."""
    save(database, *(with_room(host, mb) for host, mb in FREE.items()))
    serve(database, *FREE)
    return database


def with_room(host, mb, **changes):
    ordinary = {
        "memory_mb": 8192,
        "memory_mb_used": 8192 - mb,
        "free_ram_mb": mb,
        "initial_ram_allocation_ratio": 1.0,
    }
    return a_node(host, **ordinary | changes)


def held(database):
    """Return all claims, and what is used with them."""
    return database.read(lambda c: c.execute(sa.select(allocations)).all()), used(database)


def confirm(database, uuid):
    execute(
        database,
        "UPDATE allocations SET state = 'confirmed', slot = compute_node_id, expires_at = NULL"
        " WHERE instance_uuid = :uuid",
        uuid=uuid,
    )


@pytest.mark.parametrize("later", LATER)
def test_a_request_that_comes_after_its_later_attempt_changes_nothing(cloud, later):
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0]) == ["h1"]
    assert ask(scheduler, U[0], **LATER[later]) == ["h2"]
    before = held(cloud)
    for each in (scheduler, a_scheduler(cloud)):
        with pytest.raises(InvalidInput, match=f"later attempt .* holds the claim .* {U[0]}"):
            ask(each, U[0])
    assert held(cloud) == before
    # Under another id it is another request.
    assert ask(scheduler, U[0], request_id="req-2") == ["h1"]
    assert claimed(cloud) == {U[0]: "h1"}


@pytest.mark.parametrize("later", LATER)
def test_nor_does_it_where_there_is_no_host_for_it(cloud, later):
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0]) == ["h1"]
    assert ask(scheduler, U[0], **LATER[later]) == ["h2"]
    # The first of the ignored hosts is taken for the one that the instance leaves:
    # its claim there stays until the agent reports.
    ask(scheduler, *U[1 : 8 if later == "ignored" else 9], request_id="the rest")
    before = held(cloud)
    with pytest.raises(InvalidInput, match="later attempt"):
        ask(scheduler, U[0], memory_mb=4096)
    assert held(cloud) == before


class Passing:
    """A deadline that passes when nodes are claimed."""

    def __init__(self, database):
        self.is_over = False
        sa.event.listen(database.engine, "before_cursor_execute", self.look)

    def look(self, _connection, _cursor, statement, *_):
        self.is_over = self.is_over or statement.startswith("UPDATE compute_nodes")

    def passed(self):
        return False

    def waited(self):
        return 0.0

    def left(self):
        return 0.0 if self.is_over else 60.0


def test_a_claim_that_is_made_too_late_is_not_made(cloud):
    scheduler = a_scheduler(cloud)
    with scheduler.host_cache.current(fresh=True):
        before = held(cloud)
    passing = Passing(cloud)
    with pytest.raises(ServiceUnavailable, match="longer than its caller waits"):
        ask(scheduler, U[0], deadline=passing)
    assert passing.is_over
    assert held(cloud) == before
    assert not scheduler.host_cache.nodes_in_flight
    with scheduler.host_cache.current(fresh=True) as hosts:
        free = {hosts.get(row, "host"): hosts.get(row, "free_ram_mb") for row in hosts.rows()}
        assert not any(U[0] in hosts.instances.on(row) for row in hosts.rows())
    assert [8192 - mb for mb in free.values()] == used(cloud)


class Noting(FilterScheduler):
    """Notes what is decided."""

    def __init__(self, plan):
        super().__init__(plan)
        self.decided = []

    def decide(self, hosts, request):
        self.decided += request.instance_uuids
        return super().decide(hosts, request)


def a_held_scheduler(cloud):
    """Return a scheduler whose transactions wait, after one has begun to; the future of that."""
    database = HeldDatabase(cloud.engine)
    scheduler = a_scheduler(database)
    scheduler.change(driver=Noting(PLAN))
    scheduler.host_cache.refresh_if_older(fresh=True)
    database.go.clear()
    first = CachedThreadPool().run(lambda: ask(scheduler, U[0]))
    assert wait_until(lambda: scheduler.driver.decided == [U[0]])
    return database, scheduler, first


def test_nothing_is_decided_or_reserved_for_a_caller_who_has_given_up(cloud):
    database, scheduler, first = a_held_scheduler(cloud)
    with pytest.raises(ServiceUnavailable):
        ask(scheduler, U[1], request_id="req-2", deadline=Deadline(monotonic(), 0.2))
    database.go.set()
    assert first.result(PATIENCE) == ["h1"]
    assert ask(scheduler, U[2], request_id="req-3") == ["h1"]
    assert scheduler.driver.decided == [U[0], U[2]]
    assert not scheduler.host_cache.nodes_in_flight


def test_who_waits_behind_a_transaction_that_hangs_has_the_next_round_begun(cloud):
    database, scheduler, first = a_held_scheduler(cloud)
    second = CachedThreadPool().run(lambda: ask(scheduler, U[1], request_id="req-2"))
    # At once there is a round under way, which has not hung for long.
    assert wait_until(lambda: len(scheduler.driver.decided) == 2)
    assert not first.done()
    database.go.set()
    assert {*first.result(PATIENCE), *second.result(PATIENCE)} == {"h1"}


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_those_that_are_answered_keep_their_answers_and_the_others_get_one(cloud, ended):
    first = ask(a_scheduler(cloud), *U[:3])
    assert first == ["h1", "h1", "h2"]
    confirm(cloud, U[(ended + 1) % 3])
    cloud.write(lambda c: claims.release(c, [U[ended]]))
    # Neither host of the first answer has room for it now.
    ask(a_scheduler(cloud), U[8], request_id="8", memory_mb=4096, force_hosts=["h1"])
    ask(a_scheduler(cloud), U[9], request_id="9", memory_mb=4096, force_hosts=["h2"])
    expected = [*first]
    expected[ended] = "h3"
    again = a_scheduler(cloud)
    assert ask(again, *U[:3]) == expected
    assert [claimed(cloud)[uuid] for uuid in U[:3]] == expected
    assert len(held(cloud)[0]) == 5
    # All of them are answered now.
    before = used(cloud)
    assert ask(a_scheduler(cloud), *U[:3]) == expected
    assert used(cloud) == before


def test_those_that_are_answered_stay_where_the_others_find_no_host(cloud):
    ask(a_scheduler(cloud), *U[:3])
    cloud.write(lambda c: claims.release(c, [U[2]]))
    ask(a_scheduler(cloud), *U[10:17], request_id="the rest")
    before = held(cloud)
    with pytest.raises(NoValidHost):
        ask(a_scheduler(cloud), *U[:3])
    assert held(cloud) == before


def test_an_answer_that_is_given_again_holds_for_another_lease(cloud):
    scheduler = a_scheduler(cloud, lease=600)
    ask(scheduler, U[0])
    let_pass(cloud, 500)
    assert ask(scheduler, U[0]) == ["h1"]
    (row,) = held(cloud)[0]
    assert (row.expires_at - row.created_at).total_seconds() > 1090


def test_who_has_no_id_is_never_taken_for_the_same(cloud):
    ask(a_scheduler(cloud), U[0], request_id=None)
    confirm(cloud, U[0])
    # Months later its host has no room, and it is to go elsewhere.
    execute(cloud, "UPDATE compute_nodes SET free_ram_mb = 0 WHERE host = 'h1'")
    assert ask(a_scheduler(cloud), U[0], request_id=None) == ["h2"]


@pytest.mark.parametrize(
    ("changes", "hosts"),
    [
        ({"memory_mb": 4096, "memory_mb_used": 0, "free_ram_mb": 4096}, ["h2", "h1", "h2"]),
        ({"ram_allocation_ratio": 0.25}, ["h1", "h2", "h2"]),
    ],
    ids=["total", "ratio"],
)
def test_who_knows_old_totals_only_decides_again_on_the_new_ones(cloud, changes, hosts):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[9], request_id="to fill the cache", memory_mb=1, force_hosts=["h3"])
    save(cloud, with_room("h1", 8192, **changes))
    assert ask(scheduler, *U[:3]) == hosts
    assert scheduler.claimer.width.choices == 2


def test_a_host_of_which_exact_disk_is_unknown_is_claimed_on(cloud):
    execute(cloud, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    scheduler = a_scheduler(cloud)
    assert len(ask(scheduler, *U[:9], root_gb=10)) == 9
    assert used(cloud) == [8192] * 3
    assert scheduler.claimer.width.choices == 1


def test_a_forced_host_of_which_exact_disk_is_unknown_is_claimed_on(cloud):
    execute(cloud, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    assert ask(a_scheduler(cloud), *U[:2], force_hosts=["h1"]) == ["h1"] * 2


def test_a_resize_beside_another_member_of_its_group_disputes_nothing(cloud):
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance(each) for each in U[:2]]))
    scheduler = a_scheduler(cloud)
    group = a_group(members=U[:2], hosts=["h1"])
    assert ask(scheduler, U[0], instance_group=group) == ["h1"]
    assert scheduler.claimer.width.choices == 1


def test_a_forced_member_that_no_caller_lists_is_seen_by_its_group(cloud):
    forced = a_group(members=[U[0]])
    assert ask(a_scheduler(cloud), U[0], instance_group=forced, force_hosts=["h1"]) == ["h1"]
    group = a_group(members=[U[1]])
    for scheduler in (a_scheduler(cloud), a_scheduler(cloud)):
        assert ask(scheduler, U[1], request_id="req-2", instance_group=group) == ["h2"]


def test_nothing_makes_way_for_a_request_that_is_too_late(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0], request_id="req-2")
    before = held(cloud)
    with pytest.raises(ServiceUnavailable):
        ask(scheduler, U[0], request_id="req-1", memory_mb=99999, deadline=Passing(cloud))
    assert held(cloud) == before
