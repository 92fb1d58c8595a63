# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of a node are a pure function of what was found of it."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.audit.row_builder import Move, PollResult, Settings, build_rows
from compute_agent.audit.usage import LARGEST, LARGEST_MB
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory.objects import node_json
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from tests.fixtures.agent import UUID, a_guest, some_facts

HERE, THERE = NodeName("alpha", "alpha"), NodeName("beta", "beta")
RESERVED = Size(vcpus=1, memory_mb=512, disk_mb=2048)
RATIOS = {"cpu_allocation_ratio": None, "initial_cpu_allocation_ratio": 4.0}
SETTINGS = Settings("192.0.2.7", RESERVED, RATIOS)
# The instances of the reference's worked example. F boots from a volume.
A = a_guest(1, vcpus=2, memory_mb=4096, root_gb=20, ephemeral_gb=10, swap_mb=1024, project_id="p1")
B = a_guest(2, vcpus=1, memory_mb=2048, root_gb=10, vm_state="stopped", project_id="p1")
C = a_guest(
    3,
    vcpus=2,
    memory_mb=2048,
    root_gb=10,
    vm_state="building",
    task_state="spawning",
    project_id="p2",
)
D = a_guest(4, vcpus=4, memory_mb=8192, root_gb=40, vm_state="shelved_offloaded", project_id="p1")
E = a_guest(5, vcpus=1, memory_mb=512, root_gb=1, vm_state="error", project_id="p1")
F = a_guest(6, vcpus=1, memory_mb=1024, root_gb=0, project_id="p2")
EXAMPLE = [A, B, C, D, E, F]


def findings(**changes: Any) -> PollResult:
    """Return findings on a node of 8 CPUs, 16384 MiB and 100 GiB without guests."""
    ordinary = {
        "name": HERE,
        "uuid": UUID.format(99),
        "service_id": 7,
        "settings": SETTINGS,
        "facts": some_facts(),
        "guests": [],
    }
    return PollResult(**ordinary | changes)


def row(**changes: Any) -> dict[str, Any]:
    return build_rows(findings(**changes)).row


