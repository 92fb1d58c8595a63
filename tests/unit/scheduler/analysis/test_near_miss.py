# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.aggregate import Aggregate
from scheduler.analysis.diagnosis import filter_rejections, name_rejections
from scheduler.analysis.near_miss import RefusedInstance
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.types import ResourceShortfall
from scheduler.filters.aggregate_limits import AggregateCoreFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.io_ops import IoOpsFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.ram import RamFilter
from scheduler.hosts.host_state import HostState
from tests.builders import a_flavor, a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop

FILTERS = (ComputeFilter(), RamFilter(), CoreFilter(), DiskFilter())
FLAVOR = a_flavor(vcpus=4, memory_mb=4096, root_gb=20, ephemeral_gb=0, swap=0)
REQUEST = a_request(flavor=FLAVOR)


def a_free_host(name, vcpus=64, memory_mb=65536, disk_mb=1024 * 1000, nodename=None):
    return a_host(
        name,
        nodename,
        vcpus_total=64,
        vcpus_used=64 - vcpus,
        cpu_allocation_ratio=1.0,
        total_usable_ram_mb=65536,
        free_ram_mb=memory_mb,
        ram_allocation_ratio=1.0,
        total_usable_disk_gb=1000,
        free_disk_mb=disk_mb,
        disk_allocation_ratio=1.0,
    )


def near_misses(hosts, request=REQUEST, filters=FILTERS, most=5):
    obstacles = [*name_rejections(hosts, request), *filter_rejections(hosts, request, filters)]
    return RefusedInstance(hosts, request, obstacles).near_misses(sorted(hosts.rows()), most)


def near_misses_of(hosts, **changes):
    return [(each.host, dict(each.lacks), each.text) for each in near_misses(hosts, **changes)]


def test_the_nearest_come_first():
    hosts = a_table(
        a_free_host("far", memory_mb=1024),
        a_free_host("near", vcpus=3),
        a_free_host("both", vcpus=3, memory_mb=4000),
        a_free_host("fits"),
    )
    assert near_misses_of(hosts) == [
        ("near", {"vcpus": 1}, "1 vCPU less, or 1 vCPU more free on near"),
        (
            "both",
            {"memory_mb": 96, "vcpus": 1},
            "96 MB of memory and 1 vCPU less, or 96 MB of memory and 1 vCPU more free on both",
        ),
        (
            "far",
            {"memory_mb": 3072},
            "3072 MB of memory less, or 3072 MB of memory more free on far",
        ),
    ]
    assert [each.host for each in near_misses(hosts, most=1)] == ["near"]
    assert near_misses(hosts, most=0) == []


def test_hosts_that_lack_the_same_are_one_near_miss():
    hosts = a_table(
        *(a_free_host(f"alike{number}", vcpus=3) for number in range(3)),
        a_free_host("other", vcpus=2),
        a_free_host("late"),
        a_free_host("later"),
    )
    found = near_misses(hosts, filters=(*FILTERS, Drop("late", "later")), most=2)
    assert [(each.text, each.hosts) for each in found] == [
        ("1 vCPU less, or 1 vCPU more free on alike0 or 2 other hosts", 3),
        ("2 vCPUs less, or 2 vCPUs more free on other", 1),
        ("late, were it not for Drop: late was dropped", 1),
        ("later, were it not for Drop: later was dropped", 1),
    ]


def test_disk_comes_in_whole_gigabytes():
    hosts = a_table(a_free_host("h", disk_mb=19 * 1024 - 1))
    text = "2 GB of disk less, or 1025 MB of disk more free on h"
    assert near_misses_of(hosts) == [("h", {"disk_mb": 1025}, text)]


def test_instances_can_only_be_fewer():
    busy = a_free_host("busy", vcpus=2)
    busy.num_instances, busy.num_io_ops = 8, 9
    filters = (*FILTERS, NumInstancesFilter(most=8), IoOpsFilter(most=8))
    text = (
        "2 vCPUs more free and 1 instance and 2 instances busy with input and output fewer on busy"
    )
    (found,) = near_misses_of(a_table(busy), filters=filters)
    assert found == ("busy", {"vcpus": 2, "instances": 1, "io_ops": 2}, text)
    # Fewer than none there cannot be.
    busy.num_instances = 0
    ((_, lacks, text),) = near_misses_of(a_table(busy), filters=[NumInstancesFilter(most=0)])
    assert lacks == {}
    assert text == "busy, were it not for NumInstancesFilter: has 0 instances, 0 allowed"


def test_a_single_obstacle_is_reported():
    down, other = a_free_host("down"), a_free_host("other")
    down.forced_down = True
    dropped = a_free_host("dropped", nodename="n1")
    hopeless = a_free_host("hopeless", vcpus=3)
    hopeless.service_disabled = True
    hosts = a_table(down, dropped, other, hopeless)
    request = replace(REQUEST, ignore_hosts=["other"])
    found = near_misses(hosts, request, (*FILTERS, Drop("dropped")))
    assert [each.only_obstacle for each in found] == [
        ("ComputeFilter", "compute service forced down"),
        ("Drop", "dropped was dropped"),
        ("ignore_hosts", "is among the hosts to be ignored"),
    ]
    assert [each.text for each in found] == [
        "down, were it not for ComputeFilter: compute service forced down",
        "dropped (n1), were it not for Drop: dropped was dropped",
        "other, were it not for ignore_hosts: is among the hosts to be ignored",
    ]


