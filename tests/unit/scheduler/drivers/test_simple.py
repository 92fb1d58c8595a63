# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.drivers.simple."""

import pytest

from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.simple import ALL_FULL, NONE_UP, NOT_THERE, SimpleScheduler
from scheduler.objects.request_spec import Destination
from tests.builders import IMAGE, a_request, an_image
from tests.hosts import a_host, a_table, in_aggregates
from tests.plugins import Drop
from tests.refusals import refusals

# The configured filters have no say.
PLAN = Plan([Drop("a", "b", "c")])
ISOLATING = {"isolated_images": [IMAGE], "isolated_hosts": ["a"]}
ORDINARY, ISOLATED = an_image(id="another"), an_image()
DOWN = {"heartbeat_age": 75.0}
REBUILD = {"_nova_check_type": ["rebuild"]}


def used(host, vcpus, zones=(), **more):
    """Return a host with that many vCPUs in use."""
    aggregates = in_aggregates("availability_zone", zones)
    return a_host(host, vcpus_used=vcpus, aggregates=aggregates, **more)


def place(hosts, vcpus=1, count=1, settings=None, by_admin=False, **changes):
    driver = SimpleScheduler(PLAN, **settings or {})
    uuids = [f"u{each}" for each in range(count)]
    spec = a_request(vcpus=vcpus, **changes)
    return driver.decide(a_table(*hosts), Request(spec, uuids, by_admin=by_admin))


def chosen(decision):
    """Return the hosts, or the reason why there are none."""
    if decision.shortage:
        assert decision.placements == ()
        return decision.shortage.reason
    return "".join(each.chosen.host for each in decision.placements)


@pytest.mark.parametrize(
    ("hosts", "vcpus", "settings", "changes", "expected"),
    [
        ([used("a", 4), used("b", 2), used("c", 9)], 2, {}, {}, "b"),
        ([used("a", 15), used("b", 16)], 2, {}, {}, ALL_FULL),
        ([used("a", 0), used("b", 3)], 1, ISOLATING, {"image": ORDINARY}, "b"),
        ([used("b", 2, **DOWN), used("a", 4)], 1, {}, {}, "a"),
        ([used("a", 1), used("c", 9, ["z2"])], 1, {}, {"availability_zone": "z2"}, "c"),
        # The bound is not that of the host's CPUs, and is reached exactly.
        ([used("a", 14)], 2, {}, {}, "a"),
        ([used("a", 15, vcpus_total=64)], 2, {}, {}, ALL_FULL),
        ([used("a", 15, vcpus_total=2)], 1, {}, {}, "a"),
        ([used("a", 15)], 2, {"max_cores": 17}, {}, "a"),
        # Neither memory nor disk count, and of equal hosts the first is taken.
        ([used("a", 0), used("b", 0)], 1, {}, {"memory_mb": 10**9, "root_gb": 10**6}, "a"),
        # One that is down is passed over, even when it has the fewest; it is not what is full.
        ([used("a", 15), used("b", 16, **DOWN)], 1, {}, {}, "a"),
        ([used("a", 0, service_disabled=True), used("b", 3)], 1, {}, {}, "b"),
        ([used("a", 0, **DOWN)], 1, {}, {}, NONE_UP),
        ([used("a", 0, **DOWN)], 1, {"service_down_time": 90}, {}, "a"),
        ([used("a", 0, unserved=True)], 1, {}, {}, NONE_UP),
        ([], 1, {}, {}, NONE_UP),
    ],
)
def test_worked_cases(hosts, vcpus, settings, changes, expected):
    assert chosen(place(hosts, vcpus, settings=settings, **changes)) == expected


@pytest.mark.parametrize(
    ("image", "settings", "expected"),
    [
        (ISOLATED, {}, "a"),
        (ORDINARY, {}, "b"),
        (None, {}, "b"),
        # An isolated image may exceed the bound, unless it may not.
        (ISOLATED, {"max_cores": 1}, "a"),
        (ISOLATED, {"max_cores": 1, "skip_isolated_core_check": False}, ALL_FULL),
        (ORDINARY, {"max_cores": 1}, ALL_FULL),
        # Without isolated images the isolated hosts stay empty.
        (ISOLATED, {"isolated_images": []}, "b"),
        (ISOLATED, {"isolated_hosts": ["A"]}, NONE_UP),
        (ISOLATED, {"isolated_images": [], "isolated_hosts": []}, "a"),
    ],
)
def test_isolation(image, settings, expected):
    hosts = [used("a", 2), used("b", 3)]
    assert chosen(place(hosts, settings=ISOLATING | settings, image=image)) == expected


IN_ZONES = [used("a", 1), used("b", 3, ["z1"]), used("c", 9, ["z2"])]


@pytest.mark.parametrize(
    ("zone", "settings", "expected"),
    [
        (None, {}, "a"),
        ("", {}, "a"),
        (None, {"default_schedule_zone": "z1"}, "b"),
        ("z2", {"default_schedule_zone": "z1"}, "c"),
        # As AvailabilityZoneFilter sees it.
        ("nova", {}, "a"),
        ("home", {"default_zone": "home"}, "a"),
        ("nova", {"default_zone": "home"}, NONE_UP),
        ("z9", {}, NONE_UP),
    ],
)
def test_zones(zone, settings, expected):
    assert chosen(place(IN_ZONES, availability_zone=zone, settings=settings)) == expected