def picked(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


def test_what_the_database_says_is_put_beside_what_was_seen() -> None:
    found = findings(guests=[A], managed=[B])
    assert (found.guests, found.managed, found.moves) == ([A], [B], [])


USED = ("vcpus_used", "memory_mb_used", "free_ram_mb", "local_gb_used", "free_disk_gb")
COUNTS = ("running_vms", "current_workload")


def test_the_worked_example() -> None:
    found = row(managed=EXAMPLE)
    assert picked(found, *USED, *COUNTS) == [8, 10240, 6144, 54, 46, 5, 1]
    assert json.loads(found["stats"]) == {
        "io_workload": "1",
        "num_instances": "5",
        "num_os_type_None": "5",
        "num_proj_p1": "3",
        "num_proj_p2": "2",
        "num_task_None": "4",
        "num_task_spawning": "1",
        "num_vm_active": "2",
        "num_vm_building": "1",
        "num_vm_error": "1",
        "num_vm_stopped": "1",
    }


def test_the_worked_example_when_c_is_active() -> None:
    found = row(managed=[A, B, replace(C, vm_state="active", task_state=None), D, E, F])
    assert picked(found, *USED, *COUNTS) == [8, 10240, 6144, 54, 46, 5, 0]
    assert json.loads(found["stats"])["io_workload"] == "0"


def test_the_worked_example_when_c_is_deleted() -> None:
    for managed in ([A, B, D, E, F], [A, B, replace(C, vm_state="deleted"), D, E, F]):
        found = row(managed=managed)
        assert picked(found, *USED, *COUNTS) == [6, 8192, 8192, 44, 56, 4, 0]


def test_the_worked_example_when_d_is_unshelved() -> None:
    managed = [A, B, C, replace(D, task_state="spawning"), E, F]
    assert picked(row(managed=managed), *USED, *COUNTS) == [12, 18432, -2048, 94, 6, 6, 2]


def test_the_sample_of_two_stopped_guests() -> None:
    guests = [a_guest(n, memory_mb=64, root_gb=1, vm_state="stopped") for n in (1, 2)]
    found = row(
        facts=some_facts(memory_mb=3934, local_gb=18, disk_available_least=7),
        guests=guests,
        settings=Settings("192.0.2.7", Size(memory_mb=512)),
    )
    assert picked(found, *USED) == [2, 640, 3294, 2, 16]
    assert found["disk_available_least"] == 7


def test_a_resize_in_place_holds_both_sizes_until_it_is_confirmed_or_reverted() -> None:
    old, new = Size(1, 2048, 10240), Size(2, 4096, 20480)
    small = a_guest(1, vcpus=1, memory_mb=2048, root_gb=10, vm_state="active")
    large = a_guest(1, vcpus=2, memory_mb=4096, root_gb=20, vm_state="resized")
    move = Move(small.uuid, HERE, HERE, old, new)
    begun = row(managed=[replace(small, task_state="resize_prep")], moves=[move])
    assert picked(begun, *USED) == [4, 6656, 9728, 32, 68]
    finished = row(managed=[large], moves=[move])
    assert picked(finished, *USED) == [4, 6656, 9728, 32, 68]
    assert finished["running_vms"] == 1
    confirmed = row(managed=[replace(large, vm_state="active")])
    assert confirmed["memory_mb_used"] == 512 + 4096
    reverted = row(managed=[small])
    assert reverted["memory_mb_used"] == 512 + 2048


def test_room_is_kept_at_both_ends_of_a_move() -> None:
    old, new = Size(1, 2048, 10240), Size(2, 4096, 20480)
    coming = row(moves=[Move(A.uuid, THERE, HERE, old, new)])
    assert picked(coming, *USED) == [3, 4608, 11776, 22, 78]
    gone = row(moves=[Move(A.uuid, HERE, THERE, old, new)])
    assert picked(gone, *USED) == [2, 2560, 13824, 12, 88]
    assert coming["running_vms"] == gone["running_vms"] == 0
    # Where it counts as an instance, it counts once.
    assert row(managed=[A], moves=[Move(A.uuid, THERE, HERE, old, new)]) == row(managed=[A])


def test_free_figures_go_below_zero() -> None:
    found = row(
        facts=some_facts(memory_mb=1000, local_gb=5, disk_available_least=-36),
        guests=[a_guest(memory_mb=1400)],
        settings=Settings("192.0.2.7"),
    )
    assert picked(found, "free_ram_mb", "free_disk_gb", "disk_available_least") == [-400, -5, -36]


def test_the_worked_example_of_cells() -> None:
    pages = [NUMAPagesTopology(4, 1048576), NUMAPagesTopology(2048, 2048)]
    host = NUMATopology([NUMACell(id=0, memory=8192, cpuset={0, 1, 2, 3}, mempages=pages)])
    cell = InstanceNUMACell(id=0, memory=2048, cpuset={0, 1}, pagesize=2048)
    guest = a_guest(1, vcpus=2, memory_mb=2048, numa=InstanceNUMATopology([cell]))
    found = row(facts=some_facts(numa=host), guests=[guest, a_guest(2)])
    (used,) = node_json.numa_topology_from_json(found["numa_topology"]).cells  # type: ignore[union-attr]
    assert (used.cpu_usage, used.memory_usage) == (2, 2048)
    assert [(each.size_kb, each.used) for each in used.mempages] == [(4, 0), (2048, 1024)]
    assert row()["numa_topology"] is None


def test_everything_else_is_in_the_row_too() -> None:
    metrics = [{"name": "cpu.percent", "value": 0.01, "timestamp": "t", "source": "s"}]
    facts = some_facts(cpu_info="{}", supported_instances=(("x86_64", "kvm", "hvm"),), booted=1700)
    found = row(facts=facts, metrics=metrics)
    names = ("host", "hypervisor_hostname", "uuid", "service_id", "host_ip")
    assert picked(found, *names) == ["alpha", "alpha", UUID.format(99), 7, "192.0.2.7"]
    assert picked(found, "vcpus", "memory_mb", "local_gb") == [8, 16384, 100]
    assert picked(found, "hypervisor_type", "hypervisor_version") == ["QEMU", 7002022]
    assert found["cpu_info"] == "{}"
    assert json.loads(found["supported_instances"]) == [["x86_64", "kvm", "hvm"]]
    assert json.loads(found["metrics"]) == metrics
    assert json.loads(found["stats"])["booted"] == "1700"
    assert "booted" not in json.loads(row()["stats"])
    assert picked(found, *RATIOS) == [None, 4.0]


def test_each_guest_has_a_row_and_managed_instances_have_none_of_it() -> None:
    guest = a_guest(
        1,
        ephemeral_gb=3,
        swap_mb=512,
        task_state="spawning",
        os_type="linux",
        flavor_id=5,
        flavor_name="m1.tiny",
        image_properties={"b": "2", "a": "1"},
    )
    found = build_rows(findings(guests=[guest], managed=[B]))
    assert found.instances == [
        {
            "uuid": guest.uuid,
            "display_name": "guest1",
            "project_id": None,
            "vcpus": 1,
            "memory_mb": 1024,
            "root_gb": 10,
            "ephemeral_gb": 3,
            "swap_mb": 512,
            "vm_state": "active",
            "task_state": "spawning",
            "os_type": "linux",
            "flavor_id": 5,
            "flavor_name": "m1.tiny",
            "image_properties": '{"a": "1", "b": "2"}',
        }
    ]


def test_what_a_guest_says_of_itself_is_cut_to_what_fits() -> None:
    monster = a_guest(1, name="n" * 999, project_id="p" * 999, memory_mb=2**54, root_gb=2**40)
    facts = some_facts(vcpus=2**33, memory_mb=2**40, local_gb=2**50, disk_available_least=-(2**33))
    found = build_rows(findings(guests=[monster], facts=facts))
    (instance,) = found.instances
    assert picked(instance, "memory_mb", "root_gb") == [LARGEST, LARGEST]
    assert picked(instance, "display_name", "project_id") == ["n" * 255, "p" * 255]
    assert picked(found.row, "vcpus", "memory_mb", "local_gb") == [LARGEST] * 3
    assert found.row["disk_available_least"] == -LARGEST
    assert picked(found.row, "disk_mb_used", "free_disk_mb") == [LARGEST_MB, -LARGEST_MB]
    names = [name for name in found.row if not name.startswith(("disk_mb", "free_disk_mb"))]
    numbers = [each for each in picked(found.row, *names) if isinstance(each, int)]
    assert all(abs(each) <= LARGEST for each in numbers)


def test_what_the_hypervisor_takes_for_each_instance_counts() -> None:
    found = build_rows(findings(guests=[A], managed=[B]), (), lambda guest: Size(memory_mb=100))
    assert found.row["memory_mb_used"] == 512 + 4096 + 2048 + 200


NUMBERS = st.integers(0, 5)
STATES = ["active", "building", "stopped", "resized", "deleted", "shelved_offloaded"]
GUESTS = st.builds(
    Guest,
    uuid=NUMBERS.map(UUID.format),
    name=st.sampled_from(["one", "two"]),
    vcpus=NUMBERS,
    memory_mb=NUMBERS,
    root_gb=NUMBERS,
    swap_mb=NUMBERS,
    vm_state=st.sampled_from(STATES),
    task_state=st.sampled_from([None, "spawning", "rebuilding"]),
    project_id=st.sampled_from([None, "p1"]),
    numa=st.none()
    | st.builds(
        InstanceNUMATopology,
        st.lists(
            st.builds(
                InstanceNUMACell,
                id=st.integers(0, 1),
                memory=NUMBERS,
                cpuset=st.sets(NUMBERS),
                cpu_pinning=st.none() | st.dictionaries(NUMBERS, st.integers(0, 40)),
            ),
            max_size=2,
        ),
    ),
)
ENDS = st.sampled_from([HERE, THERE, None])
SIZES = st.builds(Size, NUMBERS, NUMBERS, NUMBERS)
MOVES = st.builds(Move, NUMBERS.map(UUID.format), ENDS, ENDS, SIZES, SIZES)
CELLS = NUMATopology(
    [
        NUMACell(each, 4096, set(range(20)), set(range(40)), mempages=[NUMAPagesTopology(4, 1000)])
        for each in (0, 1)
    ]
)
FOUND = st.builds(
    findings,
    guests=st.lists(GUESTS, max_size=6),
    # A node has but one row of an instance, and the database tells of its newest move only.
    managed=st.lists(GUESTS, max_size=4, unique_by=lambda guest: guest.uuid),
    moves=st.lists(MOVES, max_size=4, unique_by=lambda move: move.instance_uuid),
    facts=st.sampled_from([some_facts(), some_facts(numa=CELLS)]),
)


@given(FOUND, st.randoms(use_true_random=False))
def test_the_order_of_what_was_found_is_of_no_matter(found: PollResult, random: Random) -> None:
    def shuffled(items: list[Any]) -> list[Any]:
        return random.sample(items, len(items))

    other = replace(
        found,
        guests=shuffled(found.guests),
        managed=shuffled(found.managed),
        moves=shuffled(found.moves),
    )
    first, second = build_rows(found), build_rows(other)
    assert first.row == second.row
    assert first.instances == second.instances


@given(FOUND)
def test_equal_findings_make_equal_rows(found: PollResult) -> None:
    again = replace(found, guests=list(found.guests), facts=replace(found.facts))
    assert build_rows(found).row == build_rows(again).row


@given(FOUND)
def test_the_figures_of_a_row_agree_with_each_other(found: PollResult) -> None:
    row, instances = build_rows(found).row, build_rows(found).instances
    assert row["free_ram_mb"] == row["memory_mb"] - row["memory_mb_used"]
    assert row["free_disk_gb"] == row["local_gb"] - row["local_gb_used"]
    reserved = {"vcpus_used": 1, "memory_mb_used": 512, "local_gb_used": 2}
    assert all(row[name] >= least for name, least in reserved.items())
    stats = {name: int(number) for name, number in json.loads(row["stats"]).items()}
    assert stats["num_instances"] == row["running_vms"] >= len(instances)
    for family in ("num_vm_", "num_task_", "num_os_type_", "num_proj_"):
        assert row["running_vms"] == sum(
            number for name, number in stats.items() if name.startswith(family)
        )
    assert row["current_workload"] == row["running_vms"] - stats.get("num_task_None", 0)
    assert len({each["uuid"] for each in instances}) == len(instances)


@pytest.mark.parametrize("kept", [0, 1500])
def test_reserved_disk_is_rounded_once_with_all_the_rest(kept: int) -> None:
    found = row(settings=Settings("192.0.2.7", Size(disk_mb=kept)), guests=[a_guest(swap_mb=300)])
    # 10 GiB, 300 MiB and what is kept.
    assert found["local_gb_used"] == (11 if kept == 0 else 12)
