# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the decision where instances go, and where they would go if their place died."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.standby import NONE, PREFERRED, REQUIRED, OwnStandby, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision.evacuations import is_alive
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.standby_room import MOST_DOMAINS, NO_STANDBY, StandbyRoom
from scheduler.decision.standbys import decide, evacuation_spec
from scheduler.decision.types import MovedStandby, OtherStandby
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.different_host import DifferentHostFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.history.tagged_json import decode, encode
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import Destination, SchedulerRetries, TriedHost
from scheduler.weighers.ram import RAMWeigher
from tests.builders import INSTANCE, a_group, a_request
from tests.hosts import a_host, a_table, an_aggregate

FILTERS = ComputeFilter(), RamFilter(), CoreFilter(), ServerGroupAntiAffinityFilter()
PLAN = Plan(FILTERS, [RAMWeigher()])
RACKS = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
OTHER = "00000000-0000-0000-1111-000000000002"


def hosts(**free):
    """Return hosts in racks, with so much free memory."""
    found = a_table(
        *(
            a_host(
                host,
                free_ram_mb=free.get(host, 8192),
                aggregates=[an_aggregate(failure_domain=rack)],
            )
            for host, rack in RACKS.items()
        )
    )
    for number, row in enumerate(sorted(found.rows())):
        found.set(row, "node_id", number + 1)
    return found


def decided(table, mode=REQUIRED, uuids=(INSTANCE,), plan=PLAN, spec=None, **known):
    request = Request(spec or a_request(), list(uuids), protection=Protection(mode, **known))
    return decide(table, request, plan, request.protection)


def places(decision):
    """Return (host, host of the standby) of each instance."""
    return [
        (each.chosen.host, each.standby.host and each.standby.host.host)
        for each in decision.placements
    ]


def test_a_standby_is_on_the_best_host_of_another_failure_domain():
    found = decided(hosts(a1=32768, a2=30000, b1=16384))
    assert places(found) == [("a1", "b1")]
    standby = found.placements[0].standby
    assert (standby.domains, standby.size) == (("a",), (2, 2048, 20 * 1024))
    assert standby.more == standby.size
    assert standby.host.limits["memory_mb"] == 65536


def test_it_goes_where_it_shares_what_is_held_for_others():
    sums = {4: {"b": (2, 2048, 20480)}}
    found = decided(hosts(a1=32768, b1=16384), sums=sums)
    assert places(found) == [("a1", "c1")]
    assert found.placements[0].standby.more == (0, 0, 0)


def test_it_shares_nothing_with_its_own_domain():
    sums = {4: {"a": (2, 2048, 20480)}}
    assert places(decided(hosts(a1=32768, b1=16384), sums=sums)) == [("a1", "b1")]


def test_where_all_is_shared_a_full_host_will_do():
    free = {"a1": 32768, "b1": 0, "c1": 100}
    assert decided(hosts(**free)).shortage
    sums = {4: {"b": (2, 2048, 20480)}}
    assert places(decided(hosts(**free), sums=sums)) == [("a1", "c1")]


def test_it_is_packed_beside_those_of_its_own_domain():
    """What is held for others alone counts as free, as it would be when the standby is needed."""
    plan = replace(PLAN, weighers=[RAMWeigher(multiplier=-1.0)])
    sums = {3: {"d": (8, 8192, 81920)}, 4: {"d": (8, 8192, 81920), "a": (2, 2048, 20480)}}
    # b1 has less left, but after the death of rack a c1 has: 11144 MB, not 12288.
    found = decided(hosts(a1=2048, a2=0, b1=4096, c1=5000), sums=sums, plan=plan)
    assert places(found) == [("a1", "c1")]
    found = decided(hosts(a1=2048, a2=0, b1=4096, c1=8192), sums=sums, plan=plan)
    assert places(found) == [("a1", "b1")]


