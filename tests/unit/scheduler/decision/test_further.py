# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.further: all as if every host were asked about each instance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decision import further
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.ram import RamFilter
from scheduler.objects.numa import InstanceNUMACell, InstanceNUMATopology
from scheduler.weighers.build_failure import BuildFailureWeigher
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.fill_first_cost import FillFirstCostWeigher
from scheduler.weighers.io_ops import IoOpsWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_group, a_request
from tests.contract.test_reuse import forgetful, outcome
from tests.hosts import a_host, a_table

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


@settings(max_examples=60)
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


@settings(max_examples=4, deadline=None)
@given(st.randoms(use_true_random=False), st.tuples(*[MULTIPLIERS] * 5), st.integers(50, 600))
def test_also_where_only_the_best_are_weighed_anew(chance, multipliers, count):
    figures = [[chance.randrange(7) for _ in range(3)] for _ in range(2 * further.FEW + 50)]
    table, plan = a_fleet(figures), a_plan(multipliers)
    request = Request(SPEC, [f"u{n}" for n in range(count)])
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


EQUAL = [(0, 6, 6)] * (2 * further.FEW + 50)


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
    assert placed(table, request, plan) == placed(table, request, without_shortcuts(plan))


class OneEach(RamFilter):
    """Keep the hosts that no instance of the request has."""

    reads = ("host",)

    def question(self, spec):
        return tuple(spec.instance_group.hosts), spec.instance_uuid

    def mask(self, hosts, spec):
        taken = spec.instance_group.hosts
        return np.array([hosts.get(row, "host") not in taken for row in range(hosts.size)])


class Other(RAMWeigher):
    """Prefer the hosts with less free memory, and none of them that has none."""

    sign = -1
    multiplier = 1

    def question(self, spec):
        return ()

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
