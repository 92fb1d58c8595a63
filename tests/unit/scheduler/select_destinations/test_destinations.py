# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.select_destinations: from a request to an answer, on a real database."""

import logging
from threading import Thread

import pytest

from inventory import aggregates, instances, server_groups
from inventory.claims import existing
from scheduler.analysis.explain import Extent
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FakeScheduler, FilterScheduler
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.host_cache.cache import HostCache
from scheduler.objects.request_spec import CellMapping, Destination
from scheduler.objects.selection import SchedulerLimits, Selection
from scheduler.select_destinations import destinations
from scheduler.select_destinations.destinations import Destinations
from scheduler.select_destinations.request_builder import NO_CELL
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, save, serve
from tests.fixtures.daemons.process import PATIENCE
from tests.plugins import Moody

RESOURCES = (RamFilter(), CoreFilter(), DiskFilter(), ServerGroupAntiAffinityFilter())
PLAN = Plan(RESOURCES, [RAMWeigher()])
FREE = {"h1": 8192, "h2": 6144, "h3": 4096}


@pytest.fixture
def cloud(database):
    """Return a database with three hosts that have room for four, three and two instances."""
    nodes = [a_node(host, memory_mb=8192, free_ram_mb=mb) for host, mb in FREE.items()]
    save(database, *(node | {"initial_ram_allocation_ratio": 1.0} for node in nodes))
    serve(database, *FREE)
    return database


def answering(database, plan=PLAN, **settings):
    return Destinations(database, HostCache(database), FilterScheduler(plan), **settings)


def ask(destinations, *uuids, alternates=False, request_id="req-1", **changes):
    asked = SelectArguments(a_request(**changes), list(uuids), alternates, alternates)
    return destinations.select(asked, RequestContext(request_id=request_id))


def hosts(answer):
    return ["".join(each.service_host for each in selections) for selections in answer]


def test_an_answer_has_all_that_a_caller_needs(cloud):
    cloud.write(lambda c: aggregates.create(c, "z", ["h1"], {"availability_zone": "z2,z1"}))
    ((selection,),) = ask(answering(cloud), "u1")
    assert selection == Selection(
        service_host="h1",
        nodename="h1",
        compute_node_uuid=a_uuid("h1 h1"),
        cell_uuid=NO_CELL,
        limits=SchedulerLimits(vcpu=64.0, memory_mb=8192.0, disk_gb=1000.0),
        availability_zone="z1",
    )


def test_the_cell_is_the_configured_one_else_the_one_that_was_asked_for(cloud):
    destination = Destination(cell=CellMapping("asked"))
    ((found,),) = ask(answering(cloud), "u1", requested_destination=destination)
    assert found.cell_uuid == "asked"
    configured = Destinations(cloud, HostCache(cloud, cell_uuid="ours"), FilterScheduler(PLAN))
    ((found,),) = ask(configured, "u2")
    assert found.cell_uuid == "ours"


def test_a_host_outside_of_all_zones_is_in_the_default_one(cloud):
    ((found,),) = ask(answering(cloud, default_zone="home"), "u1")
    assert found.availability_zone == "home"


def test_alternates_are_given_to_those_who_can_read_them(cloud):
    assert hosts(ask(answering(cloud), "u1", alternates=True)) == ["h1h2h3"]
    assert hosts(ask(answering(cloud), "u1")) == ["h1"]
    assert hosts(ask(answering(cloud, max_attempts=2), "u1", alternates=True)) == ["h1h2"]
    assert hosts(ask(answering(cloud, max_attempts=1), "u1", alternates=True)) == ["h1"]
    asked = SelectArguments(a_request(), ["u1"], return_objects=False, return_alternates=True)
    assert hosts(answering(cloud).select(asked, RequestContext())) == ["h1"]


def test_later_requests_see_what_earlier_ones_took(cloud):
    destinations = answering(cloud)
    places = [hosts(ask(destinations, f"u{each}"))[0] for each in range(9)]
    assert sorted(places) == ["h1"] * 4 + ["h2"] * 3 + ["h3"] * 2
    with pytest.raises(NoValidHost, match="There are not enough hosts available"):
        ask(destinations, "u9")