@given(
    free=st.tuples(*[st.integers(0, 16384)] * 2),
    held=st.tuples(*[st.dictionaries(st.sampled_from("ad"), st.integers(1, 8192))] * 2),
)
@example((0, 16384), ({"d": 8192}, {}))
def test_it_adds_least_and_nothing_else_is_consumed(free, held):
    b1, c1 = free
    sums = {
        node: {domain: (0, memory_mb, 0) for domain, memory_mb in each.items()}
        for node, each in zip((3, 4), held, strict=True)
    }
    adds = [max(each.get("a", 0) + 2048 - max(each.values(), default=0), 0) for each in held]
    fitting = [more for more, room in zip(adds, free, strict=True) if more <= room]
    table = hosts(a1=32768, a2=0, b1=b1, c1=c1)
    found = decided(table, mode=PREFERRED, sums=sums, plan=replace(PLAN, filters=FILTERS[:2]))
    after = [table.get(row, "free_ram_mb") for row in (2, 3)]
    standby = found.placements[0].standby
    assert (standby.host is not None) == bool(fitting)
    assert sum(free) - sum(after) == standby.more[1] == min(fitting, default=0)


def test_a_host_with_standbys_of_many_domains_takes_one_more_only_where_no_other_can():
    many = {f"rack{number}": (2, 2048, 20480) for number in range(MOST_DOMAINS)}
    assert places(decided(hosts(a1=32768), sums={4: many})) == [("a1", "b1")]
    assert places(decided(hosts(a1=32768, b1=0), sums={4: many})) == [("a1", "c1")]
    many.popitem()
    assert places(decided(hosts(a1=32768), sums={4: many})) == [("a1", "c1")]


def test_instances_of_one_request_add_up():
    table = hosts(a1=32768, a2=0, b1=4000, c1=3000)
    found = decided(table, uuids=[INSTANCE, OTHER])
    assert places(found) == [("a1", "b1"), ("a1", "c1")]


def test_without_a_standby_a_required_instance_is_refused():
    found = decided(hosts(a1=32768, b1=0, c1=0))
    assert not found.placements
    assert found.shortage.reason == f"A place was found, but {NO_STANDBY}."
    assert found.shortage.steps[-1].after == 0


def test_without_a_standby_a_preferred_instance_is_placed():
    found = decided(hosts(a1=32768, b1=0, c1=0), mode=PREFERRED)
    assert places(found) == [("a1", None)]
    assert found.placements[0].standby.reason == NO_STANDBY


def test_without_a_place_nothing_is_said_of_standbys():
    found = decided(hosts(a1=0, a2=0, b1=0, c1=0))
    assert found.shortage.reason == "There are not enough hosts available."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"numa_topology": InstanceNUMATopology([InstanceNUMACell(0, 2048)])},
            "NUMA cells and PCI devices",
        ),
        ({"needs_placement": True}, "only Placement knows"),
        ({"instance_group": a_group("affinity")}, "have to share a host"),
    ],
)
def test_what_cannot_be_exact_is_not_promised(changes, words):
    plan = replace(PLAN, filters=FILTERS[:3])
    spec = a_request(**changes)
    found = decided(hosts(), spec=spec, plan=plan)
    assert words in found.shortage.reason
    assert "cannot be protected" in found.shortage.reason
    found = decided(hosts(), mode=PREFERRED, spec=spec, plan=plan)
    assert words in found.placements[0].standby.reason


def test_an_instance_that_gets_a_whole_node_is_not_protected():
    table = hosts()
    for row in table.rows():
        table.set(row, "hypervisor_type", "ironic")
    assert "cannot be protected" in decided(table).shortage.reason


def test_members_of_a_group_have_their_standbys_apart():
    spec = a_request(instance_group=a_group(members=[INSTANCE, OTHER]))
    found = decided(hosts(a1=32768, a2=30000), uuids=[INSTANCE, OTHER], spec=spec)
    assert {host for host, _ in places(found)} == {"a1", "a2"}
    assert {standby for _, standby in places(found)} == {"b1", "c1"}
    spec.instance_group.hosts = ["b1"]
    found = decided(hosts(a1=32768, b1=16384), spec=spec)
    assert places(found) == [("a1", "c1")]


