# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.capacity: the truth is a loop of requests for one instance each."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import cycle
from unittest import mock

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from inventory.objects.numa import InstanceNUMATopology
from scheduler.analysis.diagnosis import count_first_refusals, refusals
from scheduler.decision import pipeline
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import FakeScheduler
from scheduler.drivers.simple import SimpleScheduler
from scheduler.filters import BaseHostFilter
from scheduler.filters.aggregate_limits import AggregateCoreFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.filters.pci_passthrough import PciPassthroughFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.hosts.host_state import HostState
from scheduler.objects.request_spec import Destination
from scheduler.operators import capacity
from scheduler.operators.capacity import (
    ENDLESS,
    FEW,
    MAX_INSTANCES,
    Simulator,
    bulk_capacity,
    fill,
    fill_in_turns,
)
from scheduler.request_filters import IsolateAggregates
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.pci import PCIWeigher
from scheduler.weighers.ram import RAMWeigher
from scheduler.weighers.soft_affinity import ServerGroupSoftAffinityWeigher
from scheduler.weighers.soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher
from tests.builders import a_group, a_request
from tests.contract.drawn import hosts as odd_hosts
from tests.contract.drawn import requests as odd_requests
from tests.contract.test_filters import RULES
from tests.contract.test_weighers import MADE
from tests.devices import all_of, wanted
from tests.hosts import a_host, a_table, hosts_with, in_aggregates
from tests.numa import a_guest_cell
from tests.numa_drawn import guests, rooms

SOME = 25


class Loop:
    """Requests for one instance each, and what they take; see HostCache.consume()."""

    def __init__(self, table, simulator):
        self.table, self.simulator, self.number = table, simulator, 0

    def place(self, spec):
        """Return the row of an instance, None without a host, and what the next one asks for."""
        uuid = f"instance {self.number}"
        one = spec.for_instance(uuid)
        request = Request(one, [uuid], seed=self.number)
        decision = self.simulator.decide(self.table.working_copy(), request)
        self.number += 1
        if decision.shortage or not decision.placements:
            return None, spec
        chosen = decision.placements[0].chosen
        row = self.table.row_of(chosen.host, chosen.nodename)
        HostState.of(self.table, row).consume_from_request(one)
        if spec.instance_group:
            spec = spec.for_instance(None, [chosen.host])
            spec.instance_group.members.append(uuid)
        return row, spec


def looped(table, spec, simulator, most=SOME):
    loop, rows = Loop(table, simulator), Counter()
    for _ in range(most):
        row, spec = loop.place(spec)
        if row is None:
            return rows, True
        rows[row] += 1
    return rows, False


def looped_in_turns(table, specs, simulator, most=SOME):
    loop, rows = Loop(table, simulator), [Counter() for _ in specs]
    group = specs[0].instance_group
    for _, index in zip(range(most), cycle(range(len(specs))), strict=False):
        spec = specs[index].for_instance(None)
        if group:
            spec.instance_group = group
        row, after = loop.place(spec)
        if row is None:
            return rows, True
        rows[index][row] += 1
        group = after.instance_group
    return rows, False


def of(plan, **more):
    return Simulator(partial(pipeline.decide, plan=plan), plan, **more)


def filled(table, spec, simulator, most=SOME):
    filling = fill(table.working_copy(), spec, simulator, most)
    return filling.rows, filling.is_full


CHOICES = {"host_subset_size": st.integers(1, 3), "shuffle_best": st.booleans()}
SOFT = [ServerGroupSoftAntiAffinityWeigher(), ServerGroupSoftAffinityWeigher()]
RANDOM = st.fixed_dictionaries({}, optional=CHOICES)
BATCHES = st.sampled_from([2, 3, 1000])


def by_host(rows, fleet):
    """Return how many of the instances on these rows each host has."""
    return sum((Counter({fleet[row].host: count}) for row, count in rows.items()), Counter())


@given(
    odd_hosts(),
    odd_requests(),
    st.lists(st.sampled_from(RULES), max_size=8),
    st.lists(st.sampled_from(MADE), max_size=4),
    BATCHES,
)
def test_it_is_what_a_loop_of_requests_places_on_the_oddest_hosts(
    fleet, spec, rules, weighers, many
):
    plan = Plan(rules, weighers, request_filters=[IsolateAggregates(enabled=True)])
    with mock.patch.object(capacity, "MANY", many):
        found = filled(a_table(*fleet), spec, of(plan))
    assert found == looped(a_table(*fleet), spec, of(plan))
    event(f"{min(found[0].total(), 5)} instances, full: {found[1]}")


