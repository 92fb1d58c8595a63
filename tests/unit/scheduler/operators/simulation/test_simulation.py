# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.simulation: instances come, are built and leave."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.decision import standbys
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.hosts.columns import NUMBERS
from scheduler.hosts.flavor_mix import make_mix
from scheduler.objects.instance import Instance
from scheduler.operators.simulation.arrival import Arrival, make_arrival
from scheduler.operators.simulation.fleet import HostKind, make_hosts
from scheduler.operators.simulation.requested_sizes import RequestedSizes
from scheduler.operators.simulation.simulation import Simulation
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.devices import a_pool, all_of, devices, wanted
from tests.hosts import a_host, a_table

PLAN = Plan([RamFilter(), CoreFilter()], [RAMWeigher()])
SPREAD = lambda hosts, request: decide(hosts, request, PLAN)  # noqa: E731
STACK = lambda hosts, request: decide(  # noqa: E731
    hosts, request, Plan(PLAN.filters, [RAMWeigher(multiplier=-1.0)])
)
# Without a protection as well.
PROTECT = lambda hosts, request: (  # noqa: E731
    standbys.decide(hosts, request, PLAN, request.protection)
    if request.protection
    else decide(hosts, request, PLAN)
)
QUARTER = a_request(vcpus=2, memory_mb=4096, root_gb=0)
HALF = a_request(vcpus=4, memory_mb=8192, root_gb=0)
WHOLE = a_request(vcpus=8, memory_mb=16384, root_gb=0)
FIGURES = ("vcpus_used", "free_ram_mb", "num_instances", "num_io_ops")


def two_hosts():
    return make_hosts([HostKind(2, 8, 16384, 0)])


def arrivals(*given):
    """Return arrivals of (time, spec, instances, lifetime)."""
    return [
        make_arrival(time, spec, number, *rest) for number, (time, spec, *rest) in enumerate(given)
    ]


def figures(hosts, row):
    return tuple(hosts.get(row, name) for name in FIGURES)


def test_instances_take_room_until_one_is_refused():
    simulation = Simulation(two_hosts(), SPREAD)
    trace = arrivals((0, HALF, 3), (1, HALF, 2), (2, HALF, 1))
    result = simulation.run(trace)
    assert (result.requests, result.refused, result.placed_instances) == (3, 1, 4)
    assert result.refused_sizes == {(4, 8192, 0): 2}
    first = result.first_refusal
    assert (first.time, first.requests, first.refused) == (1, 2, 1)
    assert first.usage.used["memory"] == 0.75
    assert (result.end.used["memory"], result.end.empty_hosts) == (1.0, 0)
    assert [each.requests for each in result.samples] == [1, 2, 3]


def test_what_is_stranded_is_measured_by_all_that_is_asked_for():
    result = Simulation(two_hosts(), STACK).run(arrivals((0, HALF, 1), (1, WHOLE, 1)))
    # Half of a host of two is left, of no use for one of two requests.
    assert result.samples[0].usage.stranded["memory"] == 0.125


def test_instances_leave_at_their_time_and_give_all_back():
    hosts = two_hosts()
    before = {name: getattr(hosts, name).tobytes() for name in NUMBERS}
    simulation = Simulation(hosts, SPREAD)
    result = simulation.run(arrivals((0, WHOLE, 2, 10), (9.9, WHOLE, 1), (10, WHOLE, 2, 5)))
    assert (result.refused, result.placed_instances) == (1, 4)
    simulation.advance(15)
    assert {name: getattr(hosts, name).tobytes() for name in NUMBERS} == before
    assert not any(hosts.instances.on(row) for row in hosts.rows())


def test_a_new_instance_is_being_built_for_a_while():
    hosts = two_hosts()
    simulation = Simulation(hosts, STACK, build_time=60)
    simulation.run(arrivals((0, HALF, 1), (10, HALF, 1, 20)))
    assert figures(hosts, 0) == (8, 0, 2, 2)
    # The second one leaves before it is built.
    simulation.advance(59)
    assert figures(hosts, 0) == (4, 8192, 1, 1)
    simulation.advance(1000)
    assert figures(hosts, 0) == (4, 8192, 1, 0)


def test_an_instance_that_moves_leaves_its_old_host():
    hosts = two_hosts()
    simulation = Simulation(hosts, SPREAD)
    (first,) = arrivals((0, WHOLE, 1, 100))
    host = simulation.place(first).placements[0].chosen.row
    (uuid,) = first.request.instance_uuids
    spec = a_request(vcpus=8, memory_mb=16384, root_gb=0, instance_uuid=uuid)
    spec.ignore_hosts = [hosts.get(host, "host")]
    simulation.place(Arrival(5, Request(spec, [uuid]), {uuid: 200}))
    assert figures(hosts, host) == (0, 16384, 0, 0)
    assert figures(hosts, 1 - host) == (8, 0, 1, 0)
    # When it would have left, had it stayed, it is still there.
    simulation.advance(150)
    assert figures(hosts, 1 - host) == (8, 0, 1, 0)
    simulation.advance(200)
    assert figures(hosts, 1 - host) == (0, 16384, 0, 0)


