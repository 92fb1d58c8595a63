# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where guests are on their host, from domains of every kind to the usage of its cells."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.virt.libvirt import domain_numa, nova_metadata
from compute_agent.virt.libvirt.domain_numa import UNPLACED, placed
from inventory.numa.cells import LARGE, with_usage
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.domain import a_domain, noted

Cells = list[InstanceNUMACell]


def read(*parts: str, devices: str = "", metadata: str = "") -> InstanceNUMATopology | None:
    root = ElementTree.fromstring(a_domain(*parts, devices=devices, metadata=metadata))
    return domain_numa.read(root, 4, 4096, nova_metadata.read(root.find("metadata")))


def cells(*parts: str, devices: str = "", metadata: str = "") -> Cells:
    found = read(*parts, devices=devices, metadata=metadata)
    assert found is not None
    return found.cells


def pinned(*pins: str, emulator: str = "") -> str:
    """Return the pinning of the guest CPUs 0, 1 and so on; "" leaves one out."""
    lines = [f"<vcpupin vcpu='{cpu}' cpuset='{on}'/>" for cpu, on in enumerate(pins) if on]
    if emulator:
        lines.append(f"<emulatorpin cpuset='{emulator}'/>")
    return f"<cputune><shares>4096</shares>{''.join(lines)}</cputune>"


def bound(memory: str, *cells: str) -> str:
    """Return the host cells of the memory and of the guest's cells 0, 1 and so on."""
    lines = [
        f"<memnode cellid='{cell}' mode='strict' nodeset='{on}'/>" for cell, on in enumerate(cells)
    ]
    return f"<numatune><memory mode='strict' nodeset='{memory}'/>{''.join(lines)}</numatune>"


def guest_cells(*cpus: str, mib: int = 2048) -> str:
    lines = [
        f"<cell id='{cell}' cpus='{each}' memory='{mib * 1024}' unit='KiB'/>"
        for cell, each in enumerate(cpus)
    ]
    return f"<cpu mode='host-model'><numa>{''.join(lines)}</numa></cpu>"


def huge(*pages: str) -> str:
    return f"<memoryBacking><hugepages>{''.join(pages)}</hugepages></memoryBacking>"


def a_host(*cells: NUMACell) -> NUMATopology:
    """Return a host; without cells one with two of them, 8 CPUs and 8192 MiB each."""
    return NUMATopology(list(cells) or [a_host_cell(0, range(8)), a_host_cell(1, range(8, 16))])


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


# Nova's form of a guest with two cells, each on one of the host.
TWO_CELLS = bound("0-1", "0", "1") + guest_cells("0-1", "2-3")


@pytest.mark.parametrize(
    "part",
    [
        "",
        "<vcpu placement='static' cpuset='3'>4</vcpu>",
        guest_cells("0-1", "2-3"),
        huge(),
        pinned(emulator="3"),
        pinned("0-7", "0-7", "0-7", "0-7", emulator="0-7"),
        "<numatune><memory mode='strict' placement='auto'/></numatune>",
        bound("0-1"),
        bound("nowhere"),
        "<cputune><vcpupin/><vcpupin vcpu='0'/><vcpupin cpuset='1'/></cputune>",
        "<cputune><vcpupin vcpu='16385' cpuset='1'/></cputune>",
    ],
)
def test_a_guest_that_is_bound_to_nothing_has_no_topology(part: str) -> None:
    assert read(part) is None
    assert placed(read(part), a_host()) is None


@pytest.mark.parametrize(
    "name", ["domain-qemu-system-t1.xml", "domain-memory-hotplug.xml", "domain-test-default.xml"]
)
def test_captured_guests_are_bound_to_nothing(name: str) -> None:
    root = ElementTree.fromstring(sample(name))
    assert domain_numa.read(root, 1, 64, nova_metadata.NovaMetadata()) is None


def test_floating_cpus_in_two_cells() -> None:
    pins = pinned("0-7", "0-7", "8-15", "8-15", emulator="0-15")
    assert cells(TWO_CELLS, pins) == [
        InstanceNUMACell(id=0, memory=2048, cpuset={0, 1}, cpu_policy="shared"),
        InstanceNUMACell(id=1, memory=2048, cpuset={2, 3}, cpu_policy="shared"),
    ]


def test_cells_may_be_crossed() -> None:
    crossed = bound("0-1", "1", "0") + guest_cells("0-2", "3")
    assert [(cell.id, cell.cpuset) for cell in cells(crossed)] == [(1, {0, 1, 2}), (0, {3})]