def an_other(**changes):
    """Return the standby of another member, whose place is on a2."""
    fields = {
        **{"row_id": 7, "instance_uuid": OTHER, "member": OTHER, "of_place": False},
        **{"place_node_id": 2, "node_id": 3, "host": "b1", "domains": ("a",), "mode": REQUIRED},
        **{"size": (2, 2048, 20480), "project_id": "p", "spec": a_request(instance_uuid=OTHER)},
    }
    return OtherStandby(**fields | changes)


def beside(others, mode=NONE, most=1, uuids=(INSTANCE,), **free):
    """Decide where members go beside another one on a2, whose standby is on b1."""
    rules = {"max_server_per_host": most}
    group = a_group(members=[*uuids, OTHER], hosts=["a2"] * most + ["b1"] * most, rules=rules)
    spec = a_request(instance_group=group, ignore_hosts=["a1"])
    table = hosts(**free)
    sums = {3: {"a": (2, 2048, 20480)}}
    protection = Protection(mode, sums)
    request = Request(spec, [*uuids], protection=protection, others=others)
    return decide(table, request, PLAN, protection), table


def moves(decision):
    """Return the hosts of each standby that has moved, before and after."""
    return [(each.before.host, each.after.host and each.after.host.host) for each in decision.moved]


def test_a_member_goes_elsewhere_rather_than_to_the_standby_of_another():
    found, _ = beside([an_other()])
    assert places_alone(found) == ["c1"]
    assert found.moved == ()


def places_alone(decision):
    return [each.chosen.host for each in decision.placements]


def test_a_standby_of_another_member_makes_room_for_one_that_has_no_other_host():
    table = hosts()
    spec = a_request(
        instance_group=a_group(members=[INSTANCE, OTHER], hosts=["a2", "b1"]),
        requested_destination=Destination(host="b1"),
    )
    protection = Protection(NONE, {3: {"a": (2, 2048, 20480)}})
    request = Request(spec, [INSTANCE], protection=protection, others=(an_other(),))
    found = decide(table, request, PLAN, protection)
    assert (places_alone(found), moves(found)) == (["b1"], [("b1", "c1")])
    # b1 has the instance in place of the standby, and c1 has the standby.
    assert [table.get(row, "free_ram_mb") for row in (2, 3)] == [8192, 6144]


@pytest.mark.parametrize(
    "other",
    [
        an_other(),
        an_other(mode=PREFERRED, of_place=True),
        # Of a host that is not there any more nobody knows what fails with it.
        an_other(mode=PREFERRED, place_node_id=99),
        an_other(mode=PREFERRED, node_id=99),
    ],
)
def test_a_member_is_refused_where_a_standby_cannot_make_room(other):
    found, _ = beside([other], c1=0)
    assert places_alone(found) == []
    assert found.shortage.steps[-1].name == "ServerGroupAntiAffinityFilter"


def test_a_standby_that_is_not_required_is_given_up_where_it_cannot_move():
    found, table = beside([an_other(mode=PREFERRED)], c1=0)
    assert (places_alone(found), moves(found)) == (["b1"], [("b1", None)])
    assert found.moved[0].after.reason == NO_STANDBY
    assert table.get(2, "free_ram_mb") == 8192


def test_those_that_can_move_do_before_one_is_given_up():
    third = "00000000-0000-0000-1111-000000000003"
    first = an_other(mode=PREFERRED, size=(2, 16384, 20480), spec=a_request(memory_mb=16384))
    second = an_other(row_id=8, instance_uuid=third, member=third)
    table = hosts()
    group = a_group(
        members=[INSTANCE, OTHER, third], hosts=["b1", "b1"], rules={"max_server_per_host": 2}
    )
    spec = a_request(instance_group=group, requested_destination=Destination(host="b1"))
    protection = Protection(NONE, {3: {"a": (4, 18432, 40960)}})
    request = Request(spec, [INSTANCE], protection=protection, others=(first, second))
    found = decide(table, request, PLAN, protection)
    assert [each.before.row_id for each in found.moved] == [8]
    assert moves(found) == [("b1", "c1")]


