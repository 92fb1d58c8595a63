# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances and reserves are added up as the field expects."""

from hypothesis import given
from hypothesis import strategies as st

from compute_agent.audit.usage import LARGEST, cells, count, each_once, on_node, stats
from compute_agent.virt.driver import Guest, Size
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from tests.fixtures.agent import a_guest, some_facts

GUESTS = st.lists(
    st.builds(
        Guest,
        uuid=st.uuids().map(str),
        name=st.just("any"),
        vcpus=st.integers(1, 128),
        memory_mb=st.integers(1, 2**20),
        root_gb=st.integers(0, 5000),
        ephemeral_gb=st.integers(0, 5000),
        swap_mb=st.integers(0, 5000),
        vm_state=st.sampled_from(["active", "paused", "stopped"]),
        project_id=st.sampled_from([None, "p1", "p2"]),
    ),
    max_size=20,
)
RESERVED = st.builds(
    Size, vcpus=st.integers(0, 16), memory_mb=st.integers(0, 2**16), disk_mb=st.integers(0, 2**16)
)
KEPT = Size(vcpus=1, memory_mb=512, disk_mb=2048)


def test_guests_that_are_shut_off_count_in_full() -> None:
    guests = [a_guest(n, memory_mb=64, root_gb=1, vm_state="stopped") for n in (1, 2)]
    usage = count(some_facts(memory_mb=3934, local_gb=18), guests, [Size(memory_mb=512)])
    assert (usage["free_ram_mb"], usage["vcpus_used"], usage["free_disk_gb"]) == (3294, 2, 16)


def test_free_figures_go_below_zero() -> None:
    usage = count(some_facts(memory_mb=1000, local_gb=5), [a_guest(memory_mb=1400)])
    assert (usage["free_ram_mb"], usage["free_disk_gb"]) == (-400, -5)


def test_small_swap_disks_add_up_before_they_are_rounded() -> None:
    guests = [a_guest(n, root_gb=0, swap_mb=768) for n in range(4)]
    assert count(some_facts(), guests)["local_gb_used"] == 3
    assert count(some_facts(), guests[:1], [Size(disk_mb=1500)])["local_gb_used"] == 3


def test_an_empty_node_has_its_reserves_taken() -> None:
    usage = count(some_facts(), [], [KEPT])
    assert (usage["vcpus_used"], usage["memory_mb_used"], usage["local_gb_used"]) == (1, 512, 2)
    assert stats([]) == {"io_workload": "0", "num_instances": "0"}


def test_half_a_gib_of_swap_comes_and_goes_without_a_trace() -> None:
    before = [a_guest(1, root_gb=10)]
    after = [*before, a_guest(2, root_gb=0, swap_mb=512)]
    used = [count(some_facts(), guests)["local_gb_used"] for guests in (before, after, before)]
    assert used == [10, 11, 10]


def test_stats_count_by_state_task_system_and_project() -> None:
    guests = [
        a_guest(1, vm_state="building", task_state="spawning", project_id="p1"),
        a_guest(2, task_state="image_snapshot", os_type="linux", project_id="p1"),
        a_guest(3, vm_state="stopped", task_state="powering-on", os_type="windows"),
        a_guest(4, vm_state="error", task_state="", os_type="", project_id=""),
    ]
    assert count(some_facts(), guests)["current_workload"] == 3
    assert stats(guests) == {
        "io_workload": "2",
        "num_instances": "4",
        "num_os_type_None": "2",
        "num_os_type_linux": "1",
        "num_os_type_windows": "1",
        "num_proj_None": "2",
        "num_proj_p1": "2",
        "num_task_None": "1",
        "num_task_image_snapshot": "1",
        "num_task_powering-on": "1",
        "num_task_spawning": "1",
        "num_vm_active": "1",
        "num_vm_building": "1",
        "num_vm_error": "1",
        "num_vm_stopped": "1",
    }


