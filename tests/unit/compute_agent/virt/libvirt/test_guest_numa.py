# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where guests are on their host, from what their domains say to the usage of its cells."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.virt.libvirt.guest_numa import placed
from compute_agent.virt.libvirt.host_cells import HostCells
from inventory.numa.cells import with_usage
from inventory.objects.numa import InstanceNUMACell, NUMACell, NUMAPagesTopology, NUMATopology
from tests.unit.compute_agent.virt.libvirt.domain import (
    TWO_CELLS,
    bound,
    guest_cells,
    huge,
    noted,
    pinned,
    read,
)

PAGES_2M = "<page size='2048' unit='KiB'/>"


def a_host(*cells: NUMACell, default_pages_kib: int | None = None) -> HostCells:
    """Return a host; without cells one with two of them, 8 CPUs and 8192 MiB each."""
    found = list(cells) or [a_host_cell(0, range(8)), a_host_cell(1, range(8, 16))]
    cpus = {cell.id: frozenset(cell.cpuset | cell.pcpuset) for cell in found}
    return HostCells(NUMATopology(found), cpus, default_pages_kib)


def a_host_cell(number: int, cpus: range, dedicated: range | None = None) -> NUMACell:
    sizes = {4: 2**20, 2048: 2048, 2**20: 2}
    return NUMACell(
        id=number,
        memory=8192,
        cpuset=set(cpus),
        pcpuset=set(cpus if dedicated is None else dedicated),
        siblings=[{cpu, cpu + 1} for cpu in cpus if cpu % 2 == 0],
        mempages=[NUMAPagesTopology(size, total) for size, total in sizes.items()],
    )


def on(host: HostCells, *parts: str) -> dict[int, InstanceNUMACell]:
    """Return the guest's cells on a host by their ids, of which there are no two alike here."""
    numa = placed(read(*parts), host)
    return {} if numa is None else {cell.id: cell for cell in numa.cells}


def test_pinned_cpus_in_two_cells() -> None:
    found = on(a_host(), TWO_CELLS, pinned("2", "3", "10", "11", emulator="2-3,10-11"))
    assert found[0] == InstanceNUMACell(
        id=0, memory=2048, pcpuset={0, 1}, cpu_pinning={0: 2, 1: 3}, cpu_policy="dedicated"
    )
    assert (found[1].cpu_pinning, found[1].memory) == ({2: 10, 3: 11}, 2048)


def test_some_cpus_pinned_and_some_floating() -> None:
    parts = bound("1", "1"), guest_cells("0-3", mib=4096), pinned("8-15", "9", "", "11")
    assert on(a_host(), *parts)[1] == InstanceNUMACell(
        id=1,
        memory=4096,
        cpuset={0, 2},
        pcpuset={1, 3},
        cpu_pinning={1: 9, 3: 11},
        cpu_policy="mixed",
    )


def test_isolated_cores_are_taken_whole() -> None:
    numa = placed(read(pinned("2"), metadata=noted("hw:cpu_thread_policy=isolate")), a_host())
    assert numa is not None
    assert with_usage(a_host().numa, numa).cells[0].pinned_cpus == {2, 3}


def test_nothing_is_placed_on_a_host_without_cells() -> None:
    assert placed(read(TWO_CELLS), None) is None
    assert placed(read(TWO_CELLS), HostCells(NUMATopology(), {})) is None


def test_pinned_cpus_tell_the_cell() -> None:
    assert on(a_host(), pinned("9", "10", "11", "12")) == {
        1: InstanceNUMACell(
            id=1,
            memory=4096,
            pcpuset={0, 1, 2, 3},
            cpu_pinning={0: 9, 1: 10, 2: 11, 3: 12},
            cpu_policy="dedicated",
        )
    }


def test_pinned_cpus_in_several_cells_count_where_they_are_and_memory_where_most_are() -> None:
    found = on(a_host(), pinned("7", "8", "9"))
    assert found[0] == InstanceNUMACell(
        id=0, memory=0, pcpuset={0}, cpu_pinning={0: 7}, cpu_policy="dedicated"
    )
    assert found[1] == InstanceNUMACell(
        id=1, memory=4096, cpuset={3}, pcpuset={1, 2}, cpu_pinning={1: 8, 2: 9}, cpu_policy="mixed"
    )