def kept_apart(other, mode=NONE, group=None):
    """Decide for an instance that has to be on b1, where another one has its standby."""
    table = hosts()
    spec = a_request(
        requested_destination=Destination(host="b1"), kept_apart={"b1"}, instance_group=group
    )
    protection = Protection(mode, {3: {"a": (2, 2048, 20480)}})
    request = Request(spec, [INSTANCE], protection=protection, others=(other,))
    plan = replace(PLAN, filters=(*FILTERS, DifferentHostFilter()))
    return decide(table, request, plan, protection)


@pytest.mark.parametrize("policy", [None, "anti-affinity", "affinity"])
def test_a_standby_that_a_hint_keeps_apart_makes_room(policy):
    group = a_group(policy, members=[INSTANCE]) if policy else None
    found = kept_apart(an_other(by_hint=True), group=group)
    assert (places_alone(found), moves(found)) == (["b1"], [("b1", "c1")])


def test_one_that_a_hint_keeps_apart_may_be_a_member_of_the_same_group():
    group = a_group(members=[INSTANCE, OTHER], hosts=["a2", "b1"])
    spec = a_request(instance_uuid=OTHER, instance_group=group)
    found = kept_apart(an_other(by_hint=True, spec=spec), PREFERRED, group)
    assert (places(found), moves(found)) == ([("b1", "a1")], [("b1", "c1")])


@pytest.mark.parametrize("mode", [REQUIRED, PREFERRED])
def test_one_of_another_group_stays_where_it_is(mode):
    spec = a_request(instance_group=a_group(uuid="another"))
    assert kept_apart(an_other(by_hint=True, mode=mode, spec=spec)).shortage


def test_one_that_a_hint_keeps_apart_is_given_up_only_if_it_may_be():
    spec = a_request(memory_mb=65536)
    size = (2, 65536, 20480)
    given_up = kept_apart(an_other(by_hint=True, mode=PREFERRED, spec=spec, size=size))
    assert moves(given_up) == [("b1", None)]
    refused = kept_apart(an_other(by_hint=True, spec=spec, size=size))
    assert refused.shortage.steps[-1].name == "DifferentHostFilter"


def test_a_protected_member_has_its_standby_apart_from_one_that_has_moved():
    table = hosts(a1=0, a2=0)
    group = a_group(members=[INSTANCE, OTHER], hosts=["a2", "b1"])
    spec = a_request(instance_group=group, requested_destination=Destination(host="b1"))
    protection = Protection(PREFERRED, {3: {"a": (2, 2048, 20480)}})
    request = Request(spec, [INSTANCE], protection=protection, others=(an_other(),))
    found = decide(table, request, PLAN, protection)
    assert moves(found) == [("b1", "c1")]
    assert places(found) == [("b1", None)]


def own(**changes):
    fields = {"place_node_id": 1, "node_id": 4, "size": (2, 2048, 20480), "is_seen": True}
    return OwnStandby(INSTANCE, **fields | changes)


def dying(**free):
    table = hosts(**free)
    table.set(0, "forced_down", True)
    return table


def test_after_the_death_of_its_host_an_instance_goes_to_its_standby():
    """Where all that is free is held for it."""
    found = decided(dying(a2=0, b1=65536, c1=0), own=(own(used=(14, 63488, 0)),))
    assert places(found) == [("c1", "b1")]
    assert found.placements[0].standby.evacuates == 1


def test_it_goes_elsewhere_where_its_standby_does_not_pass_any_more():
    full = own(used=(15, 63488, 0))
    table = dying(a2=0, b1=65536, c1=5)
    found = decided(table, own=(full,), mode=PREFERRED)
    assert places(found) == [("b1", None)]
    assert found.placements[0].standby.evacuates == 1
    assert table.get(3, "free_ram_mb") == 5


@pytest.mark.parametrize("changes", [{"node_id": None}, {"node_id": 99}, {"size": (1, 2048, 0)}])
def test_it_goes_elsewhere_without_a_standby_or_with_one_that_is_too_small(changes):
    found = decided(dying(c1=0), own=(own(**changes),))
    assert found.placements[0].chosen.host != "c1"