@st.composite
def fleets(draw):
    """Draw hosts with NUMA cells and devices, some alike, some with two nodes."""
    fleet = []
    for number in range(draw(st.integers(1, 4))):
        room = draw(rooms(most=2))
        ratio = draw(st.sampled_from(["1.0", "2.0", "0.5"]))
        facts = {
            "numa_topology": room.topology,
            "pci_stats": room.pools,
            "cpu_allocation_ratio": room.ratios.cpu,
            "ram_allocation_ratio": draw(st.sampled_from([1.0, 1.5])),
            "aggregates": in_aggregates("cpu_allocation_ratio", [ratio]),
            "vcpus_total": draw(st.integers(4, 12)),
            "total_usable_ram_mb": 16,
            "free_ram_mb": draw(st.integers(0, 16)),
            "service_disabled": draw(st.sampled_from([False, False, False, True])),
            "num_instances": draw(st.integers(0, 3)),
            "instances": draw(st.sampled_from([[], [], ["a"], ["b"]])),
        }
        nodes = draw(st.sampled_from([["n"], ["n"], ["n", "m"]]))
        # An instance is on one node of its host.
        fleet += [
            a_host(f"h{number}", node, **(facts if node == "n" else facts | {"instances": []}))
            for node in nodes
        ]
    return fleet


