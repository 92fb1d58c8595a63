# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.pipeline: the steps of one decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import NOT_ENOUGH, Plan, Request, decide
from scheduler.decision.types import PlacementFailure, Refusal, Step
from scheduler.filters import BaseHostFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.retry import RetryFilter
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.io_ops import IoOpsWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import INSTANCE, a_group, a_request
from tests.hosts import a_host, a_table, hosts_with
from tests.plugins import Drop, DropOnce, DropOnRebuild, Favourite
from tests.refusals import refusals

REBUILD = {"_nova_check_type": ["rebuild"]}


def chosen(decision):
    return [placement.chosen.host for placement in decision.placements]


def test_the_chain_stops_at_the_filter_that_leaves_no_host():
    never = Drop()
    plan = Plan([Drop(), Drop("h1"), Drop("h2", "h3"), never])
    decision = decide(
        hosts_with("uuid", dict.fromkeys(["h1", "h2", "h3"])), Request(a_request(), ["u"]), plan
    )
    assert decision.placements == ()
    assert decision.shortage == PlacementFailure(
        0, "u", (Step("Drop", 3, 3), Step("Drop", 3, 2), Step("Drop", 2, 0)), NOT_ENOUGH
    )
    assert never.asked == []


def test_without_hosts_the_first_filter_is_blamed():
    decision = decide(a_table(), Request(a_request(), ["u"]), Plan([Drop(), Drop()]))
    assert decision.shortage == PlacementFailure(0, "u", (Step("Drop", 0, 0),), NOT_ENOUGH)
    assert decide(a_table(), Request(a_request(), ["u"]), Plan()).shortage == PlacementFailure(
        0, "u", (), NOT_ENOUGH
    )


def test_a_filter_sees_only_what_the_earlier_ones_left():
    second = Drop()
    decide(
        hosts_with("uuid", {"h1": "a", "h2": "b"}),
        Request(a_request(), ["u"]),
        Plan([Drop("h1"), second]),
    )
    assert second.asked == [("h2", "u")]


def test_a_filter_that_does_not_apply_is_a_step_that_removes_nobody():
    decision = decide(a_table(a_host()), Request(a_request(), ["u"]), Plan([RetryFilter()]))
    assert not RetryFilter().applies(a_request())
    assert decision.placements[0].steps == (Step("RetryFilter", 1, 1),)


def test_once_per_request_filters_are_asked_for_the_first_instance_only():
    once, each = DropOnce("h1"), Drop()
    hosts = hosts_with("uuid", {"h1": None, "h2": None})
    decision = decide(hosts, Request(a_request(), ["u1", "u2"]), Plan([once, each]))
    assert once.asked == [("h1", "u1"), ("h2", "u1")]
    assert each.asked == [("h2", "u1"), ("h2", "u2")]
    assert [str(step) for step in decision.placements[1].steps] == ["Drop 1->1"]


def test_a_rebuild_asks_only_the_filters_that_concern_it_and_takes_nothing():
    asked, passed_over = DropOnRebuild("h1"), Drop("h2")
    hosts = hosts_with("uuid", {"h1": None, "h2": None})
    spec = a_request(scheduler_hints=REBUILD)
    decision = decide(hosts, Request(spec, [INSTANCE], alternates=2), Plan([passed_over, asked]))
    assert chosen(decision) == ["h2"]
    assert passed_over.asked == []
    assert decision.placements[0].alternates == ()
    assert hosts.free_ram_mb.tolist() == [65536, 65536]


def test_a_forced_host_is_weighed_and_has_no_limits():
    hosts = hosts_with("free_ram_mb", {"h1": 1, "h2": 2})
    plan = Plan([RamFilter()], [RAMWeigher()])
    decision = decide(hosts, Request(a_request(force_hosts=["h1", "h2"]), ["u"]), plan)
    placement = decision.placements[0]
    assert (placement.chosen.host, placement.chosen.weight) == ("h2", 1.0)
    assert placement.chosen.limits == {}
    assert [str(step) for step in placement.steps] == ["force_hosts 2->2"]


def test_the_limits_are_those_of_the_chosen_host():
    hosts = hosts_with("ram_allocation_ratio", {"h1": 1.0, "h2": 1.5})
    plan = Plan([RamFilter()], [Favourite(h1=0, h2=1)])
    decision = decide(hosts, Request(a_request(), ["u"]), plan)
    assert decision.placements[0].chosen.limits == {"memory_mb": 65536 * 1.5}