def test_instances_that_were_there_before_may_leave():
    instance = Instance("u1", vcpus=2, memory_mb=4096)
    host = a_host(vcpus_used=2, free_ram_mb=61440, num_instances=1, instances={"u1": instance})
    table = a_table(host)
    simulation = Simulation(table, SPREAD)
    simulation.add_departures({"u1": 5.0, "u2": 6.0})
    simulation.advance(4.9)
    assert figures(table, 0) == (2, 61440, 1, 0)
    simulation.advance(7)
    assert figures(table, 0) == (0, 65536, 0, 0)


def test_devices_are_used_and_given_back():
    table = a_table(a_host(pci_stats=devices(a_pool(2))))
    spec = a_request(vcpus=1, memory_mb=512, root_gb=0, pci_requests=all_of(wanted()))
    simulation = Simulation(table, SPREAD)
    simulation.run(arrivals((0, spec, 1, 10)))
    assert table.get(0, "pci_stats").free() == 1
    simulation.advance(10)
    assert table.get(0, "pci_stats").free() == 2


def test_the_mix_follows_what_is_asked_for():
    hosts = two_hosts()
    simulation = Simulation(hosts, SPREAD, requested=RequestedSizes(800))
    simulation.run(arrivals((0, HALF), (1, WHOLE), (100, HALF), (150, HALF)))
    assert hosts.flavor_mix == make_mix({(4, 8192, 0): 1, (8, 16384, 0): 1})


def test_progress_and_comparison_are_asked_about_every_arrival():
    progress, asked = [], []

    def is_as_decided(number, decision):
        asked.append((number, decision.shortage is None))
        return number != 1

    simulation = Simulation(two_hosts(), SPREAD)
    result = simulation.run(arrivals((0, WHOLE, 2), (1, HALF)), progress.append, is_as_decided)
    assert asked == [(0, True), (1, False)]
    assert (result.as_decided, progress) == (1, [2])
    assert Simulation(two_hosts(), SPREAD).run(arrivals((0, HALF))).as_decided is None


def test_a_result_is_a_document_with_all_facts():
    document = Simulation(two_hosts(), SPREAD).run(arrivals((0, WHOLE, 3))).document()
    assert document["refused_sizes"] == [
        {"vcpus": 8, "memory_mb": 16384, "disk_mb": 0, "instances": 3}
    ]
    assert document["first_refusal"]["usage"]["empty_hosts"] == 2
    assert document["samples"][-1]["usage"]["used"]["vcpus"] == 0.0


EVENTS = st.lists(
    st.tuples(st.floats(0, 5), st.integers(1, 3), st.booleans(), st.none() | st.floats(0, 9)),
    max_size=20,
)


@given(EVENTS, st.sampled_from([0.0, 3.0]))
def test_the_fleet_has_what_its_instances_take_and_nothing_else(events, build_time):
    time, given_ = 0.0, []
    for pause, instances, is_large, lifetime in events:
        time += pause
        rest = (instances,) if lifetime is None else (instances, lifetime)
        given_.append((time, WHOLE if is_large else HALF, *rest))
    hosts = make_hosts([HostKind(3, 8, 16384, 0)])
    simulation = Simulation(hosts, SPREAD, build_time)
    simulation.run(arrivals(*given_))
    for row in hosts.rows():
        here = len(hosts.instances.on(row))
        assert hosts.get(row, "num_instances") == here
        assert 0 <= hosts.get(row, "num_io_ops") <= here
        assert hosts.get(row, "vcpus_used") * 2048 == 16384 - hosts.get(row, "free_ram_mb")
    # Sooner or later all that do not stay have gone.
    simulation.advance(time + 1000)
    assert int(hosts.num_io_ops.sum()) == 0


@given(EVENTS)
def test_standbys_take_room_and_end_with_their_instances(events):
    time, given_ = 0.0, []
    for pause, instances, is_large, lifetime in events:
        time += pause
        given_.append((time, HALF if is_large else QUARTER, instances, lifetime or 9.0))
    hosts = make_hosts([HostKind(6, 8, 16384, 0)], rack_size=2)
    simulation = Simulation(hosts, PROTECT, failover="required")
    result = simulation.run(arrivals(*given_))
    event(f"{min(result.refused, 1)} refused")
    for row in hosts.rows():
        assert 2 * hosts.get(row, "num_instances") <= 8
        assert hosts.get(row, "vcpus_used") <= 8
        assert hosts.get(row, "vcpus_used") * 2048 == 16384 - hosts.get(row, "free_ram_mb")
    simulation.advance(time + 1000)
    assert int(hosts.vcpus_used.sum()) == 0


@pytest.mark.parametrize(
    ("rack_size", "mode", "admitted"),
    [(1, "none", 8), (1, "required", 6), (2, "none", 8), (2, "required", 4)],
)
def test_a_fleet_admits_fewer_instances_with_standbys(rack_size, mode, admitted):
    """Of four hosts one has to be free, or a rack of two."""
    hosts = make_hosts([HostKind(4, 8, 16384, 0)], rack_size)
    trace = arrivals(*((number, HALF, 1) for number in range(12)))
    result = Simulation(hosts, PROTECT, failover=mode).run(trace)
    assert result.placed_instances == admitted


def test_no_hosts_refuse_everything():
    result = Simulation(make_hosts([]), SPREAD).run(arrivals((0, HALF)))
    assert result.refused == 1
    assert result.end.used == pytest.approx({"vcpus": 0, "memory": 0, "disk": 0})