def test_a_host_that_the_caller_names_comes_first():
    spec = a_request(requested_destination=Destination(host="b1"))
    assert decided(dying(), own=(own(),), spec=spec).placements[0].chosen.host == "b1"
    spec = a_request(requested_destination=Destination(host="c1"))
    assert decided(dying(c1=0), own=(own(),), spec=spec).placements[0].chosen.host == "c1"


def test_as_long_as_its_host_is_alive_a_move_leaves_the_standby_alone():
    found = decided(hosts(c1=0), own=(own(),), spec=a_request(ignore_hosts=["a1"]))
    assert found.placements[0].chosen.host != "c1"
    assert found.placements[0].standby.evacuates is None


@pytest.mark.parametrize(("ignored", "host"), [(["A1"], "c1"), (["b1"], "a2"), (None, "c1")])
def test_it_is_the_host_to_ignore_that_an_instance_has_lost(ignored, host):
    spec = a_request(ignore_hosts=ignored)
    found = decided(dying(b1=0, c1=0), mode=PREFERRED, own=(own(),), spec=spec)
    assert found.placements[0].chosen.host == host


@pytest.mark.parametrize("changes", [{}, {"retry": SchedulerRetries(2, [TriedHost("a1", "a1")])}])
def test_an_instance_that_was_to_come_to_a_dead_host_has_lost_nothing(changes):
    """A build that is asked for again, because its host has failed or for want of an answer."""
    spec, unseen = a_request(**changes), own(is_seen=False)
    assert decided(dying(a2=0, b1=0, c1=0), own=(unseen,), spec=spec).placements == ()
    assert decided(dying(a2=0, b1=0), own=(unseen,), spec=spec).placements == ()
    assert places(decided(dying(a2=0), own=(unseen,), spec=spec)) == [("b1", "c1")]


def test_a_resize_that_may_stay_on_its_host_has_lost_nothing():
    spec = a_request(ignore_hosts=[])
    assert decided(dying(a2=0, b1=0, c1=0), own=(own(),), spec=spec).placements == ()


