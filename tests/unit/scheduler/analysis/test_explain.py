# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.analysis.explain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.instance_group import InstanceGroup
from scheduler.analysis.explain import ALL, Extent, explain
from scheduler.decision.pipeline import EXPLAINED, Plan, Request
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import FakeScheduler, FilterScheduler
from scheduler.drivers.simple import SimpleScheduler
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.objects.request_spec import Destination
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop, DropOnce, Favourite, Moody

WEIGHERS = (RAMWeigher(),)
FILTERS = (ComputeFilter(), RamFilter(), CoreFilter())
REBUILD = {"_nova_check_type": ["rebuild"]}


def a_driver(*filters, weighers=WEIGHERS, **rules):
    return FilterScheduler(Plan(filters or FILTERS, weighers, **rules))


def why(hosts, driver=None, spec=None, index=0, extent=ALL, uuids=("u1",), **request):
    asked = Request(spec or a_request(), [*uuids], **request)
    return explain(hosts, asked, driver or a_driver(), index, extent)


def reasons(explained):
    return {
        each.host: {refusal.filter: refusal.reason for refusal in each.refusals}
        for each in explained.verdicts
    }


def places(explained):
    return [(each.host, each.rank, each.chosen) for each in explained.verdicts]


def three_hosts():
    return a_table(
        a_host("full", free_ram_mb=100, vcpus_used=16),
        a_host("down", forced_down=True, free_ram_mb=0),
        a_host("small", vcpus_total=0, vcpus_used=1),
    )


def test_all_reasons_of_all_hosts_are_reported():
    hosts = three_hosts()
    found = why(hosts, spec=a_request(memory_mb=512, vcpus=1), extent=Extent(near=2))
    assert reasons(found) == {
        "full": {
            "RamFilter": "needs 512 MB of memory, 100 left of 65536 x 1.0",
            "CoreFilter": "needs 1 vCPU, 0 left of 16 x 1.0",
        },
        "down": {
            "ComputeFilter": "compute service forced down",
            "RamFilter": "needs 512 MB of memory, 0 left of 65536 x 1.0",
        },
    } | {"small": {}}
    assert found.reasons == {"ComputeFilter": 1, "RamFilter": 2, "CoreFilter": 1}
    assert (found.hosts, found.passing, found.chosen, found.drawn_from) == (3, 1, "small", 1)
    assert found.near_misses == ()
    assert hosts.get(0, "free_ram_mb") == 100


@pytest.mark.parametrize(("most", "shown"), [(2, ["h0", "h1", "h8"]), (None, 9)])
def test_the_reasons_of_a_near_miss_are_among_the_first_ones(most, shown):
    hosts = a_table(*(a_host(f"h{number}", free_ram_mb=10 * number) for number in range(9)))
    found = why(hosts, spec=a_request(memory_mb=512), extent=Extent(most=most, near=1))
    assert [each.host for each in found.near_misses] == ["h8"]
    groups = [each.first_hosts[0] for each in found.refused]
    assert (groups if most else len(groups)) == shown


def test_a_refusal_comes_with_near_misses():
    hosts = three_hosts()
    hosts.set(2, "service_disabled", True)
    found = why(hosts, spec=a_request(memory_mb=512, vcpus=1), extent=Extent(near=2))
    assert (found.chosen, found.chosen_node, found.passing, found.drawn_from) == (None, None, 0, 0)
    # The steps are those of the decision: who was refused before is not asked.
    assert [str(each) for each in found.steps] == ["ComputeFilter 3->1", "RamFilter 1->0"]
    assert [each.host for each in found.verdicts] == ["small", "full", "down"]
    assert [each.text for each in found.near_misses] == [
        "412 MB of memory and 1 vCPU more free on full",
        "small, were it not for ComputeFilter: compute service disabled: no reason given",
    ]
    assert why(hosts, spec=a_request(memory_mb=512)).near_misses == ()


def test_hosts_that_pass_come_with_their_weights_the_best_first():
    weigher = Favourite(h1=1, h2=3, h3=2)
    hosts = a_table(a_host("h1"), a_host("h2"), a_host("h3"), a_host("h4"))
    found = why(hosts, a_driver(Drop("h4"), weighers=(weigher,)))
    assert places(found) == [
        ("h2", 1, True),
        ("h3", 2, False),
        ("h1", 3, False),
        ("h4", None, False),
    ]
    assert [each.weighed.total for each in found.verdicts[:3]] == [1.0, 0.5, 0.0]
    assert found.verdicts[1].weighed.shares == {"Favourite": 0.5}
    assert found.verdicts[3].weighed is None


