# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Guests and reserves are added up as the field expects; memory comes from one source."""

from hypothesis import given
from hypothesis import strategies as st

from compute_agent.usage import HostMemory, Reserved, count, disagree, host_memory, parse_meminfo
from compute_agent.virt.driver import Guest
from tests.fixtures.agent import a_guest, sample, some_facts

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
    Reserved,
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
KEPT = Reserved(vcpus=1, memory_mb=512, disk_mb=2048)


def test_the_worked_example() -> None:
    usage = count(some_facts(), EXAMPLE, KEPT)
    assert (usage.vcpus_used, usage.memory_mb_used, usage.local_gb_used) == (8, 10240, 54)
    assert (usage.free_ram_mb, usage.free_disk_gb) == (6144, 46)
    assert (usage.running_vms, usage.current_workload) == (5, 0)
    assert usage.stats == {
        "io_workload": "0",
        "num_instances": "5",
        "num_proj_p1": "3",
        "num_proj_p2": "2",
        "num_vm_active": "4",
        "num_vm_stopped": "1",
    }


def test_the_worked_example_after_a_deletion() -> None:
    usage = count(some_facts(), EXAMPLE[:2] + EXAMPLE[3:], KEPT)
    assert (usage.memory_mb_used, usage.free_ram_mb, usage.running_vms) == (8192, 8192, 4)


def test_guests_that_are_shut_off_count_in_full() -> None:
    guests = [a_guest(n, memory_mb=64, root_gb=1, vm_state="stopped") for n in (1, 2)]
    usage = count(some_facts(memory_mb=3934, local_gb=18), guests, Reserved(memory_mb=512))
    assert (usage.free_ram_mb, usage.vcpus_used, usage.free_disk_gb) == (3294, 2, 16)


def test_free_figures_go_below_zero() -> None:
    usage = count(some_facts(memory_mb=1000, local_gb=5), [a_guest(memory_mb=1400)], Reserved())
    assert (usage.free_ram_mb, usage.free_disk_gb) == (-400, -5)


def test_small_swap_disks_add_up_before_they_are_rounded() -> None:
    guests = [a_guest(n, root_gb=0, swap_mb=768) for n in range(4)]
    assert count(some_facts(), guests, Reserved()).local_gb_used == 3
    assert count(some_facts(), guests[:1], Reserved(disk_mb=1500)).local_gb_used == 3


def test_an_empty_node_has_its_reserves_taken() -> None:
    usage = count(some_facts(), [], KEPT)
    assert (usage.vcpus_used, usage.memory_mb_used, usage.local_gb_used) == (1, 512, 2)
    assert usage.stats == {"io_workload": "0", "num_instances": "0"}


@given(GUESTS, RESERVED)
def test_free_and_used_make_up_the_whole(guests: list[Guest], reserved: Reserved) -> None:
    facts = some_facts()
    usage = count(facts, guests, reserved)
    assert usage.free_ram_mb + usage.memory_mb_used == facts.memory_mb
    assert usage.free_disk_gb + usage.local_gb_used == facts.local_gb


@given(GUESTS, RESERVED)
def test_the_order_of_guests_is_of_no_matter(guests: list[Guest], reserved: Reserved) -> None:
    facts = some_facts()
    assert count(facts, guests, reserved) == count(facts, guests[::-1], reserved)


@given(GUESTS, GUESTS, RESERVED)
def test_what_comes_and_goes_leaves_no_trace(
    some: list[Guest], others: list[Guest], reserved: Reserved
) -> None:
    facts = some_facts()
    both = count(facts, some + others, reserved)
    one = count(facts, some, reserved)
    rest = count(facts, others, Reserved())
    assert both.vcpus_used - rest.vcpus_used == one.vcpus_used
    assert both.memory_mb_used - rest.memory_mb_used == one.memory_mb_used
    # Rounded once each, upwards: two roundings give one GiB more at most, and never one less.
    assert 0 <= one.local_gb_used + rest.local_gb_used - both.local_gb_used <= 1


@given(GUESTS, RESERVED)
def test_disk_is_never_understated(guests: list[Guest], reserved: Reserved) -> None:
    used = count(some_facts(), guests, reserved).local_gb_used * 1024
    exact = reserved.disk_mb + sum(guest.disk_mb for guest in guests)
    assert exact <= used < exact + 1024


@given(GUESTS)
def test_each_guest_is_in_one_state(guests: list[Guest]) -> None:
    stats = count(some_facts(), guests, Reserved()).stats
    states = (int(number) for name, number in stats.items() if name.startswith("num_vm_"))
    assert sum(states) == int(stats["num_instances"]) == len(guests)


def test_the_captured_host_has_no_negative_memory() -> None:
    captured = sample("memory-mismatch.json")
    memory = host_memory(captured["proc_meminfo_kib"], captured["libvirt_getInfo_memory_mib"])
    assert memory == HostMemory(
        total_mb=24105, used_mb=captured["consistent_used_mib_memavailable"]
    )


def test_the_captured_meminfo_is_read_whole() -> None:
    figures = parse_meminfo(sample("proc-meminfo.txt"))
    captured = sample("memory-mismatch.json")["proc_meminfo_kib"]
    assert {name: figures[name] for name in captured} == captured
    assert (figures["SwapCached"], figures["HugePages_Total"]) == (0, 0)


def test_old_kernels_do_not_say_what_is_available() -> None:
    captured = sample("memory-mismatch.json")
    meminfo = dict(captured["proc_meminfo_kib"])
    del meminfo["MemAvailable"]
    used = host_memory(meminfo, 6234).used_mb
    assert used == captured["consistent_used_mib_free_buffers_cached"]


def test_without_a_total_libvirt_is_all_there_is() -> None:
    assert host_memory({}, 3072) == HostMemory(3072, None)
    assert host_memory({"MemFree": 1024, "MemTotal": 0}, 3072) == HostMemory(3072, None)


def test_a_missing_figure_counts_nothing() -> None:
    assert host_memory({"MemTotal": 4096}, 1) == HostMemory(4, 4)


def test_a_container_that_sees_less_counts_with_less() -> None:
    assert host_memory({"MemTotal": 2**20, "MemAvailable": 2**19}, 65536) == HostMemory(1024, 512)


@given(
    st.dictionaries(
        st.sampled_from(["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached"]),
        st.integers(0, 2**40),
    ),
    st.integers(0, 2**30),
)
def test_used_memory_is_between_nothing_and_all(meminfo: dict[str, int], libvirt_mb: int) -> None:
    memory = host_memory(meminfo, libvirt_mb)
    assert memory.used_mb is None or 0 <= memory.used_mb <= memory.total_mb


@given(st.text())
def test_no_meminfo_is_too_strange(text: str) -> None:
    assert all(number >= 0 for number in parse_meminfo(text).values())


def test_strange_lines_of_meminfo_are_left_out() -> None:
    text = (
        "MemTotal: 12 kB\nMemFree:\nBuffers: many kB\n: \nCached -3\nCached: -3 kB\n\u00b2: \u00b2"
    )
    assert parse_meminfo(text) == {"MemTotal": 12}


def test_totals_disagree_from_a_tenth_on() -> None:
    assert not disagree(1000, 900)
    assert disagree(1000, 899)
    assert disagree(6234, 24105)
    assert not disagree(0, 0)
