# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of further_instances: the same as if every host were asked about each instance."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import InstancePCIRequests
from scheduler.decision import further_instances, pipeline
from scheduler.decision.pipeline import Plan, Request, can_be_followed, decide
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.objects.instance import Instance
from scheduler.weighers.build_failure import BuildFailureWeigher
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.fill_first_cost import FillFirstCostWeigher
from scheduler.weighers.io_ops import IoOpsWeigher
from scheduler.weighers.ram import RAMWeigher
from scheduler.weighers.soft_affinity import ServerGroupSoftAffinityWeigher
from scheduler.weighers.soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher
from tests.builders import a_group, a_request
from tests.contract.test_row_local import forgetful, outcome
from tests.hosts import a_host, a_table
from tests.profiles import one_in

MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.5, 0.0, 3.0])
SPREAD = (1.0, 1.0, 1.0, -1.0, 0.0)
SMALL = st.integers(0, 6)
SPEC = a_request(vcpus=1, memory_mb=1024, root_gb=1)


def a_fleet(figures, **more):
    """Return a table of hosts with so many vCPUs in use, GB of memory and of disk free."""
    return a_table(
        *(
            a_host(
                f"h{number}",
                vcpus_used=used,
                vcpus_total=8,
                free_ram_mb=1024 * ram,
                total_usable_ram_mb=8192,
                free_disk_mb=1024 * disk,
                total_usable_disk_gb=8,
                failed_builds=number % 3 == 2,
                cpu_allocation_ratio=1.0,
                ram_allocation_ratio=1.0,
                disk_allocation_ratio=1.0,
                **more,
            )
            for number, (used, ram, disk) in enumerate(figures)
        )
    )


def a_plan(multipliers, **choice):
    ram, cpu, disk, io_ops, unscaled = multipliers
    weighers = [
        BuildFailureWeigher(multiplier=2.0),
        RAMWeigher(multiplier=ram),
        CPUWeigher(multiplier=cpu),
        DiskWeigher(multiplier=disk),
        IoOpsWeigher(multiplier=io_ops),
        FillFirstCostWeigher(multiplier=unscaled),
    ]
    rules = [AvailabilityZoneFilter(), RamFilter(), CoreFilter(), DiskFilter()]
    return Plan([*rules, NumInstancesFilter(most=5)], weighers, **choice)


def placed(table, request, plan):
    return outcome(decide(table.working_copy(), request, plan))


def without_shortcuts(plan, **choice):
    return Plan([*map(forgetful, plan.filters)], [*map(forgetful, plan.weighers)], **choice)


@given(
    st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=12),
    st.tuples(*[MULTIPLIERS] * 5),
    st.integers(2, 40),
    st.fixed_dictionaries({"host_subset_size": st.integers(1, 3), "shuffle_best": st.booleans()}),
    st.integers(1, 4),
)
def test_the_outcome_is_that_of_asking_about_all_hosts(figures, multipliers, count, how, choices):
    plan = a_plan(multipliers, **how)
    request = Request(SPEC, [f"u{n}" for n in range(count)], 2, seed=count, choices=choices)
    table = a_fleet(figures)
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan, **how))