def test_memory_stays_where_the_domain_binds_it() -> None:
    found = on(a_host(), bound("0"), pinned("8", "9", "10", "11"))
    assert (found[0].memory, found[0].cpu_policy) == (4096, "shared")
    assert (found[1].memory, found[1].cpu_pinning) == (0, {0: 8, 1: 9, 2: 10, 3: 11})


@pytest.mark.parametrize("parts", [pinned("1"), bound("0-1") + pinned("99"), bound("7")])
def test_on_a_host_with_one_cell_there_is_no_doubt(parts: str) -> None:
    found = on(a_host(a_host_cell(3, range(4))), parts)
    assert [(number, cell.memory) for number, cell in found.items()] == [(3, 4096)]


@pytest.mark.parametrize("parts", [bound("7"), pinned("99")])
def test_what_is_on_no_cell_of_the_host_counts_on_none(parts: str) -> None:
    assert on(a_host(), parts) == {}


def test_cpus_that_the_host_does_not_have_are_left_out() -> None:
    found = on(a_host(), bound("0"), pinned("1", "99"))
    assert (found[0].pcpuset, found[0].cpu_pinning) == ({0}, {0: 1})


def test_only_a_cpu_for_pinning_is_the_emulators_own() -> None:
    # The CPUs 0 and 1 are for floating guests and for what emulator threads share.
    host = a_host(a_host_cell(0, range(2), dedicated=range(2, 8)), a_host_cell(1, range(8, 16)))
    assert on(host, bound("0"), pinned("4", emulator="0"))[0].cpuset_reserved is None
    assert on(host, bound("0"), pinned("4", emulator="5"))[0].cpuset_reserved == {5}
    far = on(host, bound("0"), pinned("4", emulator="9"))
    assert (far[0].cpuset_reserved, far[1].cpuset_reserved, far[1].memory) == (None, {9}, 0)


def with_pages(number: int = 0, **totals: int) -> NUMACell:
    """Return a host cell with so many pages of sizes such as kib2048."""
    sizes = {int(name.removeprefix("kib")): total for name, total in totals.items()}
    pages = [NUMAPagesTopology(size, total) for size, total in sizes.items()]
    return replace(a_host_cell(number, range(8 * number, 8 * number + 8)), mempages=pages)


X86 = with_pages(kib4=2**20, kib2048=2048, kib1048576=2)
# aarch64 with pages of 64 KiB.
ARM = with_pages(kib64=2**20, kib2048=0, kib524288=24, kib16777216=0)
NO_HUGE = with_pages(kib4=2**20, kib2048=0, kib1048576=0)


@pytest.mark.parametrize(
    ("cell", "default", "expected"),
    [
        (X86, 2048, 2048),
        # Chosen when the machine was booted.
        (X86, 2**20, 2**20),
        (ARM, 524288, 524288),
        # Nobody knows, or no guest can have it: the smallest of which there are any.
        (X86, None, 2048),
        (ARM, None, 524288),
        (ARM, 2048, 524288),
        (NO_HUGE, 2048, None),
        (with_pages(kib4=2**20), 2048, None),
    ],
)
def test_huge_pages_without_a_size_are_the_hosts_default(
    cell: NUMACell, default: int | None, expected: int | None
) -> None:
    host = a_host(cell, default_pages_kib=default)
    assert on(host, huge())[0].pagesize == expected
    assert on(host, bound("0"), huge())[0].pagesize == expected


def test_pages_of_aarch64_are_taken_where_the_guest_has_them() -> None:
    host = a_host(ARM, default_pages_kib=524288)
    numa = placed(read(huge()), host)
    assert numa is not None
    used = {pages.size_kb: pages.used for pages in with_usage(host.numa, numa).cells[0].mempages}
    assert used == {64: 0, 2048: 0, 524288: 8, 16777216: 0}