def test_what_the_hypervisor_takes_for_each_guest_counts() -> None:
    guests = [a_guest(1, memory_mb=1000), a_guest(2, memory_mb=3000)]
    usage = count(some_facts(), guests, overhead=lambda guest: Size(1, guest.memory_mb // 10, 1))
    assert (usage["vcpus_used"], usage["memory_mb_used"], usage["local_gb_used"]) == (4, 4400, 21)


def test_no_guest_is_too_large_for_the_columns() -> None:
    monsters = [a_guest(n, vcpus=2**40, memory_mb=2**54, root_gb=2**60) for n in (1, 2)]
    usage = count(some_facts(memory_mb=2**50), monsters)
    assert (usage["vcpus_used"], usage["memory_mb_used"], usage["local_gb_used"]) == (LARGEST,) * 3
    assert (usage["free_ram_mb"], usage["free_disk_gb"]) == (0, 100 - LARGEST)


def test_rows_and_guests_are_put_together() -> None:
    both = a_guest(1, memory_mb=4096, project_id="p1")
    devices = {"pci_addresses": ("0000:0a:00.0",), "device_names": ("ens1f0v1",)}
    seen = a_guest(1, memory_mb=4000, vm_state="stopped", **devices)
    guest, row = a_guest(2), a_guest(3)
    assert on_node([guest, seen], [row, both]) == [
        a_guest(1, memory_mb=4096, project_id="p1", **devices),
        guest,
        row,
    ]


def test_a_guest_says_on_which_cells_it_really_is() -> None:
    planned, real = (InstanceNUMATopology([InstanceNUMACell(each, 64)]) for each in (0, 1))
    (found,) = on_node([a_guest(1, numa=real)], [a_guest(1, numa=planned)])
    assert found.numa == real
    (found,) = on_node([a_guest(1)], [a_guest(1, numa=planned)])
    assert found.numa == planned


def test_an_instance_that_released_its_host_counts_no_more_unless_its_guest_is_there() -> None:
    offloaded = a_guest(1, memory_mb=4096, vm_state="shelved_offloaded")
    deleted = a_guest(2, memory_mb=4096, vm_state="deleted")
    assert on_node([], [offloaded, deleted]) == []
    assert on_node([a_guest(1), a_guest(2)], [offloaded, deleted]) == [a_guest(1), a_guest(2)]
    unshelved = a_guest(1, vm_state="shelved_offloaded", task_state="spawning")
    assert on_node([], [unshelved]) == [unshelved]


def test_of_namesakes_the_largest_counts_whatever_their_order() -> None:
    twins = [a_guest(1, memory_mb=64), a_guest(1, memory_mb=128), a_guest(1, project_id="p1")]
    for each in (twins, twins[::-1]):
        assert each_once([*each, a_guest(0)]) == [a_guest(0), twins[2]]
        assert on_node([*each, a_guest(0)], []) == [a_guest(0), twins[2]]


def test_guests_use_the_cells_that_they_are_on() -> None:
    host = NUMATopology(
        [
            NUMACell(
                id=0,
                memory=8192,
                cpuset={0, 1, 2, 3},
                mempages=[NUMAPagesTopology(4, 1048576), NUMAPagesTopology(2048, 2048)],
            ),
            NUMACell(id=1, memory=8192, cpuset={4, 5, 6, 7}, pcpuset={4, 5, 6, 7}),
        ]
    )
    shared = InstanceNUMACell(id=0, memory=2048, cpuset={0, 1}, pagesize=2048)
    pinned = InstanceNUMACell(
        id=1,
        memory=1024,
        cpuset=set(),
        pcpuset={0, 1},
        cpu_pinning={0: 4, 1: 6},
        cpu_policy="dedicated",
    )
    guests = [a_guest(n, numa=InstanceNUMATopology([e])) for n, e in enumerate((shared, pinned))]
    found = cells(host, [*guests, a_guest(7)])
    assert found is not None
    first, second = found.cells
    assert (first.cpu_usage, first.memory_usage) == (2, 2048)
    assert [pages.used for pages in first.mempages] == [0, 1024]
    assert (second.pinned_cpus, second.memory_usage) == ({4, 6}, 1024)
    # The facts are shared by everybody and stay as they were.
    assert [cell.memory_usage for cell in host.cells] == [0, 0]
    assert cells(host, guests[::-1]) == found
    assert cells(None, guests) is None


@given(GUESTS, RESERVED)
def test_free_and_used_make_up_the_whole(guests: list[Guest], reserved: Size) -> None:
    facts = some_facts()
    usage = count(facts, guests, [reserved])
    assert usage["free_ram_mb"] + usage["memory_mb_used"] == facts.memory_mb
    assert usage["free_disk_gb"] + usage["local_gb_used"] == facts.local_gb


@given(GUESTS, RESERVED)
def test_the_order_of_guests_is_of_no_matter(guests: list[Guest], reserved: Size) -> None:
    facts = some_facts()
    assert count(facts, guests, [reserved]) == count(facts, guests[::-1], [reserved])


@given(GUESTS, GUESTS, RESERVED)
def test_what_comes_and_goes_leaves_no_trace(
    some: list[Guest], others: list[Guest], reserved: Size
) -> None:
    facts = some_facts()
    both = count(facts, some + others, [reserved])
    one = count(facts, some, [reserved])
    rest = count(facts, others)
    assert both["vcpus_used"] - rest["vcpus_used"] == one["vcpus_used"]
    assert both["memory_mb_used"] - rest["memory_mb_used"] == one["memory_mb_used"]
    # Rounded once each, upwards: two roundings give one GiB more at most, and never one less.
    assert 0 <= one["local_gb_used"] + rest["local_gb_used"] - both["local_gb_used"] <= 1


@given(GUESTS, RESERVED)
def test_disk_is_never_understated(guests: list[Guest], reserved: Size) -> None:
    used = count(some_facts(), guests, [reserved])["local_gb_used"] * 1024
    exact = reserved.disk_mb + sum(guest.size.disk_mb for guest in guests)
    assert exact <= used < exact + 1024


@given(GUESTS)
def test_each_guest_is_in_one_state(guests: list[Guest]) -> None:
    counters = stats(guests)
    states = (int(number) for name, number in counters.items() if name.startswith("num_vm_"))
    assert sum(states) == int(counters["num_instances"]) == len(guests)