def test_pinned_cpus_in_two_cells() -> None:
    assert cells(TWO_CELLS, pinned("2", "3", "10", "11", emulator="2-3,10-11")) == [
        InstanceNUMACell(
            id=0, memory=2048, pcpuset={0, 1}, cpu_pinning={0: 2, 1: 3}, cpu_policy="dedicated"
        ),
        InstanceNUMACell(
            id=1, memory=2048, pcpuset={2, 3}, cpu_pinning={2: 10, 3: 11}, cpu_policy="dedicated"
        ),
    ]


def test_some_cpus_pinned_and_some_floating() -> None:
    assert cells(bound("1", "1"), guest_cells("0-3", mib=4096), pinned("8-15", "9", "", "11")) == [
        InstanceNUMACell(
            id=1,
            memory=4096,
            cpuset={0, 2},
            pcpuset={1, 3},
            cpu_pinning={1: 9, 3: 11},
            cpu_policy="mixed",
        )
    ]


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ("hw:cpu_policy=shared", "", None),
        ("", "hw_cpu_policy=shared", None),
        ("hw:cpu_policy=dedicated", "hw_cpu_policy=shared", {0: 5}),
        ("hw:numa_nodes=1", "", {0: 5}),
    ],
)
def test_nova_tells_that_a_single_cpu_is_shared(
    flavor: str, image: str, expected: dict[int, int] | None
) -> None:
    # The host cell has one CPU that is not reserved.
    parts = bound("0", "0") + guest_cells("0") + pinned("5")
    assert cells(parts, metadata=noted(flavor, image))[0].cpu_pinning == expected


@pytest.mark.parametrize(
    ("flavor", "expected"),
    [
        ("hw:cpu_thread_policy=isolate", "isolate"),
        ("hw:cpu_thread_policy=require", "require"),
        ("hw:cpu_thread_policy=prefer", "prefer"),
        ("hw:cpu_thread_policy=odd", None),
        ("", None),
    ],
)
def test_nova_tells_the_thread_policy(flavor: str, expected: str | None) -> None:
    (cell,) = cells(bound("0"), pinned("1", "3"), metadata=noted(flavor))
    assert cell.cpu_thread_policy == expected


def test_isolated_cores_are_taken_whole() -> None:
    numa = placed(read(pinned("2"), metadata=noted("hw:cpu_thread_policy=isolate")), a_host())
    assert numa is not None
    assert with_usage(a_host(), numa).cells[0].pinned_cpus == {2, 3}


@pytest.mark.parametrize(
    ("flavor", "emulator", "expected"),
    [
        # One that no guest CPU has is the emulator's own unless Nova says otherwise.
        ("", "6", {6}),
        ("hw:emulator_threads_policy=isolate", "6", {6}),
        ("hw:emulator_threads_policy=isolate", "5-6", {5, 6}),
        ("hw:emulator_threads_policy=share", "6", None),
        # The guest's own CPUs, or one of them for a guest of real time.
        ("", "1-2", None),
        ("", "1", None),
        # CPUs that are for the emulator threads of all guests.
        ("", "6-7", None),
        ("", "", None),
    ],
)
def test_a_cpu_for_the_emulator_threads(
    flavor: str, emulator: str, expected: set[int] | None
) -> None:
    parts = bound("0-1", "0", "1") + guest_cells("0", "1-3") + pinned("1", "2", emulator=emulator)
    first, second = cells(parts, metadata=noted(flavor))
    assert (first.cpuset_reserved, second.cpuset_reserved) == (expected, None)


@pytest.mark.parametrize(
    ("numatune", "expected"),
    [
        (bound("1"), [1, 1]),
        (bound("1", "0"), [0, 1]),
        (bound("0-1", "0"), [0, UNPLACED]),
        ("<numatune><memnode cellid='1' mode='preferred' nodeset='0'/></numatune>", [UNPLACED, 0]),
    ],
)
def test_which_host_cell_a_guest_cell_is_on(numatune: str, expected: list[int]) -> None:
    assert [cell.id for cell in cells(numatune, guest_cells("0-1", "2-3"))] == expected


def test_a_guest_without_cells_is_one() -> None:
    assert cells(bound("1")) == [
        InstanceNUMACell(id=1, memory=4096, cpuset={0, 1, 2, 3}, cpu_policy="shared")
    ]


def test_cells_without_ids_go_by_their_order() -> None:
    unnamed = guest_cells("0-1", "2-3").replace("id='0'", "").replace("id='1'", "id='?'")
    assert cells(bound("0-1", "0", "1"), unnamed) == cells(TWO_CELLS)


def test_cpus_in_no_cell_are_in_the_first() -> None:
    first, second = cells(bound("0-1", "0", "1"), guest_cells("0", "2"), pinned("", "", "", "7"))
    assert (first.cpuset, first.cpu_pinning, second.cpuset) == ({0, 1}, {3: 7}, {2})


