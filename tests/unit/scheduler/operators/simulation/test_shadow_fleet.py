# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.shadow_fleet."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.ram import RamFilter
from scheduler.hosts.columns import NUMBERS
from scheduler.objects.instance import Instance
from scheduler.operators.simulation.arrival import Arrival
from scheduler.operators.simulation.fleet import HostKind, make_hosts
from scheduler.operators.simulation.shadow_fleet import ShadowFleet
from scheduler.operators.simulation.simulation import Simulation
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request

SIZE = 4096
STACKING = Plan([RamFilter()], [RAMWeigher(multiplier=-1.0)])


def stack(hosts, request):
    return decide(hosts, request, STACKING)


def a_fleet():
    """Return three empty hosts with room for four instances each."""
    return make_hosts([HostKind(3, 8, 4 * SIZE, 0)])


def put(hosts, uuid, row, memory_mb=SIZE, state="active"):
    """Put an instance on a real host, as an agent or a claim does."""
    host = hosts.get(row, "host")
    size = {"vcpus": 1, "memory_mb": memory_mb, "root_gb": 0}
    instance = Instance(uuid, host=host, node=host, vm_state=state, **size)
    hosts.instances.add(row, uuid, instance)
    change(hosts, row, memory_mb, 1)
    if state == "building":
        hosts.set(row, "num_io_ops", hosts.get(row, "num_io_ops") + 1)


def leave(hosts, uuid):
    """Remove an instance from the real hosts."""
    for row in [*hosts.instances.rows_of(uuid)]:
        change(hosts, row, -hosts.instances.on(row)[uuid].memory_mb, -1)
        hosts.instances.change(row, {}, [uuid])


def change(hosts, row, memory_mb, count):
    for name, by in (("free_ram_mb", -memory_mb), ("vcpus_used", count), ("num_instances", count)):
        hosts.set(row, name, hosts.get(row, name) + by)


def ask(fleet, view, uuid, memory_mb=SIZE):
    request = Request(a_request(vcpus=1, memory_mb=memory_mb, root_gb=0), [uuid])
    decision = fleet.decide(view, request, stack)
    return [each.chosen.host for each in decision.placements]


def counts(hosts):
    return [hosts.get(row, "num_instances") for row in hosts.rows()]


def test_instances_are_where_the_shadow_has_put_them():
    real, fleet = a_fleet(), ShadowFleet()
    put(real, "old", 2)
    for number in range(3):
        put(real, f"new{number}", number)
    view = fleet.view(real, {f"new{number}" for number in range(3)})
    assert counts(view) == [0, 0, 1]
    assert [ask(fleet, view, f"new{number}") for number in range(3)] == 3 * [["host-00003"]]
    assert counts(fleet.view(real)) == [0, 0, 4]
    # Nothing of it is done to the real hosts.
    assert counts(real) == [1, 1, 2]
    # What is there from before leaves, and what was placed elsewhere.
    leave(real, "old")
    leave(real, "new0")
    assert counts(fleet.view(real)) == [0, 0, 2]
    # What takes more than before does so there.
    leave(real, "new1")
    put(real, "new1", 1, 2 * SIZE)
    assert fleet.view(real).get(2, "free_ram_mb") == SIZE


def test_what_is_being_built_counts_so_where_the_shadow_has_put_it():
    real, fleet = a_fleet(), ShadowFleet()
    put(real, "old", 0, state="building")
    put(real, "new", 1, state="building")
    view = fleet.view(real, {"new"})
    assert view.num_io_ops.tolist() == [1, 0, 0]
    ask(fleet, view, "new")
    assert fleet.view(real).num_io_ops.tolist() == [2, 0, 0]
    leave(real, "new")
    real.set(1, "num_io_ops", 0)
    put(real, "new", 1)
    assert fleet.view(real).num_io_ops.tolist() == [1, 0, 0]


def test_what_only_one_of_them_has_placed_is_on_no_other_fleet():
    real, fleet = a_fleet(), ShadowFleet()
    # Refused for real, placed by the shadow.
    view = fleet.view(real, {"one"})
    assert ask(fleet, view, "one") == ["host-00001"]
    assert counts(fleet.view(real)) == [0, 0, 0]
    # Placed for real, refused by the shadow.
    put(real, "two", 0, 4 * SIZE)
    view = fleet.view(real, {"two"})
    assert ask(fleet, view, "two", 5 * SIZE) == []
    assert counts(fleet.view(real)) == [0, 0, 0]
    assert fleet.view(real).get(0, "free_ram_mb") == 4 * SIZE


def test_a_host_that_is_gone_has_nothing_on_it():
    real, fleet = a_fleet(), ShadowFleet()
    put(real, "one", 1)
    ask(fleet, fleet.view(real, {"one"}), "one")
    real.remove(0)
    assert counts(fleet.view(real)) == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3), st.booleans()), max_size=25))
def test_it_is_the_fleet_that_a_simulation_would_have(steps):
    """A simulation with the same rules, in which the same instances come and leave."""
    real, fleet = make_hosts([HostKind(9, 64, 1024 * SIZE, 0)]), ShadowFleet()
    simulated = Simulation(real.detached(), stack)
    there: list[str] = []
    leaving: dict[int, str] = {}
    for time, (number, _, leaves) in enumerate(steps):
        if leaves and there:
            leaving[time] = there.pop(number % len(there))
        else:
            there.append(f"new{time}")
    ends = {uuid: time for time, uuid in leaving.items()}
    for time, (number, size, _) in enumerate(steps):
        if time in leaving:
            leave(real, leaving[time])
            simulated.advance(time)
            continue
        uuid = f"new{time}"
        put(real, uuid, number, size * SIZE)
        request = Request(a_request(vcpus=1, memory_mb=size * SIZE, root_gb=0), [uuid])
        fleet.decide(fleet.view(real, {uuid}), request, stack)
        simulated.place(Arrival(time, request, {uuid: ends[uuid]} if uuid in ends else {}))
    view = fleet.view(real)
    for name in NUMBERS:
        assert getattr(view, name).tobytes() == getattr(simulated.hosts, name).tobytes(), name
    for row in view.rows():
        assert {*view.instances.on(row)} == {*simulated.hosts.instances.on(row)}
