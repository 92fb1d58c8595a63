# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.pipeline with plug-ins written for Nova."""

import pytest

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.types import Refusal
from scheduler.filters import BaseHostFilter
from scheduler.weighers import BaseHostWeigher
from tests.builders import INSTANCE, a_request
from tests.hosts import a_host, a_table, hosts_with
from tests.plugins import Drop, Favourite, Moody, Tens
from tests.refusals import refusals

THREE = {"h1": 4096, "h2": 8192, "h3": 2048}


class RoomyFilter(BaseHostFilter):
    """What a site may have written for Newton: one method, no reads, no reason."""

    def host_passes(self, host_state, spec_obj):
        return host_state.free_ram_mb - spec_obj.memory_mb >= 2048


class ZoneFilter(BaseHostFilter):
    """A filter that says what it reads, and is asked once for each value."""

    reads = ("aggregates", "hypervisor_type")

    def __init__(self):
        super().__init__()
        self.asked = []

    def host_passes(self, host_state, spec_obj):
        self.asked.append((host_state.aggregates, host_state.hypervisor_type))
        return host_state.hypervisor_type == "kvm"


class Largest(BaseHostFilter):
    """What a site may have written to compare hosts with each other."""

    def filter_all(self, filter_obj_list, spec_obj):
        hosts = list(filter_obj_list)
        most = max(each.free_ram_mb for each in hosts)
        if most == 4096:
            return None
        if most == 2048:
            raise KeyError("too small")
        return [each for each in hosts if each.free_ram_mb == most]


@pytest.mark.parametrize(
    ("refused", "passing", "warnings"),
    [
        ([], ["h2"], []),
        # In Nova None ends the chain, and an error the request.
        (["h2"], [], []),
        (["h1", "h2"], [], ["Largest refuses all hosts since it failed: KeyError: 'too small'"]),
    ],
)
def test_a_filter_that_overrides_filter_all_is_given_the_hosts_that_are_left(
    refused, passing, warnings
):
    hosts = hosts_with("free_ram_mb", THREE)
    plan = Plan([Drop(*refused), Largest()])
    decision = decide(hosts, Request(a_request(), ["u"]), plan)
    assert [each.chosen.host for each in decision.placements] == passing
    assert list(decision.warnings) == warnings


def test_such_a_filter_may_be_asked_about_one_host_as_well():
    assert Largest().host_passes(a_host(free_ram_mb=1), a_request())
    assert not Largest().host_passes(a_host(free_ram_mb=4096), a_request())


def test_a_nova_style_filter_is_asked_once_for_each_host_that_is_left():
    mine = Drop("h2")
    hosts = hosts_with("free_ram_mb", THREE)
    decision = decide(hosts, Request(a_request(), [INSTANCE]), Plan([RoomyFilter(), mine]))
    assert mine.asked == [("h1", INSTANCE), ("h2", INSTANCE)]
    assert decision.placements[0].chosen.host == "h1"
    assert [str(step) for step in decision.placements[0].steps] == ["RoomyFilter 3->2", "Drop 2->1"]


def test_a_filter_that_raises_refuses_that_host_and_leaves_a_warning():
    # In Nova the whole request fails.
    hosts = hosts_with("free_ram_mb", THREE)
    decision = decide(hosts, Request(a_request(), ["u"]), Plan([Moody("h1", "h3")]))
    assert decision.placements[0].chosen.host == "h2"
    assert decision.warnings == (
        "Moody refuses h1 (h1) since it failed there: KeyError: 'no h1 here'",
        "Moody refuses h3 (h3) since it failed there: KeyError: 'no h3 here'",
    )


def test_a_filter_that_names_what_it_reads_is_asked_once_for_each_value():
    mine, zone = ZoneFilter(), []
    kinds = ["kvm", "lxc", "kvm", "kvm", "lxc"]
    hosts = a_table(
        *(a_host(f"h{i}", hypervisor_type=kind, aggregates=zone) for i, kind in enumerate(kinds))
    )
    mask = mine.mask(hosts, a_request())
    assert mask.tolist() == [True, False, True, True, False]
    assert sorted(kind for _, kind in mine.asked) == ["kvm", "lxc"]


def test_a_weigher_that_names_what_it_reads_is_asked_for_each_host_all_the_same():
    asked = []

    class ByKind(BaseHostWeigher):
        reads = ("hypervisor_type",)

        def _weigh_object(self, host_state, weight_properties):
            asked.append(host_state.host)
            return 1.0

    hosts = [a_host(f"h{i}", hypervisor_type="kvm") for i in range(3)]
    ByKind().weigh(a_table(*hosts), a_request())
    assert asked == ["h0", "h1", "h2"]


