# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.select_destinations with claims: several schedulers on one database."""

import logging
from functools import partial
from threading import Thread
from time import monotonic

import pytest
import sqlalchemy as sa
from oslo_context import context as oslo

from inventory import compute_nodes, instances
from inventory.database_errors import DatabaseUnavailable
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from inventory.tables import allocations
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FakeScheduler, FilterScheduler
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.retry import RetryFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.host_cache.cache import HostCache
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.select_destinations.destinations import Destinations
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import NoValidHost, ServiceUnavailable
from tests.builders import a_group, a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve

FILTERS = (
    RetryFilter(),
    RamFilter(),
    CoreFilter(),
    DiskFilter(),
    ServerGroupAntiAffinityFilter(),
    ServerGroupAffinityFilter(),
)
PLAN = Plan(FILTERS, [RAMWeigher()])
FREE = {"h1": 8192, "h2": 6144, "h3": 4096}
NEVER = 1e9
U = [a_uuid(f"instance {number}") for number in range(20)]


@pytest.fixture
def cloud(database):
    """Return a database with three hosts that have room for four, three and two instances."""
    nodes = [
        a_node(
            host,
            memory_mb=8192,
            memory_mb_used=8192 - mb,
            free_ram_mb=mb,
            initial_ram_allocation_ratio=1.0,
        )
        for host, mb in FREE.items()
    ]
    save(database, *nodes)
    serve(database, *FREE)
    return database


class Causes:
    """An observer that keeps why claims were lost."""

    def __init__(self):
        self.found = []

    def on_finished(self, trace):
        self.found += trace.conflict_causes


def a_scheduler(database, plan=PLAN, max_age=NEVER, observers=(), **terms):
    """Return a scheduler; unless it has to, it never looks at the database twice."""
    cache = HostCache(database, max_age=max_age)
    claimer = Claimer(database, ClaimSettings(**terms), cache.apply_changes)
    driver = FilterScheduler(plan)
    return Destinations(database, cache, driver, claimer=claimer, observers=observers)


def ask(destinations, *uuids, request_id="req-1", alternates=False, deadline=None, **changes):
    asked = SelectArguments(a_request(**changes), list(uuids), alternates, alternates)
    context = RequestContext(request_id=request_id)
    answer = destinations.select(asked, context, deadline)
    return [selections[0].service_host for selections in answer]


def used(database):
    """Return how much memory is used on each host."""
    return [row.memory_mb_used for row in database.read(compute_nodes.all_live)]


def claimed(database):
    """Return {instance: host} of all claims."""
    rows = database.read(lambda c: c.execute(sa.select(allocations)).all())
    return {row.instance_uuid: row.host for row in rows}


def test_what_is_answered_is_claimed(cloud):
    assert ask(a_scheduler(cloud), U[0], U[1]) == ["h1", "h1"]
    assert used(cloud) == [4096, 2048, 4096]
    assert claimed(cloud) == {U[0]: "h1", U[1]: "h1"}


def test_schedulers_that_do_not_know_of_each_other_never_give_a_place_twice(cloud):
    schedulers = [a_scheduler(cloud) for _ in range(3)]
    places = []
    for number in range(12):
        try:
            places += ask(schedulers[number % 3], U[number], request_id=f"req-{number}")
        except NoValidHost:
            places.append(None)
    assert sorted(places[:9]) == ["h1"] * 4 + ["h2"] * 3 + ["h3"] * 2
    assert places[9:] == [None] * 3
    assert used(cloud) == [8192] * 3


