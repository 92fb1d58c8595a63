# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of how many alternates are held, so that no other build lacks the room."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision import alternates as module
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.filters.ram import RamFilter
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table
from tests.numa import a_guest, a_pinned_cell, a_topology

SMALL = {"vcpus": 1, "memory_mb": 1024, "root_gb": 0}
PLAN = Plan((RamFilter(),))


def alternates(
    free_mb, count=1, held=0, plan=PLAN, hosts=None, holds=True, elsewhere=99, **changes
):
    """Return how many alternates each instance has on hosts with so much free memory each."""
    facts = {"ram_allocation_ratio": 1.0, **(hosts or {})}
    found = [
        a_host(f"h{number}", free_ram_mb=mb, total_usable_ram_mb=2**20, **facts)
        for number, mb in enumerate(free_mb)
    ]
    # On a host that is full: what is held there is no alternate of this request.
    full = {"free_ram_mb": 0, "total_usable_ram_mb": 2**20, "held_alternates": elsewhere}
    found.append(a_host("full", **full, **facts))
    found[-2].held_alternates = held
    spec = a_request(**SMALL | changes)
    uuids = [f"u{number}" for number in range(count)]
    request = Request(spec, uuids, alternates=2, holds_alternates=holds)
    return [len(each.alternates) for each in decide(a_table(*found), request, plan).placements]


@pytest.mark.parametrize(
    ("copies", "count", "held", "expected"),
    [
        # What is left when all are placed is 39, 40, ...
        ((20, 20, 0), 1, 0, [1]),
        ((20, 20, 1), 1, 0, [2]),
        ((20, 20, 1), 1, 1, [1]),
        ((20, 20, 1), 1, 2, [0]),
        ((20, 20, 1), 1, 3, [0]),
        ((7, 7, 6), 1, 0, [0]),
        ((7, 7, 7), 1, 0, [1]),
        # The first alternates of all come before any second.
        ((30, 27, 26), 3, 0, [2, 1, 1]),
        ((4, 4, 4), 1, 0, [0]),
    ],
)
def test_one_in_twenty_that_fit_may_be_held(copies, count, held, expected):
    hosts = [1024 * each for each in copies]
    # Several may fill a host, on which there is then no alternate.
    assert alternates(hosts, count, held) == expected


def test_where_it_is_held_for_none_all_are_returned():
    assert alternates([1024, 1024, 1024], holds=False) == [2]


def test_what_nothing_bounds_is_held_without_end():
    assert alternates([1024] * 3, plan=Plan()) == [2]
    # An instance without memory takes none.
    assert alternates([1024] * 3, memory_mb=0) == [2]


def test_what_is_shortest_counts():
    plan = Plan((RamFilter(), CoreFilter(), DiskFilter()))
    ample = {"vcpus_total": 100, "cpu_allocation_ratio": 1.0, "vcpus_used": 0}
    assert alternates([2**20] * 3, plan=plan, hosts=ample) == [2]
    assert alternates([2**20] * 3, plan=plan, hosts=ample | {"vcpus_total": 6}) == [0]


def test_members_that_are_apart_take_a_host_each():
    group = a_group("anti-affinity")
    assert alternates([2**20] * 19, instance_group=group) == [0]
    assert alternates([2**20] * 20, instance_group=group) == [1]
    together = a_group("affinity")
    assert alternates([2**20] * 40, instance_group=together) == [0]


def test_cells_are_not_held():
    facts = {"numa_topology": a_topology()}
    plan = Plan((NUMATopologyFilter(),))
    guest = {"numa_topology": a_guest(a_pinned_cell()), "vcpus": 2}
    assert alternates([2**20] * 3, plan=plan, hosts=facts, **guest) == [0]


@given(
    st.integers(15, 85).flatmap(
        lambda n: st.lists(st.sampled_from([1, 1, 1, 1, 2]), min_size=n, max_size=n)
    ),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from([None, "anti-affinity"]),
)
def test_where_hosts_are_many_nothing_has_to_be_counted(copies, count, held, policy):
    hosts, changes = [1024 * each for each in copies], {"elsewhere": 0}
    if policy:
        changes["instance_group"] = a_group(policy)
    found = alternates(hosts, count, held, **changes)
    with mock.patch.object(module, "_are_enough", return_value=False):
        assert alternates(hosts, count, held, **changes) == found