def test_of_each_filter_one_obstacle_comes_first():
    hosts = a_table(*(a_free_host(name) for name in ("a", "b", "c")))
    for name in "ab":
        hosts.set(hosts.row_of(name, name), "forced_down", True)
    found = near_misses(hosts, filters=(*FILTERS, Drop("c")), most=2)
    assert [each.host for each in found] == ["a", "c"]


def test_nothing_may_be_left_of_a_request():
    (found,) = near_misses(a_table(a_free_host("full", vcpus=0)))
    assert (found.smaller, found.freed) == (False, True)
    assert found.text == "4 vCPUs more free on full"


def test_what_no_amount_is_known_of_is_an_obstacle():
    unknown = a_free_host("unknown", memory_mb=100)
    unknown.ram_allocation_ratio = None
    ((_, lacks, text),) = near_misses_of(a_table(unknown))
    assert lacks == {}
    assert "but the allocation ratio of the host is not known" in text
    assert near_misses(a_table()) == []
    assert near_misses(a_table(a_free_host("any")), filters=()) == []


def test_a_third_partys_filter_may_fail_or_lack_what_nobody_knows():
    class Strange(Drop):
        def reason(self, host_state, spec_obj):
            raise KeyError("no words")

        def lack(self, host_state, spec_obj):
            if host_state.host == "h1":
                return ResourceShortfall("unicorns", 1)
            raise KeyError("no number")

    hosts = a_table(a_free_host("h1"), a_free_host("h2"))
    found = near_misses(hosts, filters=[Strange("h1", "h2")])
    # The same of both.
    assert [(each.only_obstacle[1], each.hosts) for each in found] == [
        ("does not pass, without a reason: KeyError: 'no words'", 2)
    ]


def test_a_request_larger_than_the_host_can_only_be_smaller():
    large = replace(FLAVOR, vcpus=65)
    (found,) = near_misses(a_table(a_free_host("h")), a_request(flavor=large))
    assert (found.lacks, found.smaller, found.freed) == ({"vcpus": 1}, True, False)
    assert found.text == "1 vCPU less, for h"


def test_a_change_that_another_filter_does_not_like_is_none():
    class Even(Drop):
        def host_passes(self, host_state, spec_obj):
            return spec_obj.vcpus % 2 == 0 and host_state.vcpus_used % 2 == 1

    hosts = a_table(a_free_host("h", vcpus=3))
    assert near_misses(hosts, filters=(*FILTERS, Even())) == []
    assert hosts.get(0, "vcpus_used") == 61


def test_aggregates_have_a_say_in_how_much_is_lacking():
    host = a_free_host("h", vcpus=0)
    host.aggregates = [Aggregate(1, metadata={"cpu_allocation_ratio": "1.03"})]
    (found,) = near_misses(a_table(host), filters=[AggregateCoreFilter()])
    assert found.lacks == {"vcpus": 3}


@given(
    vcpus=st.integers(-5, 8),
    memory_mb=st.integers(-5000, 8192),
    disk_mb=st.integers(-5000, 40960),
    ratio=st.floats(0.5, 4.0),
)
def test_the_change_is_enough_and_no_smaller_one_is(vcpus, memory_mb, disk_mb, ratio):
    host = a_free_host("h", vcpus, memory_mb, disk_mb)
    host.cpu_allocation_ratio = ratio
    hosts = a_table(host)

    def placed(**changes):
        request = Request(a_request(flavor=replace(FLAVOR, **changes)), ["u"])
        return bool(decide(hosts.working_copy(), request, Plan(FILTERS)).placements)

    found = near_misses(hosts.working_copy())
    assert bool(found) != placed()
    for each in found:
        less = {
            "vcpus": 4 - each.lacks.get("vcpus", 0),
            "memory_mb": 4096 - each.lacks.get("memory_mb", 0),
            "root_gb": 20 - -(-each.lacks.get("disk_mb", 0) // 1024),
        }
        possible = less["vcpus"] > 0 and less["memory_mb"] > 0 and less["root_gb"] >= 0
        assert each.smaller == possible
        assert not possible or placed(**less)
        for name in less:
            if each.smaller and less[name] < getattr(FLAVOR, name):
                assert not placed(**{**less, name: less[name] + 1})
        assert each.freed
        assert placed_with(hosts, each.lacks)
        for name, amount in each.lacks.items():
            assert not placed_with(hosts, {**each.lacks, name: amount - 1})


def placed_with(hosts, freed):
    """Tell whether the request is placed once so much of the host was given back."""
    copy = hosts.working_copy()
    state = HostState.of(copy, 0)
    state.vcpus_used -= freed.get("vcpus", 0)
    state.free_ram_mb += freed.get("memory_mb", 0)
    state.free_disk_mb += freed.get("disk_mb", 0)
    return bool(decide(copy, Request(REQUEST, ["u"]), Plan(FILTERS)).placements)