def test_only_the_requested_hosts_and_the_chosen_one_are_reported():
    weigher = Favourite(h1=1, H2=3, h3=2)
    hosts = a_table(a_host("h1", "n1"), a_host("H2", "n2"), a_host("h3", "n3"), a_host("h4", "n4"))
    driver = a_driver(Drop("h4"), weighers=(weigher,))

    def reported(**extent):
        return [each.host for each in why(hosts, driver, extent=Extent(**extent)).verdicts]

    assert reported(most=2) == ["H2", "h3"]
    # The chosen one is always there, to be compared with.
    assert reported(only=["h1"]) == ["H2", "h1"]
    assert reported(only=["h2", "n4", "N3"]) == ["H2", "h4"]
    assert reported(only=["H4"]) == ["H2", "h4"]
    refusing = a_driver(Drop("h1", "H2", "h3", "h4"))
    (verdict,) = why(hosts, refusing, extent=Extent(only=["n3"])).verdicts
    assert verdict.host == "h3"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ignore_hosts": ["H1"]}, {"h1": {"ignore_hosts": "is among the hosts to be ignored"}}),
        ({"force_hosts": ["h2"]}, {"h1": {"force_hosts": "is not among the forced hosts h2"}}),
        (
            {"requested_destination": Destination(host="h2", node="h2")},
            {
                "h1": {
                    "requested_destination": "is not the requested destination h2",
                    "Drop": "h1 was dropped",
                }
            },
        ),
    ],
)
def test_hosts_that_a_request_excludes_by_name_are_reported(changes, expected):
    hosts = a_table(a_host("h1"), a_host("h2"))
    driver = a_driver(Drop("h1")) if "requested_destination" in changes else a_driver()
    assert reasons(why(hosts, driver, a_request(**changes))) == expected | {"h2": {}}


def test_hosts_without_a_service_are_reported():
    hosts = a_table(a_host("h1", unserved=True))
    assert reasons(why(hosts)) == {"h1": {"compute_service": "has no compute service"}}


def test_forced_hosts_are_not_refused_by_filters_but_by_those_of_requests():
    hosts = a_table(a_host("h1"), a_host("h2"))
    driver = a_driver(Drop("h1", "h2"), request_filters=(Moody("h2"),))
    found = why(hosts, driver, a_request(force_hosts=["h1", "h2"]))
    assert reasons(found) == {"h1": {}, "h2": {"Moody": "does not pass"}}
    rebuilt = why(hosts, driver, a_request(scheduler_hints=REBUILD))
    assert rebuilt.passing == 2
    # They take nothing.
    hosts = a_table(a_host("h1"))
    spec = a_request(scheduler_hints=REBUILD, memory_mb=60000)
    assert why(hosts, spec=spec, index=1, uuids=("u1", "u2")).chosen == "h1"


def test_later_instances_see_what_earlier_ones_have_taken():
    hosts = a_table(a_host("h1", free_ram_mb=1500), a_host("h2", free_ram_mb=700))
    spec = a_request(memory_mb=600)
    uuids = ("u1", "u2", "u3", "u4")
    found = [why(hosts, spec=spec, index=index, uuids=uuids) for index in range(4)]
    assert [each.chosen for each in found] == ["h1", "h1", "h2", None]
    assert [each.instance_uuid for each in found] == [*uuids]
    assert reasons(found[3]) == {
        "h1": {"RamFilter": "needs 600 MB of memory, 300 left of 65536 x 1.0"},
        "h2": {"RamFilter": "needs 600 MB of memory, 100 left of 65536 x 1.0"},
    }
    with pytest.raises(ValueError, match="refused for instance 3, before 4"):
        why(hosts, spec=spec, index=4, uuids=(*uuids, "u5"))
    with pytest.raises(ValueError, match="has 4 instances: there is no instance number 4"):
        why(hosts, spec=spec, index=4, uuids=uuids)


def test_what_is_asked_once_holds_for_all_instances():
    hosts = a_table(a_host("h1"), a_host("h2"))
    found = why(hosts, a_driver(DropOnce("h1")), index=1, uuids=("u1", "u2"))
    assert reasons(found) == {"h1": {"DropOnce": "h1 was dropped"}, "h2": {}}