class PickyFilter(BaseHostFilter):
    """Looks at three columns, which may have many values each."""

    reads = ("free_ram_mb", "free_disk_mb", "vcpus_used")

    def host_passes(self, host_state, spec_obj):
        return host_state.free_ram_mb + host_state.free_disk_mb + host_state.vcpus_used > 250


def test_columns_of_which_every_host_has_its_own_values():
    hosts = [
        a_host(f"h{i}", free_ram_mb=i, free_disk_mb=i * i % 211, vcpus_used=i * 7 % 101)
        for i in range(100)
    ]
    expected = [PickyFilter().host_passes(each, a_request()) for each in hosts]
    assert PickyFilter().mask(a_table(*hosts), a_request()).tolist() == expected
    assert True in expected
    assert False in expected


def test_a_filter_without_a_rule_says_so():
    with pytest.raises(NotImplementedError, match="neither mask\\(\\) nor host_passes\\(\\)"):
        BaseHostFilter().host_passes(a_host(), a_request())
    with pytest.raises(NotImplementedError, match="neither weigh\\(\\) nor _weigh_object\\(\\)"):
        BaseHostWeigher()._weigh_object(a_host(), a_request())


def test_filter_all_works_on_a_list_of_hosts():
    hosts = [a_host("h1", free_ram_mb=1), a_host("h2")]
    assert [each.host for each in RoomyFilter().filter_all(hosts, a_request())] == ["h2"]


def test_a_filter_without_reason_still_explains():
    hosts = hosts_with("free_ram_mb", THREE)
    found = refusals(hosts, a_request(), Plan([RoomyFilter()]), most=3)
    assert found == [Refusal("h3", "h3", "RoomyFilter", "does not pass")]


def test_a_reason_is_one_line_of_bounded_length():
    class Talkative(RoomyFilter):
        def reason(self, host_state, spec_obj):
            return "line\n\tby line " * 1000

    (refusal,) = refusals(hosts_with("free_ram_mb", {"h": 0}), a_request(), Plan([Talkative()]), 1)
    assert refusal.reason.startswith("line by line line by line")
    assert len(refusal.reason) == 1000


def test_a_nova_style_weigher_is_asked_for_the_hosts_that_are_left():
    weigher = Favourite(h1=1, h3=2)
    decision = decide(
        hosts_with("free_ram_mb", THREE), Request(a_request(), ["u"]), Plan([Drop("h2")], [weigher])
    )
    assert decision.placements[0].chosen.host == "h3"
    assert sorted(weigher.asked) == ["h1", "h3"]


def test_a_weigher_may_have_a_multiplier_for_each_host():
    hosts = hosts_with("vcpus_total", {"h1": 1, "h2": 10, "h3": 2})
    placement = decide(hosts, Request(a_request(), ["u"]), Plan((), [Tens()])).placements[0]
    # Scaled they are 0, 0.5 and 1.
    assert {each.host: each.total for each in placement.weighed} == {"h1": 0, "h2": 5, "h3": 2}


class Smallest(BaseHostWeigher):
    """What a site may have written for Newton, whose multipliers were for all hosts alike."""

    def __init__(self, multiplier):
        super().__init__()
        self.own = multiplier

    def weight_multiplier(self):
        return self.own

    def _weigh_object(self, host_state, weight_properties):
        return -host_state.free_ram_mb


@pytest.mark.parametrize(
    ("multiplier", "totals"),
    [
        (3.0, {"h1": 2, "h2": 0, "h3": 3}),
        (-3.0, {"h1": -2, "h2": 0, "h3": -3}),
        ("1.5", {"h1": 1, "h2": 0, "h3": 1.5}),
        (0, {"h1": 0, "h2": 0, "h3": 0}),
    ],
)
def test_a_weigher_may_have_one_multiplier_for_all_hosts(multiplier, totals):
    hosts = hosts_with("free_ram_mb", THREE)
    decision = decide(hosts, Request(a_request(), ["u"]), Plan((), [Smallest(multiplier)]))
    weighed = decision.placements[0].weighed
    assert {each.host: round(each.total, 9) for each in weighed} == totals
    assert decision.warnings == ()


@pytest.mark.parametrize("base", [BaseHostFilter, BaseHostWeigher])
def test_settings_are_those_that_the_class_declares(base):
    class Mine(base):
        most = 1
        options = (("most", "mine", "most"),)

    assert Mine().most == 1
    assert Mine(most=2).most == 2
    with pytest.raises(TypeError, match="Mine has no setting least, more"):
        Mine(more=1, least=1)
    assert Mine().name == "Mine"