def test_many_threads_of_several_schedulers_never_give_a_place_twice(cloud):
    schedulers, answers = [a_scheduler(cloud) for _ in range(3)], []

    def worker(number):
        for each in range(4):
            uuid = a_uuid(f"{number} {each}")
            try:
                answers.extend(ask(schedulers[number % 3], uuid, request_id=uuid))
            except NoValidHost:
                answers.append(None)

    threads = [Thread(target=worker, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = {host: answers.count(host) for host in (*FREE, None)}
    assert counts == {"h1": 4, "h2": 3, "h3": 2, None: 15}
    assert used(cloud) == [8192] * 3


def test_a_lost_race_is_decided_again_and_said_in_the_log(cloud, caplog):
    causes = Causes()
    first, second = a_scheduler(cloud), a_scheduler(cloud, observers=[causes])
    assert ask(second, U[0], request_id="req-0") == ["h1"]
    ask(first, *U[1:4], ignore_hosts=["h2", "h3"])
    with caplog.at_level(logging.INFO, logger="scheduler.request_trace"):
        # As far as it knows, h1 has room for three more.
        assert ask(second, U[4], request_id="req-4") == ["h2"]
    assert "after 1 conflict" in caplog.text
    assert causes.found == ["host"]
    assert second.claimer.width.choices == 2


def test_who_loses_every_race_is_refused_and_leaves_nothing(cloud, caplog):
    scheduler = a_scheduler(cloud, attempts=1)
    ask(scheduler, U[0], request_id="req-0")
    ask(a_scheduler(cloud), *U[1:4], ignore_hosts=["h2", "h3"])
    before = used(cloud), claimed(cloud)
    with pytest.raises(NoValidHost, match="There are not enough hosts available"):
        ask(scheduler, U[9], request_id="req-9")
    assert "others took the chosen hosts each time" in caplog.text
    assert (used(cloud), claimed(cloud)) == before


def test_all_or_nothing(cloud):
    scheduler = a_scheduler(cloud)
    with pytest.raises(NoValidHost):
        ask(scheduler, *U[:10])
    assert (used(cloud), claimed(cloud)) == ([0, 2048, 4096], {})
    assert len(ask(scheduler, *U[:9], request_id="req-2")) == 9


def test_the_same_request_gets_the_same_answer_from_any_scheduler(cloud, caplog):
    answer = ask(a_scheduler(cloud), U[0], U[1])
    with caplog.at_level(logging.INFO, logger="scheduler.request_trace"):
        for scheduler in (a_scheduler(cloud), a_scheduler(cloud, plan=Plan(FILTERS))):
            assert ask(scheduler, U[0], U[1]) == answer
    assert "the same request was answered before" in caplog.text
    assert used(cloud) == [4096, 2048, 4096]


def test_the_same_request_gets_its_answer_also_where_nothing_is_left(cloud):
    scheduler = a_scheduler(cloud)
    answer = ask(scheduler, *U[:9])
    assert ask(scheduler, *U[:9]) == answer
    assert ask(a_scheduler(cloud), *U[:9]) == answer
    # Nothing of the second decision is left in the first one's hosts.
    cloud.write(lambda c: instances.replace(c, "h1", "h1", []))
    with pytest.raises(NoValidHost):
        ask(scheduler, U[10], request_id="req-10")


def test_instances_without_a_name_are_not_claimed_again(cloud):
    first, other = a_scheduler(cloud), a_scheduler(cloud, plan=Plan(FILTERS))
    answer = ask(first, U[0], None, None)
    assert answer == ["h1", "h1", "h2"]
    before = claimed(cloud)
    assert [ask(each, U[0], None, None) for each in (other, first)] == [answer] * 2
    assert claimed(cloud) == before
    assert used(cloud) == [4096, 4096, 4096]
    # Without an id it is another request, and only the instance with a name is not.
    assert len(ask(first, U[0], None, request_id=None)) == 2
    assert len(claimed(cloud)) == 4


def test_instances_without_a_name_get_their_answer_where_nothing_is_left(cloud):
    scheduler = a_scheduler(cloud)
    answer = ask(scheduler, U[0], *[None] * 8)
    assert ask(scheduler, U[0], *[None] * 8) == answer
    # One of them has lost its claim: it is placed anew, and the others stay where they are.
    gone = min(uuid for uuid, host in claimed(cloud).items() if uuid != U[0] and host == "h2")
    scheduler.claimer.release([gone])
    assert ask(scheduler, U[0], *[None] * 8) == answer
    assert gone in claimed(cloud)


def test_an_answer_is_repeated_with_all_that_it_said(cloud):
    asked = SelectArguments(a_request(memory_mb=64), [U[0]], True, True)
    context = RequestContext(request_id="req-1")
    (first,) = a_scheduler(cloud).select(asked, context)
    (again,) = a_scheduler(cloud).select(asked, context)
    assert [each.service_host for each in first] == ["h1", "h2", "h3"]
    for one, other in zip(first, again, strict=True):
        assert (one.service_host, one.compute_node_uuid, one.cell_uuid, one.availability_zone) == (
            other.service_host,
            other.compute_node_uuid,
            other.cell_uuid,
            other.availability_zone,
        )
        assert one.limits.memory_mb == other.limits.memory_mb


def test_a_reschedule_goes_elsewhere_and_gives_the_first_place_back(cloud):
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0]) == ["h1"]
    tried = SchedulerRetries(2, [TriedHost("h1", "h1")])
    assert ask(scheduler, U[0], retry=tried) == ["h2"]
    assert used(cloud) == [0, 4096, 4096]
    assert claimed(cloud) == {U[0]: "h2"}


def test_what_an_instance_holds_itself_is_not_in_its_way(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, *U[:9])
    for uuid in U[:9]:
        assert len(ask(scheduler, uuid, request_id="req-2")) == 1
    assert used(cloud) == [8192] * 3
    assert len(claimed(cloud)) == 9