@pytest.mark.parametrize(
    ("zone", "by_admin", "expected"),
    [
        ("z1:c", True, "c"),
        ("z1:c", False, "b"),
        (":c", True, "c"),
        (":c", False, "a"),
        ("z1:", True, "b"),
        ("z1:d", True, NOT_THERE),
        ("z1:d", False, "b"),
    ],
)
def test_an_administrator_may_name_the_host_in_the_zone(zone, by_admin, expected):
    assert chosen(place(IN_ZONES, availability_zone=zone, by_admin=by_admin)) == expected


@pytest.mark.parametrize(
    "target",
    [
        {"availability_zone": "z9:a", "by_admin": True},
        {"force_hosts": ["A"], "availability_zone": "z9"},
        {"force_nodes": ["a"]},
        # What is forced is resolved already.
        {"force_hosts": ["a"], "availability_zone": "z9:b", "by_admin": True},
    ],
)
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        # Nothing but that it is alive is asked of it.
        ({"vcpus": 99}, "aa"),
        ({"vcpus": 0, "service_disabled": True}, "aa"),
        ({"vcpus": 0, "forced_down": True}, NOT_THERE),
        ({"vcpus": 0, **DOWN}, NOT_THERE),
        ({"vcpus": 0, "unserved": True}, NOT_THERE),
    ],
)
def test_a_named_host_need_only_be_alive(target, state, expected):
    hosts = [used("b", 0), used("a", **state)]
    found = place(hosts, count=2, settings={"isolated_hosts": ["a"]}, **target)
    assert chosen(found) == expected
    steps = found.shortage.steps if found.shortage else found.placements[0].steps
    assert steps[-1].name == "alive"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ignore_hosts": ["A"]}, "b"),
        ({"ignore_hosts": ["a", "b", "c"]}, NONE_UP),
        ({"requested_destination": Destination(host="c")}, "c"),
        ({"requested_destination": Destination(host="d")}, "No such host - host: d node:  "),
        ({"force_hosts": ["a"], "ignore_hosts": ["a"]}, NOT_THERE),
    ],
)
def test_what_a_request_says_about_hosts_by_name_counts(changes, expected):
    assert chosen(place(IN_ZONES, **changes)) == expected


def test_each_instance_counts_for_the_next_one():
    hosts = [used("a", 4), used("b", 1), used("c", 5)]
    assert chosen(place(hosts, vcpus=2, count=4)) == "bbab"


def test_the_request_fails_as_a_whole_and_tells_for_which_instance():
    decision = place([used("a", 12), used("b", 13)], vcpus=2, count=4)
    assert chosen(decision) == ALL_FULL
    assert (decision.shortage.index, decision.shortage.instance_uuid) == (3, "u3")
    assert [str(each) for each in decision.shortage.steps] == [
        "ComputeFilter 2->2",
        "AvailabilityZoneFilter 2->2",
        "IsolatedHostsFilter 2->2",
        "max_cores 2->0",
    ]


def test_the_nodes_of_a_host_count_together():
    nodes = [used("a", 3, nodename="n1"), used("a", 2, nodename="n2")]
    assert chosen(place([*nodes, used("b", 4)])) == "b"
    (placement,) = place([*nodes, used("b", 6)]).placements
    assert (placement.chosen.host, placement.chosen.nodename) == ("a", "n2")
    # One that is not to be chosen counts too.
    ignored = place([*nodes, used("b", 4)], force_nodes=["n1", "b"])
    assert chosen(ignored) == "b"


def test_a_decision_has_steps_and_the_bound_as_its_limit():
    decision = place([used("a", 4, uuid="node"), used("b", 2)], ignore_hosts=["b"])
    (placement,) = decision.placements
    assert (placement.instance_uuid, placement.chosen.uuid) == ("u0", "node")
    assert (placement.chosen.limits, placement.chosen.weight) == ({"vcpu": 16.0}, -4.0)
    assert (decision.hosts, decision.warnings) == (2, ())
    assert str(placement.steps[0]) == "ignore_hosts 2->1"


def test_the_limit_of_a_node_leaves_what_others_of_its_host_have_in_use():
    nodes = [used("a", 3, nodename="n1"), used("a", 2, nodename="n2")]
    first, second = place(nodes, vcpus=2, count=2).placements
    assert [each.chosen.limits for each in (first, second)] == [{"vcpu": 13.0}, {"vcpu": 12.0}]
    assert [each.chosen.nodename for each in (first, second)] == ["n2", "n1"]


@pytest.mark.parametrize(
    ("changes", "settings"), [({"force_hosts": ["a"]}, {}), ({"image": ISOLATED}, ISOLATING)]
)
def test_where_nothing_is_bounded_there_is_no_limit(changes, settings):
    (placement,) = place([used("a", 4)], settings=settings, **changes).placements
    assert placement.chosen.limits == {}


def test_an_instance_that_is_rebuilt_stays_unless_its_image_is_isolated():
    hosts = [used("a", 16, **DOWN), used("b", 99), used("c", 0)]
    rebuild = {"force_hosts": ["b"], "scheduler_hints": REBUILD, "settings": ISOLATING}
    assert chosen(place(hosts, **rebuild)) == "b"
    assert chosen(place(hosts, **rebuild, image=ORDINARY)) == "b"
    assert place(hosts, **rebuild, image=ISOLATED).shortage


def test_what_explains_it_are_its_own_rules():
    driver = SimpleScheduler(PLAN, **ISOLATING)
    hosts = a_table(*IN_ZONES, used("d", 0, ["z1"], **DOWN))
    found = refusals(hosts, a_request(availability_zone="z1"), driver.plan, most=9)
    assert [(each.host, each.filter) for each in found] == [
        ("a", "AvailabilityZoneFilter"),
        ("a", "IsolatedHostsFilter"),
        ("c", "AvailabilityZoneFilter"),
        ("d", "ComputeFilter"),
    ]