def placed_watching(watched, table, request, plan):
    """Return what placed() does if so many hosts are watched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(further_instances, "WATCHED", watched)
        return placed(table, request, plan)


# Of more than twice as many hosts only these are watched.
WATCHED = 256
MANY = 2 * WATCHED + 50


@settings(max_examples=one_in(10))
@given(st.randoms(use_true_random=False), st.tuples(*[MULTIPLIERS] * 5), st.integers(50, 600))
def test_also_where_only_the_best_are_weighed_anew(chance, multipliers, count):
    figures = [[chance.randrange(7) for _ in range(3)] for _ in range(MANY)]
    table, plan = a_fleet(figures), a_plan(multipliers)
    request = Request(SPEC, [f"u{n}" for n in range(count)])
    found = placed_watching(WATCHED, table, request, plan)
    assert found == placed(table, request, without_shortcuts(plan))


SIZES = st.sampled_from([1, 2, 3, 6, 20, 40])


@given(
    st.integers(1, 3),
    st.lists(st.tuples(SMALL, SIZES, SIZES), min_size=4, max_size=12),
    st.tuples(*[MULTIPLIERS] * 5),
    st.integers(2, 20),
)
@example(
    1,
    [(2, 20, 5), (1, 3, 1), (4, 2, 30), (4, 40, 5), (4, 2, 1), (4, 3, 30), (5, 2, 30)],
    (-1.0, 0.5, 3.0, 0.0, 0.0),
    12,
)
# Totals that sum() of Python 3.12 and later would round otherwise than numpy does.
@example(1, [(0, 1, 1)] * 4 + [(0, 2, 2), (0, 3, 2)], (1.0, -1.0, 1.0, 0.0, 0.0), 2)
def test_also_where_ranges_move_while_few_are_watched(watched, figures, multipliers, count):
    table, plan = a_fleet(figures), a_plan(multipliers)
    request = Request(SPEC, [f"u{n}" for n in range(count)], 2)
    found = placed_watching(watched, table, request, plan)
    assert found == placed(table, request, without_shortcuts(plan))


EQUAL = [(0, 6, 6)] * MANY


@pytest.mark.parametrize(
    ("figures", "memory_mb", "count"),
    [
        # Each of them takes one and is full, or falls behind all others.
        (EQUAL, 6144, 600),
        (EQUAL, 2048, 600),
        # The last one is the best, and hardly the worst after it has taken the first.
        ([*EQUAL, (0, 7, 6)], 4096, 4),
    ],
)
def test_a_host_that_falls_behind_all_others_stays_known(figures, memory_mb, count):
    table, plan = a_fleet(figures), Plan([RamFilter(), CoreFilter()], [RAMWeigher()])
    spec = a_request(vcpus=1, memory_mb=memory_mb)
    request = Request(spec, [f"u{n}" for n in range(count)])
    found = placed_watching(WATCHED, table, request, plan)
    assert found == placed(table, request, without_shortcuts(plan))


class OneEach(RamFilter):
    """Keep the hosts that no instance of the request has."""

    reads = ("host",)

    def mask(self, hosts, spec):
        taken = spec.instance_group.hosts
        return np.array([hosts.get(row, "host") not in taken for row in range(hosts.size)])


class Other(RAMWeigher):
    """Prefer the hosts with less free memory, and none of them that has none."""

    sign = -1
    multiplier = 1

    def weigh(self, hosts, spec):
        with np.errstate(all="ignore"):
            return 1 / hosts.free_ram_mb


@pytest.mark.parametrize("plan", [Plan([OneEach()], [RAMWeigher()]), Plan([], [Other()])])
def test_what_others_declare_counts_for_each_instance(plan):
    table = a_fleet([(0, 1, 6), (1, 2, 6), (2, 3, 4), (2, 3, 4), (1, 1, 1)])
    spec = a_request(memory_mb=1024, instance_group=a_group("soft-affinity"))
    for each in (spec, a_request(memory_mb=1024)):
        if each.instance_group or not plan.filters:
            request = Request(each, ["a", "b", "c", "d"])
            assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


POLICIES = ("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity")
GROUP_RULES = [ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()]
SOFT = [ServerGroupSoftAntiAffinityWeigher(), ServerGroupSoftAffinityWeigher()]


@st.composite
def groups(draw):
    """Draw a group whose lists need not agree, nor know all that is there."""
    names = st.lists(st.sampled_from([f"h{n}" for n in range(9)]), max_size=3)
    uuids = st.lists(st.sampled_from([*"abc", "u0", "u1", "u2"]), max_size=4)
    rules = st.sampled_from([{}, {"max_server_per_host": 2}, {"max_server_per_host": 3}])
    policy = draw(st.sampled_from(POLICIES))
    return a_group(policy, members=draw(uuids), hosts=draw(names), rules=draw(rules))


@given(
    st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=9),
    groups(),
    st.dictionaries(st.sampled_from([*"abc", "u0", "u1", "u3"]), st.integers(0, 8)),
    st.integers(1, 12),
    st.sampled_from([1, 3]),
)
def test_members_of_a_group_are_followed_as_well(figures, group, living, count, choices):
    few = a_plan(SPREAD)
    plan = Plan([*few.filters, *GROUP_RULES], [*few.weighers, *SOFT])
    table = a_fleet(figures)
    for uuid, row in living.items():
        if row < table.size:
            table.instances.add(row, uuid, Instance(uuid))
    spec = a_request(vcpus=1, memory_mb=1024, root_gb=1, instance_group=group)
    request = Request(spec, [f"u{n}" for n in range(count)], 2, seed=count, choices=choices)
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


def test_an_instance_may_stay_on_its_host_also_as_a_later_one_of_its_request():
    # The list of the group does not have it yet, so the first one goes there as well.
    best = a_host("best", instances=["u1"], free_ram_mb=8192)
    table = a_table(best, a_host("other", free_ram_mb=2048))
    spec = a_request(memory_mb=1024, instance_group=a_group("anti-affinity"))
    plan = Plan([RamFilter(), *GROUP_RULES], [RAMWeigher()])
    for second, host in (("u1", "best"), ("u2", "other")):
        request = Request(spec, ["u0", second])
        found = decide(table.working_copy(), request, plan)
        assert [each.chosen.host for each in found.placements] == ["best", host]
        assert outcome(found) == placed(table, request, without_shortcuts(plan))


@pytest.mark.parametrize(
    ("policy", "rooms", "members", "hosts"),
    [
        # A request that comes again, since its answer was lost: it is on its way there already.
        ("affinity", {"h0": (8192, ["u0", "u1"]), "h1": (4096, [])}, [], ["h0", "h0"]),
        ("affinity", {"h0": (8192, ["u0", "u1"]), "h1": (4096, [])}, ["u0", "u1"], ["h0", "h0"]),
        ("anti-affinity", {"h0": (65536, ["u0"]), "h1": (4096, [])}, [], ["h0", "h1"]),
        ("anti-affinity", {"h0": (4096, ["u0"]), "h1": (65536, [])}, ["u0", "u1"], None),
    ],
)
def test_an_instance_that_is_somewhere_already(policy, rooms, members, hosts):
    table = a_table(
        *(a_host(name, free_ram_mb=free, instances=uuids) for name, (free, uuids) in rooms.items())
    )
    spec = a_request(instance_group=a_group(policy, members=members, hosts=[]))
    request, plan = Request(spec, ["u0", "u1"]), Plan([RamFilter(), *GROUP_RULES], [RAMWeigher()])
    found = decide(table.working_copy(), request, plan)
    assert (hosts or []) == [each.chosen.host for each in found.placements]
    assert bool(found.shortage) == (hosts is None)
    assert outcome(found) == placed(table, request, without_shortcuts(plan))


@pytest.fixture
def ways(monkeypatch):
    """Whether there was a short way, each time that it was sought."""
    found = []

    def noted(*args):
        found.append(can_be_followed(*args))
        return found[-1]

    monkeypatch.setattr(pipeline, "can_be_followed", noted)
    return found


@pytest.mark.parametrize(("policy", "several"), [*((each, 1) for each in POLICIES), (None, 2)])
def test_groups_take_the_short_way_unless_hosts_have_several_nodes(policy, several, ways):
    table = a_table(*(a_host(f"h{n // several}", f"n{n}", free_ram_mb=8192) for n in range(6)))
    spec = a_request(memory_mb=1024, instance_group=a_group(policy or "anti-affinity"))
    request = Request(spec, [f"u{n}" for n in range(3)])
    assert len(decide(table, request, Plan([RamFilter(), *GROUP_RULES], SOFT)).placements) == 3
    # Where the first member of an affinity group goes decides about the others.
    expected = [False, True] if policy == "affinity" else [True]
    assert ways == (expected if policy else [False, False])


def test_a_list_of_no_devices_is_nothing_that_an_instance_takes(ways):
    # As Nova's conductor sends it with every plain request.
    spec = a_request(memory_mb=1024, root_gb=1, pci_requests=InstancePCIRequests("u1"))
    decide(a_fleet([(0, 6, 6), (1, 5, 6)]), Request(spec, ["u1", "u2"]), a_plan(SPREAD))
    assert ways == [True]


def test_the_table_has_in_the_end_what_all_instances_took():
    plan = a_plan(SPREAD)
    request = Request(SPEC, ["a", None, "c", "d"])
    table = a_fleet([(0, 6, 6), (1, 5, 6), (2, 6, 4)])
    one, other = table.working_copy(), table.working_copy()
    rows = [each.chosen.row for each in decide(one, request, plan).placements]
    decide(other, request, without_shortcuts(plan))
    for name in ("free_ram_mb", "vcpus_used", "free_disk_mb", "num_instances", "num_io_ops"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist() != []
    assert [dict(one.instances.on(row)) for row in rows] == [
        dict(other.instances.on(row)) for row in rows
    ]


def test_the_shares_of_the_chosen_host_explain_its_total():
    table = a_fleet([(0, 6, 6), (1, 5, 6), (2, 6, 4)])
    decision = decide(table, Request(SPEC, ["a", "b", "c", "d"]), a_plan(SPREAD))
    assert len(decision.placements) == 4
    for placement in decision.placements:
        first = placement.weighed[0]
        assert first.host == placement.chosen.host
        assert sum(first.shares.values()) == pytest.approx(placement.chosen.weight)
        assert first.total == placement.chosen.weight


CELLS = InstanceNUMATopology([InstanceNUMACell(0, 1024, {0})])


@pytest.mark.parametrize(
    ("changes", "hosts"),
    [
        ({"numa_topology": CELLS}, {}),
        ({}, {"hypervisor_type": "ironic"}),
        ({"scheduler_hints": {"_nova_check_type": ["rebuild"]}}, {}),
    ],
)
def test_what_takes_more_than_numbers_goes_the_long_way(changes, hosts):
    table, plan = a_fleet([(0, 6, 6), (1, 5, 6), (2, 6, 4)], **hosts), a_plan([1.0] * 5)
    request = Request(a_request(memory_mb=1024, root_gb=1, **changes), ["a", "b", "c"])
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


@pytest.mark.parametrize(
    ("weigher", "hosts"), [(forgetful(RAMWeigher()), {}), (CPUWeigher(), {"vcpus_used": 1})]
)
def test_weights_that_cannot_be_followed_go_the_long_way(weigher, hosts):
    # Of the first host no ratio is known, so that the weigher of CPUs has no weight for it.
    table = a_table(a_host("h0", **hosts), *(a_host(f"h{n}", vcpus_used=n) for n in (1, 2)))
    table.fill("cpu_allocation_ratio", np.array([np.nan, 4.0, 4.0]))
    request, plan = Request(SPEC, ["a", "b", "c"]), Plan([], [weigher])
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


def test_hosts_are_forced_without_filters_and_still_weighed():
    table, plan = a_fleet([(8, 0, 0), (8, 0, 0), (0, 6, 6)]), a_plan(SPREAD)
    spec = a_request(memory_mb=1024, force_hosts=["h0", "h1"], instance_group=a_group("affinity"))
    request = Request(spec, ["a", "b", "c", "d"])
    found = decide(table.working_copy(), request, plan)
    assert {each.chosen.host for each in found.placements} == {"h0", "h1"}
    assert all(each.chosen.limits == {} for each in found.placements)
    assert outcome(found) == placed(table, request, without_shortcuts(plan))