def test_combined_weights_worked_case():
    # Behaviour reference 2.4.
    cpus = {"vcpus_total": 16, "cpu_allocation_ratio": 4.0}
    hosts = a_table(
        a_host("A", free_ram_mb=8192, vcpus_used=20, free_disk_mb=204800, num_io_ops=2, **cpus),
        a_host("B", free_ram_mb=16384, vcpus_used=50, free_disk_mb=102400, num_io_ops=0, **cpus),
        a_host("C", free_ram_mb=4096, vcpus_used=10, free_disk_mb=409600, num_io_ops=4, **cpus),
    )
    weighers = [RAMWeigher(), CPUWeigher(), DiskWeigher(), IoOpsWeigher()]
    placement = decide(hosts, Request(a_request(), ["u"]), Plan((), weighers)).placements[0]
    assert placement.chosen.host == "B"
    assert [each.host for each in placement.weighed] == ["B", "A", "C"]
    totals = [each.total for each in placement.weighed]
    assert totals == pytest.approx([1.5093, 1.3148, 1.25], abs=5e-5)
    assert placement.weighed[1].shares == pytest.approx(
        {"RAMWeigher": 0.5, "CPUWeigher": 0.8148, "DiskWeigher": 0.5, "IoOpsWeigher": -0.5},
        abs=5e-5,
    )


def test_the_weights_of_the_five_best_are_kept():
    hosts = hosts_with("free_ram_mb", {f"h{each}": each for each in range(9)})
    placement = decide(hosts, Request(a_request(), ["u"]), Plan((), [RAMWeigher()])).placements[0]
    assert [each.host for each in placement.weighed] == ["h8", "h7", "h6", "h5", "h4"]


def test_a_single_host_is_not_weighed():
    weigher = Favourite()
    decision = decide(a_table(a_host()), Request(a_request(), ["u"]), Plan((), [weigher]))
    assert decision.placements[0].chosen.weight == 0.0
    assert weigher.asked == []


@given(st.integers(), st.integers(1, 5), st.booleans())
def test_the_same_seed_gives_the_same_decision(seed, subset, shuffle):
    plan = Plan([RamFilter()], [RAMWeigher()], host_subset_size=subset, shuffle_best=shuffle)
    hosts = hosts_with("free_ram_mb", {f"h{each}": 8192 for each in range(6)})
    request = Request(a_request(), ["u1", "u2", "u3"], 2, seed)
    assert decide(hosts.working_copy(), request, plan) == decide(
        hosts.working_copy(), request, plan
    )


@pytest.mark.parametrize("rules", [{"shuffle_best": True}, {"host_subset_size": 3}])
def test_chance_spreads_requests_over_equal_hosts(rules):
    hosts = hosts_with("uuid", {"h1": "a", "h2": "b", "h3": "c"})
    plan = Plan((), [RAMWeigher()], **rules)
    seen = {
        chosen(decide(hosts.working_copy(), Request(a_request(), ["u"], 0, seed), plan))[0]
        for seed in range(50)
    }
    assert seen == {"h1", "h2", "h3"}


def test_the_decision_carries_seed_hosts_and_warnings():
    hosts = hosts_with("uuid", {"h1": None, "h2": None})
    hosts.warn("beware")
    decision = decide(hosts, Request(a_request(), ["u"], 0, 77), Plan())
    assert (decision.seed, decision.hosts, decision.warnings) == (77, 2, ("beware",))


def test_the_spec_of_the_caller_is_left_alone():
    spec = a_request(instance_group=a_group("affinity", hosts=["h1"]))
    decide(a_table(a_host()), Request(spec, ["u1", "u2"]), Plan())
    assert spec.instance_group.hosts == ["h1"]
    assert spec.instance_uuid == INSTANCE


class OtherRacks(BaseHostFilter):
    """A third party's filter: the first letter of a host's name is its rack."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host[0] not in {host[0] for host in spec_obj.instance_group.hosts}


def test_alternates_keep_to_the_rules_of_the_group_with_all_of_its_new_members():
    hosts = hosts_with("free_ram_mb", {"a1": 9000, "a2": 8000, "b1": 7000, "b2": 6000, "c1": 5000})
    request = Request(a_request(instance_group=a_group()), ["u1", "u2"], alternates=2)
    decision = decide(hosts, request, Plan([OtherRacks()], [RAMWeigher()]))
    assert chosen(decision) == ["a1", "b1"]
    for placement in decision.placements:
        assert [each.host for each in placement.alternates] == ["c1"]


def test_explain_gives_every_reason_of_every_host():
    hosts = a_table(
        a_host("h1", forced_down=True, free_ram_mb=100),
        a_host("h2"),
        a_host("h3", forced_down=True),
    )
    found = refusals(hosts, a_request(), Plan([ComputeFilter(), RamFilter(), Drop("h3")]), most=3)
    assert found == [
        Refusal("h1", "h1", "ComputeFilter", "compute service forced down"),
        Refusal("h1", "h1", "RamFilter", "needs 2048 MB of memory, 100 left of 65536 x 1.0"),
        Refusal("h3", "h3", "ComputeFilter", "compute service forced down"),
        Refusal("h3", "h3", "Drop", "h3 was dropped"),
    ]
    assert {
        each.host for each in refusals(hosts, a_request(), Plan([ComputeFilter()]), most=2)
    } == {"h1"}
    assert refusals(hosts, a_request(), Plan([]), most=3) == []
