# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.pipeline: requests while others change hosts."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.aggregate import Aggregate
from scheduler.decision import further_instances
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters import BaseHostFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.ram import RamFilter
from scheduler.hosts.host_state import HostState
from scheduler.weighers import BaseHostWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.contract.test_row_local import outcome
from tests.hosts import hosts_with
from tests.unit.scheduler.decision.test_further_instances import (
    MULTIPLIERS,
    SMALL,
    a_fleet,
    a_plan,
    without_shortcuts,
)

SMALL_ONE = a_request(vcpus=1, memory_mb=64, root_gb=0)
SPECS = [
    SMALL_ONE,
    a_request(vcpus=1, memory_mb=64, root_gb=0, extra_specs={"capabilities:vcpus_used": "< 4"}),
    a_request(vcpus=2, memory_mb=2048, root_gb=1),
]
CONSUMED = ("vcpus_used", "free_ram_mb", "free_disk_mb", "num_instances", "num_io_ops")
CHANGES = st.one_of(
    st.tuples(st.just("vcpus_used"), SMALL),
    st.tuples(st.just("free_ram_mb"), SMALL.map(lambda gb: 1024 * gb)),
    st.tuples(st.just("failed_builds"), st.integers(0, 2)),
    st.tuples(st.just("cpu_allocation_ratio"), st.sampled_from([0.0, 1.0, 2.0])),
    st.tuples(st.just("service_disabled"), st.booleans()),
    st.tuples(st.just("forced_down"), st.booleans()),
    st.tuples(st.just("unserved"), st.booleans()),
    st.tuples(
        st.just("aggregates"),
        st.sampled_from(["2.0", "-1.0"]).map(
            lambda text: [Aggregate(1, "a", {"ram_weight_multiplier": text})]
        ),
    ),
)


def a_full_plan(multipliers):
    filters = [ComputeFilter(), RamFilter(), CoreFilter(), DiskFilter()]
    filters += [ComputeCapabilitiesFilter(), NumInstancesFilter(most=9)]
    return Plan(filters, a_plan(multipliers).weighers)


def decided(table, request, plan):
    """Return what is decided, and what the copy has afterwards."""
    copy = table.working_copy()
    found = decide(copy, request, plan)
    return found, [getattr(copy, name).tolist() for name in CONSUMED if found.placements]


def best(decision):
    """Return the best hosts of the first instance with their weights."""
    return [each.weighed for each in decision.placements[:1]]


def reserve(table, decision):
    """Consume a decision in a table, as the host cache does."""
    for each in decision.placements:
        HostState.of(table, each.chosen.row).consume(each.taken)


@given(
    st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=12),
    st.tuples(*[MULTIPLIERS] * 5),
    st.integers(1, 4),
    st.data(),
)
def test_requests_are_decided_as_if_every_host_were_asked_each_time(figures, mult, few, data):
    table, plan = a_fleet(figures), a_full_plan(mult)
    other = without_shortcuts(plan)
    table.fill("cpu_allocation_ratio", np.full(table.size, data.draw(st.sampled_from([1.0, 4.0]))))
    with mock.patch.object(further_instances, "WATCHED", few):
        for number in range(data.draw(st.integers(5, 15))):
            uuids = [f"u{number}-{n}" for n in range(data.draw(st.sampled_from([1, 1, 2, 4])))]
            request = Request(
                data.draw(st.sampled_from([SMALL_ONE, SMALL_ONE, *SPECS])),
                uuids,
                data.draw(st.integers(0, 2)),
                seed=number,
                choices=data.draw(st.sampled_from([1, 1, 3])),
                holds_alternates=data.draw(st.booleans()),
            )
            found, after = decided(table, request, plan)
            expected, expected_after = decided(table, request, other)
            assert outcome(found) == outcome(expected)
            assert best(found) == best(expected)
            assert after == expected_after
            # Not every decision is claimed.
            if data.draw(st.integers(0, 3)):
                reserve(table, found)
            for name, value in data.draw(st.just([]) | st.lists(CHANGES, max_size=2)):
                table.set(data.draw(st.sampled_from([*table.rows()])), name, value)
            match data.draw(st.integers(0, 15)):
                case 0:
                    table.fill("heartbeat_age", np.full(table.size, data.draw(SMALL) * 20.0))
                case 1:
                    table.add(f"new{number}", "n")
                case 2 if len(table) > 1:
                    table.remove(min(table.rows()))


def test_a_host_that_is_full_is_no_candidate():
    table, plan = a_fleet([(0, 6, 6), (0, 6, 6)]), a_full_plan((-1.0, 0.0, 0.0, 0.0, 0.0))
    hosts = []
    for number in range(12):
        decision = decide(table.working_copy(), Request(SPECS[0], [f"u{number}"]), plan)
        reserve(table, decision)
        hosts.append(decision.placements[0].chosen.host)
        assert decision.placements[0].steps[-1].after == (1 if number >= 8 else 2)
    assert hosts == ["h0"] * 8 + ["h1"] * 4


class Only(BaseHostFilter):
    """Keeps two hosts for one flavor."""

    def host_passes(self, host_state, spec_obj):
        return spec_obj.vcpus != 7 or host_state.host in ("b", "c")


class Smallest(BaseHostWeigher):
    """A weigher in the form of the guide, which is asked about the remaining hosts alone."""

    reads = ("total_usable_ram_mb",)

    def _weigh_object(self, host_state, weight_properties):
        return -host_state.total_usable_ram_mb


class SmallestLocal(Smallest):
    reads = ("total_usable_ram_mb",)
    row_local = True


@pytest.mark.parametrize("weigher", [Smallest, SmallestLocal])
def test_what_a_weigher_said_of_some_hosts_does_not_count_for_other_requests(weigher):
    table = hosts_with("total_usable_ram_mb", {"a": 5000, "b": 1000, "c": 2000})
    plan, plain = Plan([Only()], [weigher()]), Request(a_request(vcpus=1), ["u"], 1)
    alone = decide(table.working_copy(), plain, plan)
    decide(table.working_copy(), Request(a_request(vcpus=7), ["v"]), plan)
    assert alone.placements[0].chosen.host == "b"
    assert decide(table.working_copy(), plain, plan) == alone


def test_a_weigher_that_fails_is_asked_each_time():
    table = a_fleet([(0, 6, 6)] * 3)
    weigher = RAMWeigher()
    plan = Plan([RamFilter()], [weigher])
    with mock.patch.object(RAMWeigher, "weigh", side_effect=ZeroDivisionError):
        for _ in range(3):
            assert decide(table.working_copy(), Request(SMALL_ONE, ["u"]), plan).warnings
    decision = decide(table.working_copy(), Request(SMALL_ONE, ["u"]), plan)
    assert [*decision.placements[0].weighed[0].shares] == ["RAMWeigher"]


class EverySecond(RamFilter):
    """A filter that is asked about every other instance of a request."""

    row_local = True

    def run_filter_for_index(self, index):
        return index % 2 == 0


def test_filters_that_are_asked_about_some_instances_are_asked_each_time():
    table = a_fleet([(0, 6, 6)] * 3)
    plan = Plan([EverySecond(), CoreFilter()], [RAMWeigher()])
    for number in range(4):
        request = Request(SPECS[0], [f"u{number}-{n}" for n in range(3)], 2)
        found, after = decided(table, request, plan)
        expected, expected_after = decided(table, request, without_shortcuts(plan))
        assert outcome(found) == outcome(expected)
        assert after == expected_after
        reserve(table, found)