def test_a_new_request_that_fails_leaves_nothing_of_the_old_one(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0], request_id="req-2", memory_mb=99999)
    assert claimed(cloud) == {}
    assert used(cloud) == [0, 2048, 4096]


def test_an_instance_that_no_agent_has_seen_keeps_its_room_while_it_moves(cloud):
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0]) == ["h1"]
    assert ask(scheduler, U[0], request_id="req-2", ignore_hosts=["H1"]) == ["h2"]
    assert used(cloud) == [2048, 4096, 4096]
    assert ask(scheduler, U[0], request_id="req-2", ignore_hosts=["H1", "h2"]) == ["h3"]
    assert used(cloud) == [2048, 2048, 6144]
    # No other host has room, and what was held for the move before is free.
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0], request_id="req-3", ignore_hosts=["h1"], memory_mb=99999)
    assert used(cloud) == [2048, 2048, 4096]


def in_group(policy, scheduler, uuid, **changes):
    group = a_group(policy, members=[uuid])
    return ask(scheduler, uuid, request_id=uuid, instance_group=group, **changes)[0]


def test_members_are_kept_apart_also_by_schedulers_that_do_not_know_of_them(cloud):
    schedulers = [a_scheduler(cloud) for _ in range(3)]
    for scheduler in schedulers:
        ask(scheduler, U[9], request_id="to fill the cache", memory_mb=1)
    places = [in_group("anti-affinity", schedulers[n], U[n]) for n in range(3)]
    assert sorted(places) == ["h1", "h2", "h3"]
    with pytest.raises(NoValidHost):
        in_group("anti-affinity", schedulers[0], U[3])


def test_members_are_kept_together_also_by_schedulers_that_do_not_know_of_them(cloud):
    schedulers = [a_scheduler(cloud) for _ in range(3)]
    places = {in_group("affinity", schedulers[n], U[n], memory_mb=1024) for n in range(3)}
    assert places == {"h1"}


def test_an_instance_that_moves_is_not_kept_from_a_host_by_itself(cloud):
    def work(connection):
        instances.replace(connection, "h1", "h1", [an_instance(U[0])])
        instances.replace(connection, "h2", "h2", [an_instance(U[1])])

    cloud.write(work)
    group = a_group(members=U[:2], hosts=["h1", "h2"])
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0], instance_group=group, ignore_hosts=["h1"]) == ["h3"]
    # It may be resized where it is, which is claimed besides what it has.
    assert ask(scheduler, U[1], request_id="req-2", instance_group=group) == ["h2"]
    (row,) = cloud.read(
        lambda c: c.execute(sa.select(allocations).where(allocations.c.host == "h2")).all()
    )
    assert row.in_place


def test_a_request_is_not_decided_after_its_deadline(cloud):
    with pytest.raises(ServiceUnavailable, match="longer than its caller waits"):
        ask(a_scheduler(cloud), U[0], deadline=Deadline(monotonic() - 2, 1))
    assert claimed(cloud) == {}


def test_nothing_is_claimed_for_a_driver_that_chooses_nothing(cloud):
    destinations = a_scheduler(cloud)
    destinations.change(driver=FakeScheduler(PLAN))
    assert ask(destinations, U[0]) == []
    assert claimed(cloud) == {}


def test_a_rebuild_claims_nothing(cloud):
    hints = {"_nova_check_type": ["rebuild"]}
    spec = {"scheduler_hints": hints, "force_hosts": ["h1"], "force_nodes": ["h1"]}
    assert ask(a_scheduler(cloud), U[0], **spec) == ["h1"]
    assert claimed(cloud) == {}


def test_what_could_not_be_claimed_is_not_taken_either(cloud, monkeypatch):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[9], request_id="req-9", memory_mb=1)

    def gone(_):
        raise DatabaseUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(cloud, "write", gone)
        with pytest.raises(DatabaseUnavailable):
            ask(scheduler, *U[:8])
    assert len(ask(scheduler, *U[:8], request_id="req-2")) == 8