@pytest.mark.parametrize(
    "parts",
    [
        huge(PAGES_2M),
        huge(),
        bound("0-1") + huge(),
        huge() + guest_cells("0-1", "2-3"),
        "<memoryBacking><hugepages/><source type='memfd'/><access mode='shared'/></memoryBacking>",
    ],
)
def test_a_guest_with_huge_pages_is_somewhere_on_a_host_with_one_cell(parts: str) -> None:
    numa = placed(read(parts), a_host(X86))
    assert numa is not None
    cell = with_usage(a_host(X86).numa, numa).cells[0]
    assert (cell.cpu_usage, cell.memory_usage) == (4, 4096)
    assert [pages.used for pages in cell.mempages] == [0, 2048, 0]
    # Where there are several cells, nobody knows which of them it is on.
    assert placed(read(parts), a_host()) is None


@pytest.mark.parametrize(
    ("parts", "default"),
    [
        (huge(PAGES_2M), None),
        (huge(), 2048),
        (huge(), None),
        (bound("0-1") + huge(PAGES_2M), 2048),
        # What floats on both cells, or is pinned on the other, finds its pages far away.
        (huge(PAGES_2M) + pinned("0-15", "0-15", "0-15", "0-15"), None),
        (huge(PAGES_2M) + pinned("9", "10", "11", "12"), None),
    ],
)
def test_the_only_cell_with_pages_of_a_size_is_where_they_are(
    parts: str, default: int | None
) -> None:
    host = a_host(X86, with_pages(1, kib4=2**20, kib2048=0), default_pages_kib=default)
    numa = placed(read(parts), host)
    assert numa is not None
    near, far = with_usage(host.numa, numa).cells
    assert [pages.used for pages in near.mempages] == [0, 2048, 0]
    assert [pages.used for pages in far.mempages] == [0, 0]
    assert (near.memory_usage, far.memory_usage) == (4096, 0)
    # CPUs that float may be on either cell.
    assert (near.cpu_usage, far.cpu_usage) == (0, 0)


def test_pages_of_the_default_size_are_not_where_only_others_are() -> None:
    host = a_host(with_pages(kib4=2**20, kib1048576=8), with_pages(1, kib4=2**20, kib2048=2048))
    assert [*on(host, huge())] == []
    assert [*on(replace(host, default_pages_kib=2048), huge())] == [1]


@pytest.mark.parametrize(
    "parts",
    [
        pinned("8-15", "8-11", "12", "8-9"),
        huge() + "<vcpus/>" + pinned("8-15", "8-15", "8-15", "8-15"),
        bound("0-1") + pinned("8-15", "8-15", "8-15", "8-15"),
        huge() + pinned(emulator="8-9"),
        huge() + pinned("0-15", "0-15", "0-15", "0-15", emulator="8-9"),
    ],
)
def test_cpus_that_are_all_of_one_cell_tell_it(parts: str) -> None:
    assert [(number, cell.memory) for number, cell in on(a_host(), parts).items()] == [(1, 4096)]


def test_cpus_that_are_the_hosts_own_tell_the_cell_as_well() -> None:
    # The first two CPUs of each cell are for no guest.
    cells = a_host_cell(0, range(2, 8)), a_host_cell(1, range(10, 16))
    host = replace(a_host(*cells), cpus={0: frozenset(range(8)), 1: frozenset(range(8, 16))})
    assert on(host, pinned("8-9", "8-9", "8-9", "8-9"))[1].memory == 4096
    found = on(host, pinned("8", "9", "8", "9"))[1]
    assert (found.memory, found.cpuset, found.cpu_pinning) == (4096, set(), None)


def shared_and_dedicated() -> HostCells:
    """Return two cells: CPU 0 is the only one for floating guests, the others are for pinned."""
    return a_host(
        a_host_cell(0, range(1), dedicated=range(1, 8)),
        a_host_cell(1, range(0), dedicated=range(8, 16)),
    )


@pytest.mark.parametrize("metadata", ["", noted("hw:numa_nodes=1"), noted("hw:cpu_policy=shared")])
def test_guests_on_the_only_shared_cpu_of_a_cell_float(metadata: str) -> None:
    host = shared_and_dedicated()
    guest = read(bound("0", "0"), guest_cells("0-3"), pinned("0", "0", "0", "0"), metadata=metadata)
    numa = placed(guest, host)
    assert numa is not None
    near, far = with_usage(host.numa, numa).cells
    assert (near.cpu_usage, near.pinned_cpus) == (4, set())
    assert (far.cpu_usage, far.pinned_cpus) == (0, set())


