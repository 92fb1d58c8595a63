# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.reserved_places, and of decisions with them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from inventory.objects.reserved_place import ReservedPlace
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.reserved_places import can_take
from scheduler.decision.types import Step
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop

PLAN = Plan([RamFilter(), CoreFilter(), DiskFilter()], [RAMWeigher()])
GB = 1024


def hosts(*free):
    """Return hosts h0, h1, ... with so many GB of memory free, of 64 GB each."""
    return a_table(
        *(
            a_host(
                f"h{number}",
                node_id=number,
                total_usable_ram_mb=64 * GB,
                free_ram_mb=gb * GB,
                ram_allocation_ratio=1.0,
                vcpus_total=64,
                vcpus_used=64 - gb,
                cpu_allocation_ratio=1.0,
                total_usable_disk_gb=1000,
                free_disk_mb=1000 * GB,
                disk_allocation_ratio=1.0,
            )
            for number, gb in enumerate(free)
        )
    )


def a_place(name, host, gb=2):
    return ReservedPlace(name, host, gb, gb * GB, 20 * GB)


def decided(table, places, *uuids, plan=PLAN, **changes):
    request = Request(a_request(**changes), uuids or ("u",), places=places)
    decision = decide(table, request, plan)
    return [(each.chosen.host, each.place) for each in decision.placements], decision


def free(table):
    return [table.get(row, "free_ram_mb") for row in sorted(table.rows())]


def test_a_full_host_takes_an_instance_into_its_place():
    table = hosts(0, 50)
    found, decision = decided(table, [a_place("p", 0)])
    assert found == [("h0", "p")]
    assert free(table) == [0, 50 * GB]
    assert decision.placements[0].steps[0] == Step("reserved_places", 2, 1)
    assert decision.placements[0].taken.memory_mb == 2 * GB


def test_without_places_of_its_own_a_request_is_decided_as_ever():
    places = [a_place("small", 0, gb=1), a_place("gone", 7)]
    found, decision = decided(hosts(0, 50), places)
    assert found == [("h1", None)]
    assert decision == decided(hosts(0, 50), ())[1]


def test_further_instances_go_elsewhere_when_all_places_are_taken():
    table = hosts(0, 4, 50)
    found, _ = decided(table, [a_place("p", 0), a_place("q", 1)], *"abcde")
    assert found[:2] in ([("h0", "p"), ("h1", "q")], [("h1", "q"), ("h0", "p")])
    assert found[2:] == [("h2", None)] * 3
    assert free(table) == [0, 4 * GB, 44 * GB]


def test_what_follows_places_is_decided_as_in_a_request_of_its_own():
    table, alone = hosts(0, 30, 31), hosts(0, 30, 31)
    found, mixed = decided(table, [a_place("p", 0)], *"abcd")
    rest, plain = decided(alone, (), *"bcd")
    assert found[1:] == rest
    assert [each.steps for each in mixed.placements[1:]] == [
        each.steps for each in plain.placements
    ]
    assert free(table) == free(alone)


def test_the_smallest_place_that_fits_is_taken_first():
    places = [a_place("large", 0, gb=8), a_place("middle", 1, gb=4), a_place("small", 2, gb=2)]
    assert decided(hosts(0, 0, 0), places, *"abc")[0] == [
        ("h2", "small"),
        ("h1", "middle"),
        ("h0", "large"),
    ]
    assert decided(hosts(0), [a_place("large", 0, gb=8), a_place("small", 0)], *"ab")[0] == [
        ("h0", "small"),
        ("h0", "large"),
    ]


def test_filters_decide_about_hosts_with_places_too():
    places = [a_place("p", 0), a_place("q", 1, gb=4)]
    plan = Plan([Drop("h0"), *PLAN.filters])
    assert decided(hosts(0, 0, 9), places, plan=plan)[0] == [("h1", "q")]
    plan = Plan([Drop("h0", "h1"), *PLAN.filters])
    assert decided(hosts(0, 0, 9), places, plan=plan)[0] == [("h2", None)]


def test_a_host_beyond_its_limits_takes_nobody_even_into_a_place():
    table = hosts(-1, 1)
    assert decided(table, [a_place("p", 0)])[0] == []
    assert free(table) == [-GB, GB]


def test_alternates_are_hosts_with_room_of_their_own():
    request = Request(a_request(), ["u"], alternates=2, places=[a_place("p", 0), a_place("q", 1)])
    (placement,) = decide(hosts(0, 0, 9, 8), request, PLAN).placements
    assert placement.place in ("p", "q")
    assert [each.host for each in placement.alternates] == ["h2", "h3"]
    request = Request(a_request(), ["u"], alternates=2, places=[a_place("p", 0)])
    (placement,) = decide(hosts(0, 0), request, PLAN).placements
    assert (placement.place, placement.alternates) == ("p", ())


def test_a_bare_metal_host_is_taken_as_a_whole_and_not_by_places():
    table = hosts(8, 4)
    table.set(0, "hypervisor_type", "ironic")
    assert decided(table, [a_place("p", 0)])[0] == [("h0", None)]


@pytest.mark.parametrize(
    "changes",
    [
        {"numa_topology": InstanceNUMATopology([InstanceNUMACell(0, [0], 1024)])},
        {"pci_requests": InstancePCIRequests(requests=[InstancePCIRequest(1, [{}])])},
        {"scheduler_hints": {"_nova_check_type": ["rebuild"]}},
    ],
    ids=["cells", "devices", "rebuild"],
)
def test_what_places_are_not_for(changes):
    assert not can_take(a_request(**changes))
    assert can_take(a_request())


@given(
    frees=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    places=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=6),
    number=st.integers(1, 8),
    gb=st.integers(1, 4),
)
def test_places_are_taken_once_and_cost_nothing(frees, places, number, gb):
    table = hosts(*frees)
    offered = [a_place(str(at), host, size) for at, (host, size) in enumerate(places)]
    uuids = [f"u{each}" for each in range(number)]
    found, decision = decided(table, offered, *uuids, memory_mb=gb * GB, vcpus=gb)
    by_name = {each.uuid: each for each in offered}
    taken = [place for _, place in found if place is not None]
    assert len(taken) == len({*taken})
    for host, place in found:
        assert place is None or f"h{by_name[place].node_id}" == host
    fitting = [each for each in offered if each.vcpus >= gb and each.node_id < len(frees)]
    room = sum(each // gb for each in frees)
    assert bool(decision.shortage) == (number > len(fitting) + room)
    if not decision.shortage:
        # All places come first, and what they held stays used.
        assert len(taken) == min(number, len(fitting))
        plain = Counter(host for host, place in found if place is None)
        left = [(each - gb * plain[f"h{at}"]) * GB for at, each in enumerate(frees)]
        assert free(table) == left