def test_members_of_a_group_that_were_placed_just_before_count():
    hosts = a_table(a_host("h1"), a_host("h2"))
    spec = a_request(instance_group=InstanceGroup("g", "anti-affinity", [], []))
    driver = a_driver(ServerGroupAntiAffinityFilter())
    found = why(hosts, driver, spec, 1, uuids=("u1", "u2"))
    assert found.chosen == "h2"
    assert list(reasons(found)["h1"]) == ["ServerGroupAntiAffinityFilter"]


@pytest.mark.parametrize(
    ("rules", "choices", "expected"),
    [
        ({}, 1, 1),
        ({"host_subset_size": 2}, 1, 2),
        ({"host_subset_size": 9}, 1, 4),
        ({"shuffle_best": True}, 1, 3),
        ({"shuffle_best": True, "host_subset_size": 2}, 1, 3),
        ({}, 4, 3),
    ],
)
def test_among_how_many_it_was_drawn(rules, choices, expected):
    weigher = Favourite(h1=1, h2=1, h3=1, h4=0)
    hosts = a_table(*(a_host(name) for name in weigher.weights))
    driver = a_driver(Drop(), weighers=(weigher,), **rules)
    assert why(hosts, driver, choices=choices).drawn_from == expected


def test_drivers_with_a_choice_of_their_own():
    hosts = a_table(a_host("h1", vcpus_used=9), a_host("h2", vcpus_used=5))
    found = why(hosts, SimpleScheduler(Plan()), a_request(vcpus=1))
    assert (found.chosen, found.passing, found.drawn_from) == ("h2", 2, 0)
    # Its bound is no filter.
    found = why(
        hosts, SimpleScheduler(Plan(), max_cores=4), a_request(vcpus=1), extent=Extent(near=1)
    )
    assert (found.chosen, found.passing, found.near_misses) == (None, 2, ())
    # It does not care for what a request says by name.
    spec = a_request(force_hosts=["h1"])
    chosen = {why(hosts, ChanceScheduler(Plan()), spec, seed=seed).chosen for seed in range(20)}
    assert chosen == {"h1", "h2"}
    found = why(hosts, FakeScheduler(Plan()))
    assert (found.chosen, found.steps, found.passing) == (None, (), 2)


def test_an_empty_table():
    found = why(a_table())
    assert (found.hosts, found.verdicts, found.reasons) == (0, (), {})


def test_others_have_their_turn():
    pauses = []
    hosts = a_table(*(a_host(f"h{number}") for number in range(100)))
    why(hosts, extent=Extent(pause=lambda: pauses.append(1)))
    assert len(pauses) == 1 + 2 + 4


@given(st.data())
def test_an_explanation_agrees_with_the_decision(data):
    """What passes is what is left in the end, and the best are those that the decision names."""
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6))
    hosts = a_table(
        *(
            a_host(f"h{number}", free_ram_mb=size * 100, forced_down=size % 7 == 0)
            for number, size in enumerate(sizes)
        )
    )
    uuids = [f"u{number}" for number in range(data.draw(st.integers(1, 4)))]
    driver = a_driver(host_subset_size=data.draw(st.integers(1, 3)))
    request = Request(a_request(memory_mb=500), uuids, seed=data.draw(st.integers(0, 99)))
    decision = driver.decide(hosts.working_copy(), request)
    last = decision.shortage.index if decision.shortage else len(uuids) - 1
    for index in range(last + 1):
        found = explain(hosts, request, driver, index)
        refused = [each for each in found.verdicts if each.refusals]
        assert len(refused) + found.passing == found.hosts == len(hosts)
        if decision.shortage and index == last:
            assert (found.chosen, found.passing) == (None, 0)
            assert found.steps == decision.shortage.steps
            continue
        if not decision.shortage:
            placement = decision.placements[index]
            assert (found.chosen, found.steps) == (placement.chosen.host, placement.steps)
        assert found.passing == found.steps[-1].after
        ranked = sorted((each for each in found.verdicts if each.rank), key=lambda each: each.rank)
        if index == 0 and not decision.shortage:
            best = tuple(each.weighed for each in ranked[:EXPLAINED])
            assert best == decision.placements[0].weighed


def test_the_explanation_of_a_part_is_that_of_the_whole():
    hosts = a_table(*(a_host(f"h{number}", free_ram_mb=600 * number) for number in range(4)))
    whole = why(hosts, spec=a_request(memory_mb=512))
    part = why(hosts, spec=a_request(memory_mb=512), extent=Extent(most=1))
    assert replace(whole, verdicts=whole.verdicts[:1]) == part