def test_alternates_are_held_for_who_builds_on_them(cloud):
    scheduler = a_scheduler(cloud)
    asked = SelectArguments(a_request(memory_mb=64), [U[0]], True, True)
    (answer,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert [each.service_host for each in answer] == ["h1", "h2", "h3"]
    assert used(cloud) == [64, 2048 + 64, 4096 + 64]
    (again,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert again == answer


def test_who_would_lack_the_room_of_alternates_finds_it_free(cloud):
    scheduler = a_scheduler(cloud)
    for number in range(9):
        ask(scheduler, U[number], request_id=f"req-{number}", alternates=True)
    with pytest.raises(NoValidHost):
        ask(scheduler, U[9], request_id="req-9")


def test_alternates_that_nothing_is_claimed_on_are_returned_where_that_is_wanted(cloud):
    scheduler = a_scheduler(cloud, alternates=False)
    asked = SelectArguments(a_request(), [U[0]], True, True)
    (answer,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert [each.service_host for each in answer] == ["h1", "h2", "h3"]
    assert used(cloud) == [2048, 2048, 4096]
    (again,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert again == answer


def test_an_alternate_that_could_not_be_claimed_is_not_returned(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[9], request_id="req-9", memory_mb=1)
    # The cache is old: there is less room on h2 than it says.
    execute(
        cloud,
        "UPDATE compute_nodes SET free_ram_mb = 0, memory_mb_used = memory_mb WHERE host = 'h2'",
    )
    asked = SelectArguments(a_request(memory_mb=64), [U[0]], True, True)
    (answer,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert [each.service_host for each in answer] == ["h1", "h3"]
    (again,) = scheduler.select(asked, RequestContext(request_id="req-1"))
    assert again == answer


def test_what_a_claim_has_changed_is_published(cloud):
    published = []
    claimer = Claimer(cloud, ClaimSettings(), published.append)
    cache = HostCache(cloud)
    destinations = Destinations(cloud, cache, FilterScheduler(PLAN), claimer=claimer)
    ask(destinations, U[0])
    ask(destinations, U[0])
    tried = SchedulerRetries(2, [TriedHost("h1", "h1")])
    ask(destinations, U[0], retry=tried)
    first, second = filter(None, published)
    assert [(each.node_id, len(each.added)) for each in first] == [(1, 1)]
    assert sorted((each.node_id, len(each.added), each.ended) for each in second) == [
        (1, 0, [U[0]]),
        (2, 1, []),
    ]


def test_who_has_decided_by_other_aggregates_decides_again(cloud):
    scheduler = a_scheduler(cloud, Plan([AvailabilityZoneFilter()], [RAMWeigher()]))
    cloud.write(lambda c: aggregate_operations.create(c, "a", {"availability_zone": "north"}))
    assert ask(scheduler, U[0], availability_zone="nova") == ["h1"]
    cloud.write(lambda c: aggregate_operations.add_hosts(c, "a", ["h2"], ZoneRules("nova")))
    cloud.write(lambda c: aggregate_operations.add_hosts(c, "a", ["h1"], ZoneRules("nova", True)))
    asked = {"availability_zone": "nova", "request_id": "req-2"}
    assert ask(scheduler, U[1], **asked) == ["h3"]


def test_what_plugins_log_is_said_of_the_request_that_they_decide(cloud):
    seen = []

    class Noting(FilterScheduler):
        def decide(self, hosts, request):
            seen.append(oslo.get_current().request_id)
            return super().decide(hosts, request)

    scheduler = a_scheduler(cloud)
    scheduler.change(driver=Noting(PLAN))
    for name in ("req-1", "req-2"):
        ask(scheduler, a_uuid(name), request_id=name)
    assert seen == ["req-1", "req-2"]


class BesideAnOperator(FilterScheduler):
    """Decides always a moment before the chosen host gets into another zone."""

    def __init__(self, plan, database):
        super().__init__(plan)
        self._database = database

    def decide(self, hosts, request):
        decision = super().decide(hosts, request)
        zones = ZoneRules("nova", with_instances=True)
        for placement in decision.placements:
            names = [placement.chosen.host]
            add = partial(aggregate_operations.add_hosts, text="a", hosts=names, zones=zones)
            self._database.write(add)
        return decision


@pytest.mark.parametrize("attempts", [1, 2, 3, 4, 20])
def test_however_often_a_claim_is_lost_the_rules_are_kept(cloud, attempts):
    plan = Plan([AvailabilityZoneFilter()], [RAMWeigher()])
    scheduler = a_scheduler(cloud, plan, attempts=attempts)
    scheduler.change(driver=BesideAnOperator(plan, cloud))
    cloud.write(lambda c: aggregate_operations.create(c, "a", {"availability_zone": "north"}))
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0], availability_zone="nova")
    assert claimed(cloud) == {}


def test_a_host_that_is_disabled_gets_nothing_by_an_older_view(cloud):
    scheduler = a_scheduler(cloud, Plan([ComputeFilter()], [RAMWeigher()]))
    assert ask(scheduler, U[0]) == ["h1"]
    cloud.write(lambda c: service_operations.disable(c, ["h1"]))
    assert ask(scheduler, U[1], request_id="req-2") == ["h2"]


def test_an_order_for_other_hosts_costs_no_attempt(cloud):
    scheduler = a_scheduler(cloud, Plan([ComputeFilter()], [RAMWeigher()]), attempts=1)
    ask(scheduler, U[0])
    cloud.write(lambda c: service_operations.disable(c, ["h2"]))
    assert ask(scheduler, U[1], request_id="req-2") == ["h1"]