@pytest.mark.parametrize("ignored", [["a1"], ["b1", "a1"]])
def test_an_instance_that_runs_without_having_been_seen_has_lost_the_host_that_is_named(ignored):
    spec = a_request(ignore_hosts=ignored)
    found = decided(dying(a2=0, b1=0, c1=0), own=(own(is_seen=False),), spec=spec)
    assert places(found) == [("c1", None)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_move_has_not_lost_the_hosts_that_it_has_tried(is_first):
    """The one that it names besides that of the instance is dead, the other one is not."""
    table = hosts(b1=0, c1=0)
    table.set(1, "forced_down", True)
    both = own(node_id=3), own(place_node_id=2, is_seen=False)
    both = both if is_first else both[::-1]
    assert decided(table, own=both, spec=a_request(ignore_hosts=["a1", "a2"])).placements == ()
    # Which it has, if it has come there before it died.
    found = decided(table, own=both, spec=a_request(ignore_hosts=["a2"]))
    assert found.placements[0].chosen.host == "c1"


def test_an_instance_on_a_move_has_lost_the_host_where_it_was_seen():
    here, coming = own(), own(place_node_id=2, node_id=3, is_seen=False)
    for both in ((here, coming), (coming, here)):
        for ignored in (["a1"], None):
            found = decided(dying(b1=0, c1=0), own=both, spec=a_request(ignore_hosts=ignored))
            assert found.placements[0].chosen.host == "c1"
            assert found.placements[0].standby.evacuates == 1


def test_an_instance_that_has_lost_its_place_is_placed_without_a_standby_too():
    found = decided(dying(a2=0, b1=0, c1=0), own=(own(),))
    assert places(found) == [("c1", None)]


def test_a_host_that_is_gone_is_lost():
    """The node of the lost place is deleted, so no row of an instance is joined to it."""
    gone, spec = own(place_node_id=77, is_seen=False), a_request(ignore_hosts=["a7"])
    assert places(decided(hosts(c1=0), own=(gone,), spec=spec))[0][0] == "c1"
    assert places(decided(hosts(c1=0), own=(gone,)))[0][0] != "c1"


def test_the_request_to_evacuate_names_no_hosts():
    spec = a_request(
        ignore_hosts=["a1"],
        force_hosts=["b1"],
        force_nodes=["b1"],
        retry=SchedulerRetries(),
        requested_destination=Destination(host="b1", node="b1", aggregates=["x"]),
        offered_nodes={"u"},
        refused_nodes={"v"},
    )
    found = evacuation_spec(spec, OTHER)
    assert (found.ignore_hosts, found.force_hosts, found.force_nodes) == (None, None, None)
    assert (found.retry, found.offered_nodes, found.refused_nodes) == (None, None, set())
    assert found.requested_destination == Destination(aggregates=["x"])
    assert found.instance_uuid == OTHER
    assert spec.force_hosts == ["b1"]


def test_a_forced_host_has_a_standby_by_all_filters():
    spec = a_request(force_hosts=["a1"])
    assert places(decided(hosts(b1=0), spec=spec)) == [("a1", "c1")]


def test_a_host_is_alive_by_the_filter_of_the_plan():
    table = hosts()
    table.set(0, "heartbeat_age", 100.0)
    assert not is_alive(table, PLAN, 0)
    assert not is_alive(table, Plan(), 0)
    assert is_alive(table, Plan([ComputeFilter(service_down_time=200)]), 0)


def test_a_host_passes_while_all_that_its_domain_would_bring_has_room():
    table = hosts(c1=0)
    room = StandbyRoom(table, Protection("", {4: {"a": (2, 2048, 0), "b": (4, 4096, 0)}}))
    spec = a_request()
    assert not room.is_over(3)
    assert room.passes(3, spec, PLAN, ["b"])
    # What is used besides has grown: there is room for one of them only.
    table.set(3, "free_ram_mb", -1024)
    assert room.is_over(3)
    assert room.passes(3, spec, PLAN, ["a"])
    assert not room.passes(3, spec, PLAN, ["b"])
    room.give_back(3, ["b"], (4, 4096, 0))
    assert not room.is_over(3)
    assert table.get(3, "free_ram_mb") == 1024


def test_standbys_of_rows_add_up_by_node_and_domain():
    rows = [(1, "a,power", (1, 10, 5)), (1, "a", (2, 20, 5)), (2, "b", (1, 1, 1))]
    assert StandbyRoom.sums_of(rows) == {
        1: {"a": (3, 30, 10), "power": (1, 10, 5)},
        2: {"b": (1, 1, 1)},
    }


def test_of_nodes_that_are_gone_nothing_is_known():
    room = StandbyRoom(HostTable(), Protection("", {4: {"a": (1, 1, 1)}}))
    assert room.own_hosts() == []
    gone = replace(own(), node_id=99)
    room = StandbyRoom(hosts(), Protection("", {99: {"a": (1, 1, 1)}}, (gone, own())))
    assert room.own_hosts() == ["c1"]
    assert room.held_on(1) == (0, 0, 0)


def test_a_protected_decision_can_be_saved():
    sums = NodeSums({4: {"b": (2, 2048, 20480)}})
    others = (an_other(),)
    protection = Protection(REQUIRED, sums, (own(),))
    request = Request(a_request(), [INSTANCE], protection=protection, others=others)
    assert decode(encode(request)) == request
    decision = decide(dying(), replace(request, others=()), PLAN, request.protection)
    decision = replace(decision, moved=(MovedStandby(*others, decision.placements[0].standby),))
    assert decode(encode(decision)) == decision


@pytest.mark.parametrize("text", ["[1]", "3", "{", '{"a": {}}', '{"1": {"b": [1, 2]}}', '{"1": 5}'])
def test_sums_that_nobody_has_saved_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        decode({"=NodeSums": text})