@pytest.mark.parametrize("step", ["name_instances", "read_members"])
def test_a_reload_that_ends_claims_does_not_disturb_a_request_under_way(cloud, monkeypatch, step):
    answers = answering(cloud, claimer=Claimer(cloud, ClaimSettings()))
    real = getattr(destinations, step)

    def reload(*arguments):
        answers.change(claimer=None)
        return real(*arguments)

    monkeypatch.setattr(destinations, step, reload)
    if step == "read_members":
        asked = SelectArguments(a_request(), ["u1"], False, False)
        decision, _ = answers.rehearse(asked, RequestContext())
        assert [each.chosen.host for each in decision.placements] == ["h1"]
    else:
        assert hosts(ask(answers, "u1")) == ["h1"]
        assert cloud.read(lambda connection: existing.of_instances(connection, ["u1"]))[0]
    assert answers.claimer is None


def test_all_or_nothing(cloud):
    destinations = answering(cloud)
    with pytest.raises(NoValidHost):
        ask(destinations, *(f"u{each}" for each in range(10)))
    # Nothing of it was taken.
    assert len(ask(destinations, *(f"v{each}" for each in range(9)))) == 9


def test_many_threads_never_give_a_place_twice(cloud):
    destinations, answers = answering(cloud), []

    def worker(number):
        for each in range(3):
            try:
                answers.extend(hosts(ask(destinations, f"u{number}-{each}")))
            except NoValidHost:
                answers.append(None)

    threads = [Thread(target=worker, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {host: answers.count(host) for host in (*FREE, None)} == {
        "h1": 4,
        "h2": 3,
        "h3": 2,
        None: 6,
    }


def test_a_server_group_may_be_named_by_a_hint(cloud):
    def work(connection):
        server_groups.create(connection, "web", "anti-affinity", {}, ["u0", "u1"])
        instances.replace(connection, "h1", "h1", [an_instance("u0")])

    cloud.write(work)
    hint = {"group": ["web"]}
    assert hosts(ask(answering(cloud), "u1", scheduler_hints=hint)) == ["h2"]
    assert hosts(ask(answering(cloud), "u1")) == ["h1"]


def test_the_rules_of_a_named_group_count(cloud):
    def work(connection):
        rules = {"max_server_per_host": 2}
        server_groups.create(connection, "web", "anti-affinity", rules, ["u0", "u1", "u2"])
        instances.replace(connection, "h1", "h1", [an_instance("u0")])

    cloud.write(work)
    hint = {"group": ["web"]}
    assert hosts(ask(answering(cloud), "u1", "u2", scheduler_hints=hint)) == ["h1", "h2"]


def test_a_group_that_does_not_exist_is_the_caller_s_mistake(cloud):
    with pytest.raises(InvalidInput, match="there is no server group 'nope'"):
        ask(answering(cloud), "u1", scheduler_hints={"group": ["nope"]})


def test_the_same_request_gets_the_same_answer_and_others_their_own_chance(cloud):
    plan = Plan(RESOURCES, (), host_subset_size=3)

    def choice(request_id, uuid):
        return hosts(ask(answering(cloud, plan), uuid, request_id=request_id))[0]

    assert len({choice("req-1", "u1") for _ in range(5)}) == 1
    assert len({choice(f"req-{each}", "u1") for each in range(20)}) > 1
    assert len({choice(None, f"u{each}") for each in range(20)}) > 1


def test_drivers_may_be_exchanged_while_requests_are_served(cloud):
    destinations = answering(cloud)
    assert hosts(ask(destinations, "u1")) == ["h1"]
    destinations.change(driver=FilterScheduler(Plan((Moody("h1", "h2"),))))
    assert hosts(ask(destinations, "u2")) == ["h3"]


class Exchanged(FilterScheduler):
    """A driver in whose place another one comes as soon as it was asked anything."""

    destinations, successor = None, None

    def __getattribute__(self, name):
        if name == "view_max_age" and self.destinations:
            self.destinations.change(driver=self.successor)
        return super().__getattribute__(name)


def test_one_driver_decides_from_the_view_to_the_answer(cloud):
    driver, successor = Exchanged(PLAN), FilterScheduler(Plan((Moody("h1", "h2"),)))
    destinations = Destinations(cloud, HostCache(cloud), driver)
    driver.destinations, driver.successor = destinations, successor
    assert hosts(ask(destinations, "u1")) == ["h1"]
    assert hosts(ask(destinations, "u2")) == ["h3"]


def test_one_line_says_what_was_decided(cloud, caplog):
    destinations = answering(cloud)
    with caplog.at_level(logging.INFO, logger="scheduler.request_trace"):
        ask(destinations, "u1", "u2")
        with pytest.raises(NoValidHost):
            ask(destinations, "u3", memory_mb=99999)
    chosen, refused = caplog.messages
    assert chosen.startswith("Selected h1, h1 for 2 instances from u1 in ")
    assert "RamFilter 3->3" in chosen
    assert refused.startswith("No valid host for instance u3 in ")
    assert refused.endswith("instance 1 found none of 3 hosts: RamFilter 3->0")


def test_a_driver_may_choose_nothing(cloud, caplog):
    destinations = Destinations(cloud, HostCache(cloud), FakeScheduler(PLAN))
    with caplog.at_level(logging.INFO, logger="scheduler.request_trace"):
        assert ask(destinations, "u1", "u2", alternates=True) == []
    (line,) = caplog.messages
    assert line.startswith("Selected no hosts for 2 instances from u1 in ")


def test_an_empty_cloud_is_explained(database, caplog):
    with (
        caplog.at_level(logging.INFO, logger="scheduler.request_trace"),
        pytest.raises(NoValidHost),
    ):
        ask(answering(database), "u1")
    assert "check that berthmaster-agent runs on the hosts" in caplog.text


def test_a_requested_host_that_does_not_exist_is_named(cloud):
    with pytest.raises(NoValidHost, match="No such host - host: h9"):
        ask(answering(cloud), "u1", requested_destination=Destination(host="h9"))


def test_what_plug_ins_complain_about_is_logged_once(cloud, caplog):
    destinations = answering(cloud, Plan((Moody("h1"),)))
    with caplog.at_level(logging.WARNING, logger="scheduler.request_trace"):
        ask(destinations, "u1")
        ask(destinations, "u2")
    assert caplog.messages == [
        "Moody refuses h1 (h1) since it failed there: KeyError: 'no h1 here'"
    ]


def test_rehearsing_tells_the_decision_and_the_reasons_and_takes_nothing(cloud):
    destinations = answering(cloud)
    asked = SelectArguments(a_request(memory_mb=5000), ["u1"])
    for _ in range(3):
        decision, explained = destinations.rehearse(asked, RequestContext(request_id="req-1"))
        assert decision.placements[0].chosen.host == explained.chosen == "h1"
        refusals = [refusal for each in explained.verdicts for refusal in each.refusals]
        assert [(each.host, each.filter) for each in refusals] == [("h3", "RamFilter")]
    few = destinations.rehearse(asked, RequestContext(request_id="req-1"), Extent(most=2))[1]
    assert [each.host for each in few.verdicts] == ["h1", "h2"]


def test_others_are_answered_while_reasons_are_looked_for(cloud):
    destinations = answering(cloud)
    asked = SelectArguments(a_request(memory_mb=5000), ["u1"])
    answered = []

    def pause():
        # A decision in the middle of it: the table is not locked, and not looked at any more.
        if not answered:
            thread = Thread(target=lambda: answered.append(ask(destinations, "u2")))
            thread.start()
            thread.join(PATIENCE)

    decision, explained = destinations.rehearse(
        asked, RequestContext(request_id="req-1"), Extent(pause=pause)
    )
    assert hosts(answered[0]) == ["h1"]
    weights = [each.weighed.total for each in explained.verdicts if each.weighed]
    assert decision.placements[0].weighed[0].total == weights[0] == 1.0
    assert destinations.rehearse(asked, RequestContext())[0].placements[0].chosen.host == "h1"


def test_a_request_that_fails_is_rehearsed_with_near_misses(cloud):
    destinations = answering(cloud)
    asked = SelectArguments(a_request(memory_mb=5000), ["u1", "u2", "u3"])
    decision, explained = destinations.rehearse(asked, RequestContext(), Extent(near=1))
    assert (decision.shortage.index, explained.index) == (2, 2)
    assert explained.instance_uuid == "u3"
    assert [each.text for each in explained.near_misses] == [
        "904 MB of memory less, or 904 MB of memory more free on h3"
    ]