def test_floating_cpus_count_when_they_are_plugged_in_and_pinned_ones_always() -> None:
    listed = """<vcpus>
      <vcpu id='0' enabled='yes' hotpluggable='no' order='1'/>
      <vcpu id='1' enabled='no' hotpluggable='yes'/>
      <vcpu id='2' enabled='no' hotpluggable='yes'/>
      <vcpu id='3' enabled='yes' hotpluggable='yes' order='2'/>
      <vcpu enabled='yes'/>
    </vcpus>"""
    (cell,) = cells(bound("0"), guest_cells("0-3"), pinned("", "7"), listed)
    assert (cell.cpuset, cell.cpu_pinning) == ({0, 3}, {1: 7})


def test_memory_that_is_plugged_in_is_in_its_cell() -> None:
    device = "<memory model='dimm'><target><size>1048576</size><node>1</node></target></memory>"
    assert [cell.memory for cell in cells(TWO_CELLS, devices=device)] == [2048, 3072]


PAGES_2M = "<page size='2048' unit='KiB'/>"
PAGES_1G = "<page size='1' unit='GiB' nodeset='1'/>"


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ("", [None, None]),
        (huge(PAGES_2M), [2048, 2048]),
        (huge(PAGES_1G), [None, 2**20]),
        (huge(PAGES_1G, PAGES_2M), [2048, 2**20]),
        (huge(PAGES_2M, PAGES_1G), [2048, 2**20]),
        (huge("<page size='2048' nodeset='0-1'/>"), [2048, 2048]),
        (huge("<page/>"), [None, None]),
        (huge(), [LARGE, LARGE]),
    ],
)
def test_huge_pages(pages: str, expected: list[int | None]) -> None:
    assert [cell.pagesize for cell in cells(TWO_CELLS, pages)] == expected


def on(host: NUMATopology, *parts: str) -> dict[int, InstanceNUMACell]:
    """Return the guest's cells on a host by their ids, of which there are no two alike here."""
    numa = placed(read(*parts), host)
    return {} if numa is None else {cell.id: cell for cell in numa.cells}


@pytest.mark.parametrize(
    "parts",
    [
        TWO_CELLS,
        TWO_CELLS + pinned("2", "3", "10", "11") + huge(PAGES_2M),
        bound("1") + pinned("8", "9"),
    ],
)
def test_what_the_domain_tells_in_full_stays(parts: str) -> None:
    assert placed(read(parts), a_host()) == read(parts)


def test_nothing_is_placed_on_a_host_without_cells() -> None:
    assert placed(read(TWO_CELLS), None) is None
    assert placed(read(TWO_CELLS), NUMATopology()) is None


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


def test_default_huge_pages_are_the_smallest() -> None:
    assert on(a_host(), bound("0"), huge())[0].pagesize == 2048
    without = NUMACell(id=0, memory=8192, cpuset={0}, mempages=[NUMAPagesTopology(4, 2**21)])
    assert on(a_host(without), bound("0"), huge())[0].pagesize is None


def test_worked_example() -> None:
    """Two floating CPUs and 2048 MiB in pages of 2 MiB, on a cell with 4 CPUs and 8192 MiB."""
    host = a_host(a_host_cell(0, range(4)))
    cpus = "<vcpus><vcpu id='0' enabled='yes'/><vcpu id='1' enabled='yes'/></vcpus>"
    numa = placed(read(bound("0", "0"), guest_cells("0-1"), cpus, huge(PAGES_2M)), host)
    assert numa is not None
    cell = with_usage(host, numa).cells[0]
    used = {pages.size_kb: pages.used for pages in cell.mempages}
    assert (cell.cpu_usage, cell.memory_usage, used) == (2, 2048, {4: 0, 2048: 1024, 2**20: 0})


@given(st.lists(st.sampled_from(["", "0-7", *map(str, range(20))]), max_size=6), st.booleans())
def test_placing_neither_loses_nor_invents_anything(pins: list[str], crossed: bool) -> None:
    host = a_host()
    numa = read(bound("0-1", *("10" if crossed else "01")), guest_cells("0-1", "2"), pinned(*pins))
    before = repr(numa)
    found = placed(numa, host)
    assert numa is not None
    assert found is not None
    assert repr(numa) == before
    assert sum(cell.memory for cell in found.cells) == 4096
    assert sum(len(cell.cpuset) for cell in found.cells) == sum(
        len(cell.cpuset) for cell in numa.cells
    )
    assert found.cpu_pinning == {cpu for cpu in numa.cpu_pinning if cpu < 16}
    for cell in found.cells:
        assert {*(cell.cpu_pinning or {}).values()} <= host.cells[cell.id].pcpuset
        assert {*(cell.cpu_pinning or {})} == cell.pcpuset
    assert placed(found, host) == found
