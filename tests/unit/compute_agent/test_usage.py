# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances and reserves are added up as the field expects."""

from hypothesis import given
from hypothesis import strategies as st

from compute_agent.usage import count
from compute_agent.virt.driver import Guest, Size
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
    Size,
    vcpus=st.integers(0, 16),
    memory_mb=st.integers(0, 2**16),
    disk_mb=st.integers(0, 2**16),
)
# The instances of Nova's worked example, the one without a local root disk among them; the
# shelved one has no guest.
EXAMPLE = [
    a_guest(1, vcpus=2, memory_mb=4096, root_gb=20, ephemeral_gb=10, swap_mb=1024, project_id="p1"),
    a_guest(2, vcpus=1, memory_mb=2048, root_gb=10, vm_state="stopped", project_id="p1"),
    a_guest(3, vcpus=2, memory_mb=2048, root_gb=10, project_id="p2"),
    a_guest(4, vcpus=1, memory_mb=512, root_gb=1, project_id="p1"),
    a_guest(5, vcpus=1, memory_mb=1024, root_gb=0, project_id="p2"),
]
KEPT = Size(vcpus=1, memory_mb=512, disk_mb=2048)


def test_the_worked_example() -> None:
    usage = count(some_facts(), EXAMPLE, [KEPT])
    assert (usage.vcpus_used, usage.memory_mb_used, usage.local_gb_used) == (8, 10240, 54)
    assert (usage.free_ram_mb, usage.free_disk_gb) == (6144, 46)
    assert (usage.running_vms, usage.current_workload) == (5, 0)
    assert usage.stats == {
        "io_workload": "0",
        "num_instances": "5",
        "num_os_type_None": "5",
        "num_proj_p1": "3",
        "num_proj_p2": "2",
        "num_task_None": "5",
        "num_vm_active": "4",
        "num_vm_stopped": "1",
    }


def test_the_worked_example_after_a_deletion() -> None:
    usage = count(some_facts(), EXAMPLE[:2] + EXAMPLE[3:], [KEPT])
    assert (usage.memory_mb_used, usage.free_ram_mb, usage.running_vms) == (8192, 8192, 4)


def test_guests_that_are_shut_off_count_in_full() -> None:
    guests = [a_guest(n, memory_mb=64, root_gb=1, vm_state="stopped") for n in (1, 2)]
    usage = count(some_facts(memory_mb=3934, local_gb=18), guests, [Size(memory_mb=512)])
    assert (usage.free_ram_mb, usage.vcpus_used, usage.free_disk_gb) == (3294, 2, 16)


def test_free_figures_go_below_zero() -> None:
    usage = count(some_facts(memory_mb=1000, local_gb=5), [a_guest(memory_mb=1400)])
    assert (usage.free_ram_mb, usage.free_disk_gb) == (-400, -5)


def test_small_swap_disks_add_up_before_they_are_rounded() -> None:
    guests = [a_guest(n, root_gb=0, swap_mb=768) for n in range(4)]
    assert count(some_facts(), guests).local_gb_used == 3
    assert count(some_facts(), guests[:1], [Size(disk_mb=1500)]).local_gb_used == 3


def test_an_empty_node_has_its_reserves_taken() -> None:
    usage = count(some_facts(), [], [KEPT])
    assert (usage.vcpus_used, usage.memory_mb_used, usage.local_gb_used) == (1, 512, 2)
    assert usage.stats == {"io_workload": "0", "num_instances": "0"}


@given(GUESTS, RESERVED)
def test_free_and_used_make_up_the_whole(guests: list[Guest], reserved: Size) -> None:
    facts = some_facts()
    usage = count(facts, guests, [reserved])
    assert usage.free_ram_mb + usage.memory_mb_used == facts.memory_mb
    assert usage.free_disk_gb + usage.local_gb_used == facts.local_gb


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
    assert both.vcpus_used - rest.vcpus_used == one.vcpus_used
    assert both.memory_mb_used - rest.memory_mb_used == one.memory_mb_used
    # Rounded once each, upwards: two roundings give one GiB more at most, and never one less.
    assert 0 <= one.local_gb_used + rest.local_gb_used - both.local_gb_used <= 1


@given(GUESTS, RESERVED)
def test_disk_is_never_understated(guests: list[Guest], reserved: Size) -> None:
    used = count(some_facts(), guests, [reserved]).local_gb_used * 1024
    exact = reserved.disk_mb + sum(guest.size.disk_mb for guest in guests)
    assert exact <= used < exact + 1024


@given(GUESTS)
def test_each_guest_is_in_one_state(guests: list[Guest]) -> None:
    stats = count(some_facts(), guests).stats
    states = (int(number) for name, number in stats.items() if name.startswith("num_vm_"))
    assert sum(states) == int(stats["num_instances"]) == len(guests)