def test_of_a_mixed_guest_only_the_dedicated_cpus_are_pinned() -> None:
    host = shared_and_dedicated()
    parts = bound("0", "0"), guest_cells("0-3"), pinned("0", "0", "4", "5")
    numa = placed(read(*parts, metadata=noted("hw:cpu_policy=mixed")), host)
    assert numa is not None
    (cell,) = numa.cells
    assert (cell.cpuset, cell.cpu_pinning, cell.cpu_policy) == ({0, 1}, {2: 4, 3: 5}, "mixed")


@pytest.mark.parametrize(
    ("flavor", "image", "floating"),
    [
        ("hw:cpu_dedicated_mask=1", "", {0}),
        ("hw:cpu_dedicated_mask=^0", "", {0}),
        ("hw:cpu_realtime=yes hw:cpu_realtime_mask=^0", "", {0}),
        ("hw:cpu_realtime=True hw:cpu_realtime_mask=1", "hw_cpu_realtime_mask=^1", {1}),
        # No real time, so that its mask says nothing; and what Nova would refuse.
        ("hw:cpu_realtime=no hw:cpu_realtime_mask=^0", "", set()),
        ("hw:cpu_realtime_mask=^0", "", set()),
        ("hw:cpu_dedicated_mask=odd", "", set()),
        ("", "", set()),
    ],
)
def test_a_mixed_guest_on_the_only_cpu_of_a_cell(
    flavor: str, image: str, floating: set[int]
) -> None:
    host = a_host(a_host_cell(0, range(1)))
    notes = noted(f"hw:cpu_policy=mixed {flavor}", image)
    online = "<vcpus><vcpu id='0' enabled='yes'/><vcpu id='1' enabled='yes'/></vcpus>"
    parts = bound("0", "0"), guest_cells("0-1"), online, pinned("0", "0")
    numa = placed(read(*parts, metadata=notes), host)
    assert numa is not None
    (cell,) = with_usage(host.numa, numa).cells
    assert (cell.cpu_usage, cell.pinned_cpus) == (len(floating), {0})
    pins = dict.fromkeys({0, 1} - floating, 0)
    assert [(each.cpuset, each.cpu_pinning) for each in numa.cells] == [(floating, pins)]


def test_cpus_float_where_they_are_and_memory_is_where_it_is_bound() -> None:
    found = on(shared_and_dedicated(), bound("1"), pinned("0", "8", "9", "10"))
    assert (found[0].cpuset, found[0].memory, found[0].cpu_policy) == ({0}, 0, "shared")
    assert (found[1].pcpuset, found[1].memory) == ({1, 2, 3}, 4096)


def test_worked_example() -> None:
    """Two floating CPUs and 2048 MiB in pages of 2 MiB, on a cell with 4 CPUs and 8192 MiB."""
    host = a_host(a_host_cell(0, range(4)))
    cpus = "<vcpus><vcpu id='0' enabled='yes'/><vcpu id='1' enabled='yes'/></vcpus>"
    numa = placed(read(bound("0", "0"), guest_cells("0-1"), cpus, huge(PAGES_2M)), host)
    assert numa is not None
    cell = with_usage(host.numa, numa).cells[0]
    used = {pages.size_kb: pages.used for pages in cell.mempages}
    assert (cell.cpu_usage, cell.memory_usage, used) == (2, 2048, {4: 0, 2048: 1024, 2**20: 0})


@given(st.lists(st.sampled_from(["", "0-7", *map(str, range(20))]), max_size=6), st.booleans())
def test_placing_neither_loses_nor_invents_anything(pins: list[str], crossed: bool) -> None:
    host = a_host()
    cells = read(bound("0-1", *("10" if crossed else "01")), guest_cells("0-1", "2"), pinned(*pins))
    found = placed(cells, host)
    assert found is not None
    assert sum(cell.memory for cell in found.cells) == 4096
    assert sum(len(cell.cpuset) for cell in found.cells) == sum(len(cell.cpus) for cell in cells)
    assert found.cpu_pinning == {cpu for cell in cells for cpu in cell.pins.values() if cpu < 16}
    for cell in found.cells:
        assert {*(cell.cpu_pinning or {}).values()} <= host.numa.cells[cell.id].pcpuset
        assert {*(cell.cpu_pinning or {})} == cell.pcpuset