POLICIES = ["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]
GROUPS = st.builds(
    a_group,
    st.sampled_from(POLICIES),
    members=st.sampled_from([[], ["a"], ["a", "b"]]),
    rules=st.sampled_from([{}, {"max_server_per_host": 2}]),
)


@st.composite
def wishes(draw, cells=True):
    """Draw what instances ask for: a size, perhaps cells, devices, a group."""
    needs = draw(st.none() | guests(most=2)) if cells else None
    return a_request(
        vcpus=draw(st.integers(0, 3)),
        memory_mb=draw(st.integers(0, 4)),
        root_gb=draw(st.sampled_from([0, 100, 300])),
        numa_topology=needs and needs.topology,
        pci_requests=needs and all_of(*needs.devices),
        instance_group=draw(st.none() | GROUPS),
        extra_specs=draw(st.sampled_from([{}, {}, {"capabilities:free_ram_mb": ">= 4"}])),
    )


USUAL = [
    ComputeFilter(),
    RamFilter(),
    AggregateCoreFilter(),
    DiskFilter(),
    ComputeCapabilitiesFilter(),
    NUMATopologyFilter(),
    PciPassthroughFilter(),
    ServerGroupAntiAffinityFilter(),
    ServerGroupAffinityFilter(),
]
WEIGHERS = [RAMWeigher(), CPUWeigher(), PCIWeigher(), *SOFT]


@given(fleets(), wishes(), RANDOM, st.booleans(), BATCHES)
def test_it_is_what_a_loop_of_requests_places(fleet, spec, choice, is_bounded, many):
    rules = [*USUAL, NumInstancesFilter(most=4)] if is_bounded else USUAL
    plan = Plan(rules, WEIGHERS, **choice)
    with mock.patch.object(capacity, "MANY", many):
        rows, is_full = filled(a_table(*fleet), spec, of(plan))
    expected, was_full = looped(a_table(*fleet), spec, of(plan))
    assert is_full == was_full
    # Where it is drawn who is next, hosts get full all the same: on whichever of their nodes, where
    # a group is to have so many members on a host.
    assert rows == expected or (
        choice
        and rows.total() == expected.total()
        and (not is_full or by_host(rows, fleet) == by_host(expected, fleet))
    )
    event(f"{min(rows.total(), 9)} instances, full: {is_full}, group: {bool(spec.instance_group)}")


@given(fleets(), st.lists(wishes(cells=False), min_size=1, max_size=3), RANDOM, st.none() | GROUPS)
def test_several_kinds_in_turns_are_what_a_loop_places(fleet, specs, choice, group):
    plan = Plan(USUAL, WEIGHERS, **choice)
    for each in specs:
        each.instance_group = group
    fillings = fill_in_turns(a_table(*fleet).working_copy(), specs, of(plan), SOME)
    found = [each.rows for each in fillings], any(each.is_full for each in fillings)
    assert found == looped_in_turns(a_table(*fleet), specs, of(plan))


BY_RAM = Plan([RamFilter()], [RAMWeigher()])
SPEC = a_request(memory_mb=2048)


class Asked:
    """Decides, and remembers for how many instances it was asked to."""

    def __init__(self, plan):
        self.plan, self.counts, self.progress = plan, [], []
        self.simulator = Simulator(self.decide, plan, progress=self.progress.append)

    def decide(self, hosts, request):
        self.counts.append(len(request.instance_uuids))
        return pipeline.decide(hosts, request, self.plan)


def two_hosts():
    """Return hosts for 1889 and for 2 instances, and one for none."""
    hosts = hosts_with("free_ram_mb", {"A": 2048, "B": 5000, "C": 1})
    # 60 times 65536 MB, of which 63488 MB are in use.
    hosts.set(0, "ram_allocation_ratio", 60.0)
    return hosts


@pytest.mark.parametrize("choice", [{}, {"host_subset_size": 2}])
def test_where_hosts_can_be_counted_nothing_is_decided(choice):
    asked = Asked(Plan([ComputeFilter(), RamFilter()], [RAMWeigher()], **choice))
    hosts = two_hosts()
    filling = fill(hosts, SPEC, asked.simulator)
    assert (dict(filling.rows), filling.is_full) == ({0: 1889, 1: 2}, True)
    assert asked.counts == []
    # All of it is taken.
    assert hosts.free_ram_mb.tolist() == [2048 - 1889 * 2048, 904, 1]
    assert hosts.num_instances.tolist() == [1889, 2, 0]


@pytest.mark.parametrize(("most", "group"), [(1500, None), (None, "soft-affinity")])
def test_others_are_placed_by_decisions_that_grow(most, group):
    asked = Asked(Plan([RamFilter()], [RAMWeigher(), *SOFT]))
    spec = a_request(memory_mb=2048, instance_group=group and a_group(group))
    filling = fill(two_hosts(), spec, asked.simulator, most)
    assert filling.rows.total() == asked.progress[-1] == (most or 1891)
    assert asked.counts[:3] == [FEW, FEW, FEW]
    assert len(asked.counts) < 45
    # Nobody waits for one of them much longer than for all before.
    pairs = [*zip(asked.counts, asked.progress, strict=False)]
    assert all(count <= max(FEW, placed / 8) for count, placed in pairs)


@pytest.mark.parametrize(
    "spec", [SPEC, a_request(memory_mb=2048, instance_group=a_group("soft-affinity"))]
)
def test_counting_ends_when_it_may_not_go_on(spec):
    asked = Asked(Plan([RamFilter()], [RAMWeigher(), *SOFT]))
    turns = iter([True, True, False])
    simulator = replace(asked.simulator, may_go_on=lambda: next(turns))
    hosts = hosts_with("free_ram_mb", {"A": 90_000_000, "B": 90_000_000})
    filling = fill(hosts, spec, simulator)
    assert 0 < filling.rows.total() < 80_000
    assert not spec.instance_group or asked.counts == [FEW, FEW]
    assert not filling.is_full


def test_turns_end_when_they_may_not_go_on():
    turns = iter([True, True, False])
    simulator = replace(of(BY_RAM), may_go_on=lambda: next(turns))
    fillings = fill_in_turns(two_hosts(), [SPEC, SPEC], simulator, 100)
    assert [each.rows.total() for each in fillings] == [2, 1]
    assert not any(each.is_full for each in fillings)


def test_there_is_an_end_to_what_has_no_bound():
    asked = Asked(Plan([], [RAMWeigher()]))
    hosts = hosts_with("free_ram_mb", {"A": 1, "B": 1})
    filling = fill(hosts.working_copy(), SPEC, asked.simulator)
    assert (asked.counts, filling.is_full) == ([], False)
    assert min(filling.rows.values()) >= ENDLESS
    alone = a_request(memory_mb=0, instance_group=a_group("soft-affinity"))
    assert MAX_INSTANCES == 100_000
    with mock.patch.object(capacity, "MAX_INSTANCES", 2500):
        filling = fill(hosts, alone, Asked(Plan([RamFilter()])).simulator)
    assert (filling.rows.total(), filling.is_full) == (2500, False)


class Counting(RamFilter):
    """Count on how many cases it was asked."""

    asked = 0

    def mask(self, hosts, spec):
        self.asked += hosts.size
        return super().mask(hosts, spec)

    reads, row_local = RamFilter.reads, True


@pytest.mark.parametrize(("memory_mb", "most"), [(0, None), (0, 5), (1, 5)])
def test_no_more_is_counted_than_somebody_wants_to_know(memory_mb, most):
    rule = Counting()
    hosts = hosts_with("free_ram_mb", {"A": 90_000_000, "B": 90_000_000})
    spec = a_request(vcpus=1, memory_mb=memory_mb)
    found = bulk_capacity(hosts.working_copy(), spec, Plan([rule]), most)
    assert found.total > (most or ENDLESS)
    assert found.is_endless
    assert rule.asked < 50_000


def test_a_bound_is_kept_and_reported():
    hosts = hosts_with("free_ram_mb", {"A": 65536, "B": 65536})
    filling = fill(hosts.working_copy(), SPEC, of(BY_RAM), 5)
    assert (dict(filling.rows), filling.is_full) == ({0: 3, 1: 2}, False)
    exact = fill(hosts.working_copy(), SPEC, of(BY_RAM), 64)
    assert (exact.rows.total(), exact.is_full) == (64, False)
    assert fill(hosts.working_copy(), SPEC, of(BY_RAM), 65).is_full


@pytest.mark.parametrize(
    ("driver", "expected"), [(SimpleScheduler, {0: 8, 1: 8}), (FakeScheduler, {})]
)
def test_other_drivers_are_asked_for_one_at_a_time(driver, expected):
    hosts = hosts_with("free_ram_mb", {"A": 1, "B": 1})
    made = driver(Plan())
    filling = fill(hosts, SPEC, Simulator(made.decide, made.plan, one_by_one=True), 100)
    assert (dict(filling.rows), filling.is_full) == (expected, True)


def test_by_chance_there_is_no_end():
    hosts = hosts_with("free_ram_mb", {"A": 1, "B": 1})
    made = ChanceScheduler(Plan())
    simulator = Simulator(made.decide, made.plan, one_by_one=True)
    found = filled(hosts, SPEC, simulator, 50)
    assert (found[0].total(), found[1]) == (50, False)
    assert found[0].keys() == {0, 1}
    # In one request, as many hosts as there are instances would be drawn.
    assert found == looped(hosts, SPEC, simulator, 50)


@pytest.mark.parametrize("group", [None, "soft-affinity"])
def test_what_a_filter_is_asked_once_counts_for_each_request(group):
    hosts = hosts_with("free_ram_mb", {"A": 8192})
    plan = Plan([ComputeCapabilitiesFilter(), RamFilter()], [])
    extra_specs = {"capabilities:free_ram_mb": ">= 4096"}
    group = group and a_group(group)
    spec = a_request(memory_mb=2048, extra_specs=extra_specs, instance_group=group)
    assert filled(hosts, spec, of(plan)) == ({0: 3}, True)
    # Instances are no column, but they are what each request changes.
    spec.flavor.extra_specs.clear()
    spec.flavor.extra_specs["capabilities:instances:new instance 1"] = "s!= x"
    assert filled(hosts, spec, of(plan)) == looped(hosts, spec, of(plan))


CELLS = InstanceNUMATopology([a_guest_cell()])


@pytest.mark.parametrize(
    ("host", "wish"),
    [
        ({}, {"instance_group": a_group("affinity")}),
        ({}, {"numa_topology": CELLS}),
        ({}, {"pci_requests": all_of(wanted())}),
        ({}, {"scheduler_hints": {"_nova_check_type": ["rebuild"]}}),
        ({"hypervisor_type": "ironic"}, {}),
    ],
)
def test_hosts_are_not_counted_side_by_side_where_more_than_numbers_are_taken(host, wish):
    assert bulk_capacity(a_table(a_host("A", **host)), a_request(**wish), BY_RAM) is None


class Spread(BaseHostFilter):
    """Keep the hosts that have no more instances than any other one: it looks at all of them."""

    def mask(self, hosts, spec):
        return hosts.num_instances == hosts.num_instances.min()


def test_a_filter_that_looks_at_other_hosts_is_asked_in_a_request_of_its_own():
    hosts = hosts_with("free_ram_mb", {"A": 4096, "B": 6144})
    plan = Plan([Spread(), RamFilter()], [RAMWeigher()])
    filling = fill(hosts.working_copy(), SPEC, of(plan), 100)
    # In one request, B is refused for the second instance, and never asked again.
    assert dict(filling.rows) == {0: 2, 1: 3}
    assert (dict(filling.rows), True) == looped(hosts.working_copy(), SPEC, of(plan))


def test_each_host_says_what_limits_it():
    hosts = a_table(
        a_host("A", free_ram_mb=5000),
        a_host("B", vcpus_used=13),
        a_host("C", service_disabled=True, free_ram_mb=1),
        a_host("D", unserved=True),
        a_host("E"),
    )
    plan = Plan([ComputeFilter(), RamFilter(), CoreFilter()], [RAMWeigher()])
    spec = a_request(memory_mb=2048, vcpus=2, ignore_hosts=["e"])
    table = hosts.working_copy()
    filling = fill(table, spec, of(plan), 100)
    found = refusals(table, filling.spec, plan)
    assert [(table.get(row, "host"), filling.rows[row]) for row in found] == [
        ("A", 2),
        ("B", 1),
        ("C", 0),
        ("D", 0),
    ]
    assert [[(why.filter, why.reason) for why in refused] for refused in found.values()] == [
        [("RamFilter", "needs 2048 MB of memory, 904 left of 65536 x 1.0")],
        [("CoreFilter", "needs 2 vCPUs, 1 left of 16 x 1.0")],
        [
            ("ComputeFilter", "compute service disabled: no reason given"),
            ("RamFilter", "needs 2048 MB of memory, 1 left of 65536 x 1.0"),
        ],
        [("compute_service", "has no compute service")],
    ]
    assert count_first_refusals(found.values()) == [
        ("RamFilter", 1),
        ("CoreFilter", 1),
        ("ComputeFilter", 1),
        ("compute_service", 1),
    ]


def test_a_host_that_would_take_more_is_limited_by_nothing():
    hosts = hosts_with("free_ram_mb", {"A": 65536, "B": 65536})
    spec = a_request(requested_destination=Destination(host="B"))
    filling = fill(hosts, spec, of(BY_RAM), 3)
    (row,) = hosts.rows_of_host("B")
    assert filling.rows == {row: 3}
    found = refusals(hosts, filling.spec, BY_RAM)
    assert found == {row: ()}
    assert count_first_refusals(found.values()) == []


@pytest.mark.parametrize(
    ("policy", "rules", "expected"),
    [
        ("anti-affinity", {}, {"A": 1, "B": 1}),
        ("anti-affinity", {"max_server_per_host": 2}, {"A": 2, "B": 2}),
        ("affinity", {}, {"B": 3}),
        ("soft-affinity", {}, {"A": 2, "B": 3}),
        ("soft-anti-affinity", {}, {"A": 2, "B": 3}),
    ],
)
def test_groups_worked_cases(policy, rules, expected):
    hosts = hosts_with("free_ram_mb", {"A": 5000, "B": 7000})
    plan = Plan([RamFilter(), *USUAL[-2:]], [RAMWeigher(), *SOFT])
    spec = a_request(memory_mb=2048, instance_group=a_group(policy, rules=rules))
    filling = fill(hosts, spec, of(plan), 100)
    assert {hosts.get(row, "host"): count for row, count in filling.rows.items()} == expected
    assert len(filling.spec.instance_group.members) == sum(expected.values())
    # The caller's own group stays as it is.
    assert spec.instance_group.members == []


def test_the_reason_of_a_group_counts_those_that_were_placed():
    hosts = hosts_with("free_ram_mb", {"A": 65536})
    plan = Plan([RamFilter(), ServerGroupAntiAffinityFilter()], [])
    spec = a_request(memory_mb=2048, instance_group=a_group("anti-affinity"))
    (refused,) = refusals(hosts, fill(hosts, spec, of(plan), 9).spec, plan).values()
    assert [each.reason for each in refused] == ["has 1 of the anti-affinity group, 1 allowed"]
