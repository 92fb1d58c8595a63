# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.host_state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.host_state import HostState, assumed_instance
from scheduler.hosts.row_index import EVERY
from scheduler.objects.instance import Instance
from tests.builders import INSTANCE, a_flavor, a_request, an_image
from tests.devices import all_of, wanted
from tests.hosts import a_host, a_table
from tests.numa import a_topology

AMOUNTS = st.integers(0, 10**6)


def test_attributes_are_the_row_of_the_table():
    table = a_table(a_host("h1"), a_host("h2", free_ram_mb=7))
    state = HostState.of(table, 1)
    assert (state.host, state.nodename, state.free_ram_mb) == ("h2", "h2", 7)
    state.free_ram_mb = -5
    assert table.free_ram_mb.tolist() == [65536, -5]


def test_a_host_by_itself_knows_nothing_but_its_name():
    state = HostState("h1", "n1")
    assert (state.host, state.nodename) == ("h1", "n1")
    assert state.total_usable_ram_mb == 0
    assert state.aggregates is None
    assert state.heartbeat_age is None
    assert state.instances == {}
    assert dict(state.limits) == {}


def test_what_is_no_column_stays_on_the_object():
    table = a_table(a_host())
    state = HostState.of(table, 0)
    state.my_own = 1
    assert state.my_own == 1
    with pytest.raises(AttributeError, match="a host has no attribute my_own"):
        _ = HostState.of(table, 0).my_own


def test_limits_and_instances_can_be_assigned_whole():
    table = a_table(a_host("h1", instances=["u1"]), a_host("h2"))
    state = HostState.of(table, 0)
    state.limits = {"vcpu": 4, "numa_topology": "x"}
    state.limits = {"memory_mb": 1}
    assert dict(HostState.of(table, 0).limits) == {"memory_mb": 1.0}
    state.instances = {"u2": Instance(uuid="u2")}
    assert list(state.instances) == ["u2"]
    assert list(table.instances.rows_of("u1")) == []
    assert dict(HostState.of(table, 1).limits) == {}


def test_service_is_what_nova_s_filters_read():
    state = a_host("h1", service_disabled=True, disabled_reason="broken", heartbeat_age=3.5)
    assert state.service == {
        "host": "h1",
        "binary": "nova-compute",
        "topic": "compute",
        "disabled": True,
        "disabled_reason": "broken",
        "forced_down": False,
        "heartbeat_age": 3.5,
    }


@pytest.mark.parametrize(
    ("swap", "left"),
    [
        (0, 87040),
        # Swap counts here as it does in the filter: Nova leaves 87040 then too.
        (2048, 84992),
    ],
)
def test_consumption_worked_case(swap, left):
    # Behaviour reference 3.6.
    state = a_host(
        free_ram_mb=4096,
        free_disk_mb=102400,
        vcpus_used=1,
        num_instances=2,
        num_io_ops=1,
        disk_mb_used=9,
        failed_builds=3,
        stats={"num_instances": "2"},
    )
    state.limits = {"vcpu": 16.0}
    names = NUMBERS | {*OBJECTS}
    before = {name: state.table.get(0, name) for name in names}
    spec = a_request(vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, swap=swap)
    state.consume_from_request(spec)
    after = {name: state.table.get(0, name) for name in names}
    assert {name: after[name] for name in names if after[name] != before[name]} == {
        "free_ram_mb": 3072,
        "free_disk_mb": left,
        "vcpus_used": 3,
        "num_instances": 3,
        "num_io_ops": 2,
    }
    assert dict(state.limits) == {"vcpu": 16.0}
    assert list(state.instances) == [INSTANCE]


def test_an_instance_that_boots_from_a_volume_takes_no_root_disk():
    # Nova charges it root_gb.
    state = a_host(free_disk_mb=102400)
    state.consume_from_request(a_request(root_gb=40, ephemeral_gb=1, is_bfv=True))
    assert state.free_disk_mb == 102400 - 1024


def test_an_instance_without_uuid_is_consumed_and_not_listed():
    state = a_host()
    state.consume_from_request(a_request(instance_uuid=None))
    assert state.num_instances == 1
    assert state.instances == {}


def test_the_instance_is_counted_by_all_that_its_agent_would_report():
    table = a_table(a_host("h1"), a_host("h2"))
    spec = a_request(
        flavor=a_flavor(id=7, name="m1.x"),
        image=an_image(os_distro="windows", hw_numa_nodes=2),
        project_id="p1",
    )
    HostState.of(table, 1).consume_from_request(spec)
    assert table.instances.on(1) == {
        INSTANCE: Instance(
            uuid=INSTANCE,
            host="h2",
            node="h2",
            project_id="p1",
            instance_type_id=7,
            flavor_name="m1.x",
            image_properties={"os_distro": "windows", "hw_numa_nodes": "2"},
        )
    }
    for trait in (EVERY, ("flavor_id", 7), ("image", "hw_numa_nodes", "2")):
        assert table.instances.count(trait, 2).tolist() == [0, 1]
    assert assumed_instance(a_request(), "u1", "h", "n").image_properties == {}


def test_a_bare_metal_node_is_taken_whole():
    state = a_host(hypervisor_type="ironic", vcpus_total=48, num_instances=0)
    state.consume_from_request(a_request(vcpus=1, memory_mb=1))
    assert (state.free_ram_mb, state.free_disk_mb, state.vcpus_used) == (0, 0, 48)
    assert (state.num_instances, state.num_io_ops) == (1, 1)
    assert INSTANCE in state.instances


def test_a_failure_leaves_the_host_as_it_was():
    # Nova keeps what it had changed until then.
    state = a_host(numa_topology=a_topology(), pci_stats="no pools")
    before = [state.table.get(0, name) for name in (*NUMBERS, *OBJECTS)]
    with pytest.raises(AttributeError):
        state.consume_from_request(a_request(pci_requests=all_of(wanted())))
    assert [state.table.get(0, name) for name in (*NUMBERS, *OBJECTS)] == before
    assert state.instances == {}


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.booleans()), max_size=5))
def test_what_is_taken_is_the_sum_of_what_was_asked(requests):
    state = a_host()
    taken = [0, 0, 0]
    for vcpus, memory, root, ephemeral, swap, volume in requests:
        spec = a_request(
            vcpus=vcpus,
            memory_mb=memory,
            root_gb=root,
            ephemeral_gb=ephemeral,
            swap=swap,
            is_bfv=volume,
        )
        state.consume_from_request(spec)
        disk = 1024 * ((0 if volume else root) + ephemeral) + swap
        taken = [taken[0] + vcpus, taken[1] + memory, taken[2] + disk]
    assert state.vcpus_used == taken[0]
    assert 65536 - state.free_ram_mb == taken[1]
    assert 1000 * 1024 - state.free_disk_mb == taken[2]
    assert state.num_instances == state.num_io_ops == len(requests)


def test_representation_names_the_node_and_what_is_left():
    assert repr(a_host(num_io_ops=2)) == (
        "(h1, h1) ram: 65536 MB disk: 1024000 MB vcpus used: 0 io_ops: 2 instances: 0"
    )
