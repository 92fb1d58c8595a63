# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cells of captured and of drawn hosts are those that Nova would report, and can be used."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.audit import usage
from compute_agent.cpu_sets import CpuSets, CpusNotOnline, HostCpus
from compute_agent.virt.libvirt import capabilities
from compute_agent.virt.libvirt.capabilities import Cell, Cpu
from compute_agent.virt.libvirt.host_cells import host_cells, remembered
from inventory.numa.cells import Ratios, with_usage
from inventory.numa.fit import HostResources, fits, fitted
from inventory.objects.node_json import numa_topology_from_json, numa_topology_to_json
from inventory.objects.numa import NUMACell, NUMATopology
from tests.fixtures.agent import a_guest, sample
from tests.numa import a_guest as a_guest_topology
from tests.numa import a_guest_cell, a_pinned_cell, needs

TWO_CPUS = {0, 1}
SMALL, HUGE, GIANT = 4, 2048, 1048576


def a_cpu(number: int, socket: int | None = 0, siblings: str | None = None) -> str:
    place = "" if socket is None else f" socket_id='{socket}'"
    core = "" if siblings is None else f" siblings='{siblings}'"
    return f"<cpu id='{number}'{place}{core}/>"


def a_cell(number: int, cpus: list[str], memory_kib: int = 8 * 2**20, **pages: int) -> str:
    """Return the XML of a cell; pages are given as kib2048=4."""
    listed = (
        f"<pages unit='KiB' size='{size.removeprefix('kib')}'>{count}</pages>"
        for size, count in pages.items()
    )
    return (
        f"<cell id='{number}'><memory unit='KiB'>{memory_kib}</memory>{''.join(listed)}"
        f"<cpus>{''.join(cpus)}</cpus></cell>"
    )


def threads(first: int, cores: int = 2, socket: int = 0) -> list[str]:
    """Return the XML of cores of two threads each: first and first + cores, and so on."""
    return [
        a_cpu(cpu, socket, f"{first + core},{first + core + cores}")
        for cpu in range(first, first + 2 * cores)
        for core in [(cpu - first) % cores]
    ]


def the_cells(*cells: str, **options: Any) -> list[NUMACell]:
    topology = the_topology(*cells, **options)
    assert topology is not None
    return topology.cells


def the_topology(
    *cells: str,
    online: set[int] | None = None,
    sets: CpuSets | None = None,
    reserved: dict[tuple[int, int], int] | None = None,
) -> NUMATopology | None:
    xml = (
        f"<capabilities><host><cpu/><topology><cells>{''.join(cells)}</cells></topology></host>"
        "</capabilities>"
    )
    cpus = all_of(set(range(64)) if online is None else online)
    return host_cells(capabilities.parse(xml).cells, cpus, sets or CpuSets(), reserved or {})


def all_of(online: set[int]) -> HostCpus:
    return HostCpus(frozenset(online), frozenset(online))


def captured(name: str, online: set[int]) -> list[NUMACell]:
    found = host_cells(capabilities.parse(sample(name)).cells, all_of(online), CpuSets(), {})
    assert found is not None
    return found.cells


def without_changes(document: Any) -> Any:
    """Return one of Nova's documents without the lists of fields that were set."""
    if isinstance(document, dict):
        rest = {name: each for name, each in document.items() if name != "nova_object.changes"}
        return {name: without_changes(each) for name, each in rest.items()}
    return [without_changes(each) for each in document] if isinstance(document, list) else document


def test_a_real_host_is_reported_as_nova_does() -> None:
    topology = NUMATopology(captured("capabilities-qemu-system.xml", TWO_CPUS))
    written = json.loads(numa_topology_to_json(topology))
    assert without_changes(written) == without_changes(
        sample("columns-nova34.json")["numa_topology"]
    )


def test_memory_of_a_real_cell_is_what_its_pages_hold() -> None:
    (cell,) = captured("capabilities-qemu-system.xml", TWO_CPUS)
    assert cell.mempages[0].total * SMALL // 1024 == cell.memory == 6234


def test_memory_of_the_host_of_the_dump_filter() -> None:
    (cell,) = the_cells(a_cell(0, [], memory_kib=1007177 * SMALL, kib4=1007177))
    assert cell.memory == 3934


def test_cells_of_the_imaginary_host_have_pages_of_their_own_and_more_than_it() -> None:
    cells = captured("capabilities-test-default.xml", set(range(16)))
    assert [cell.memory for cell in cells] == [2048, 4096]
    assert (
        sum(cell.memory for cell in cells)
        != sample("nodeinfo-test-default.json")["calls"]["getInfo"][1]
    )
    pages = [[(each.size_kb, each.total) for each in cell.mempages] for cell in cells]
    assert pages == [[(4, 524288), (HUGE, 0), (GIANT, 0)], [(8, 524288), (HUGE, 0), (GIANT, 0)]]
    assert [cell.socket for cell in cells] == [0, 1]
    assert [cell.cpuset for cell in cells] == [set(range(8)), set(range(8, 16))]


def test_guests_are_not_put_on_cpus_that_are_offline() -> None:
    near, far = captured("capabilities-test-default.xml", {0, 2, 4})
    assert near.cpuset == near.pcpuset == {0, 2, 4}
    assert near.siblings == [{0}, {2}, {4}]
    assert far.cpuset == far.pcpuset == set()
    assert far.siblings == []


def test_a_host_that_tells_of_no_cells_has_no_topology() -> None:
    assert the_topology() is None
    found = capabilities.parse("<capabilities><host><cpu/></host></capabilities>")
    assert host_cells(found.cells, all_of(TWO_CPUS), CpuSets(), {}) is None


def test_each_core_is_there_once_with_all_its_threads() -> None:
    near, far = the_cells(a_cell(0, threads(0)), a_cell(1, threads(4, socket=1)))
    assert near.siblings == [{0, 2}, {1, 3}]
    assert far.siblings == [{4, 6}, {5, 7}]
    assert near.has_threads


def test_of_a_core_only_what_guests_may_use_counts() -> None:
    (cell,) = the_cells(a_cell(0, threads(0)), sets=CpuSets(frozenset({1, 2}), frozenset({3})))
    assert (cell.cpuset, cell.pcpuset) == ({1, 2}, {3})
    assert cell.siblings == [{1, 3}, {2}]


def test_cells_where_no_guest_may_be_stay() -> None:
    near, far = the_cells(
        a_cell(0, threads(0)), a_cell(1, threads(4)), sets=CpuSets(dedicated=frozenset({1, 3}))
    )
    assert (near.cpuset, near.pcpuset, near.siblings) == (set(), {1, 3}, [{1, 3}])
    assert (far.cpuset, far.pcpuset, far.siblings) == (set(), set(), [])


def test_a_configured_cpu_that_is_offline_is_named() -> None:
    with pytest.raises(CpusNotOnline, match=r"cpu_shared_set .* not online: 3;"):
        the_topology(a_cell(0, threads(0)), online={0, 1}, sets=CpuSets(frozenset({1, 3})))


def test_cpus_of_which_little_is_known_are_cores_of_their_own() -> None:
    cpus = [a_cpu(0, 1, "0-1"), a_cpu(1, None), a_cpu(2, 1, "two"), "<cpu/>", "<cpu id='x'/>"]
    (cell,) = the_cells(a_cell(0, cpus))
    assert cell.cpuset == {0, 1, 2}
    assert cell.siblings == [{0, 1}, {1}, {2}]
    assert cell.socket == 1


def cpus_of(cells: tuple[Cell, ...]) -> dict[int, tuple[int | None, set[int]]]:
    return {cpu.id: (cpu.socket, set(cpu.siblings)) for cell in cells for cpu in cell.cpus}


def test_what_libvirt_makes_up_of_cpus_that_are_offline_is_not_believed() -> None:
    one, other = Cpu(0, 1, frozenset({0})), Cpu(1, 0, frozenset({1}))
    first = remembered([Cell(0, 1, (), (one, other))], {0})
    assert cpus_of(first) == {0: (1, {0}), 1: (None, {1})}
    both = [Cpu(cpu, 1, frozenset({0, 1})) for cpu in (0, 1)]
    second = remembered([Cell(0, 1, (), tuple(both))], {0, 1}, first)
    assert cpus_of(second) == {0: (1, {0, 1}), 1: (1, {0, 1})}
    # Switched off again: what was read while they were online is still so.
    assert cpus_of(remembered([Cell(0, 1, (), (one, other))], {0}, second)) == cpus_of(second)


def test_a_cell_on_several_sockets_is_on_none() -> None:
    (cell,) = the_cells(a_cell(0, [a_cpu(0, 0), a_cpu(1, 1)]))
    assert cell.socket is None


def test_a_cell_may_be_nothing_but_memory() -> None:
    (cell,) = the_cells(a_cell(0, [], kib4=2**21))
    assert (cell.memory, cell.cpuset, cell.siblings, cell.socket) == (8192, set(), [], None)


def test_pages_of_all_sizes_with_what_is_reserved_of_them() -> None:
    pages = {"kib4": 1000, "kib2048": 512, "kib1048576": 4}
    near, far = the_cells(
        a_cell(0, threads(0), **pages),
        a_cell(1, threads(4), **pages),
        reserved={(0, HUGE): 64, (1, GIANT): 1, (1, 64): 9, (2, HUGE): 9},
    )
    assert [(each.size_kb, each.total, each.reserved) for each in near.mempages] == [
        (SMALL, 1000, 0),
        (HUGE, 512, 64),
        (GIANT, 4, 0),
    ]
    assert [each.reserved for each in far.mempages] == [0, 0, 1]
    assert [each.free for each in far.mempages] == [1000, 512, 3]


def test_nothing_is_in_use() -> None:
    (cell,) = the_cells(a_cell(0, threads(0), kib4=1000))
    assert (cell.cpu_usage, cell.memory_usage, cell.pinned_cpus) == (0, 0, set())
    assert [each.used for each in cell.mempages] == [0]


@given(st.randoms(use_true_random=False))
def test_the_text_is_the_same_in_whatever_order_libvirt_tells(order: random.Random) -> None:
    def shuffled(things: list[str]) -> list[str]:
        return order.sample(things, len(things))

    def the_text() -> str:
        sizes = order.sample(["kib4", "kib2048"], 2)
        cells = [
            a_cell(cell, shuffled(threads(8 * cell, 4, cell)), **dict.fromkeys(sizes, 7))
            for cell in range(3)
        ]
        topology = the_topology(*shuffled(cells))
        assert topology is not None
        return numa_topology_to_json(topology)

    assert the_text() == the_text()


@given(
    st.frozensets(st.integers(0, 15), min_size=1),
    st.none() | st.frozensets(st.integers(0, 15), min_size=1),
)
def test_each_cpu_for_guests_is_in_one_cell_and_one_core(
    shared: frozenset[int], dedicated: frozenset[int] | None
) -> None:
    sets = CpuSets(shared - (dedicated or set()) or None, dedicated)
    cells = the_cells(
        a_cell(0, threads(0, 4)), a_cell(1, threads(8, 4)), online=set(range(16)), sets=sets
    )
    floating = [cpu for cell in cells for cpu in cell.cpuset]
    pinned = [cpu for cell in cells for cpu in cell.pcpuset]
    cores = [cpu for cell in cells for core in cell.siblings for cpu in core]
    assert sorted(floating) == sorted(sets.floating(all_of(set(range(16)))))
    assert sorted(pinned) == sorted(sets.pinned(all_of(set(range(16)))))
    assert sorted(cores) == sorted({*floating, *pinned})
    assert len(cores) == sets.vcpus(all_of(set(range(16))))


def as_read_by_schedulers(*cells: str, **options: Any) -> HostResources:
    topology = the_topology(*cells, **options)
    assert topology is not None
    read = numa_topology_from_json(numa_topology_to_json(topology))
    assert read == topology
    return HostResources(read, Ratios(4.0, 1.0))


def test_a_pinned_guest_on_huge_pages_finds_its_place() -> None:
    room = as_read_by_schedulers(
        a_cell(0, threads(0), kib4=2**20, kib2048=300),
        a_cell(1, threads(4, socket=1), kib4=2**20, kib2048=300),
        online=set(range(8)),
        sets=CpuSets(shared=frozenset({0, 2, 4, 6}), dedicated=frozenset({1, 3, 5, 7})),
        reserved={(0, HUGE): 64},
    )
    # 256 pages: what is reserved in the first cell leaves 236 there.
    guest = needs(a_pinned_cell(memory=512, pagesize=HUGE, cpu_thread_policy="require"))
    placed = fitted(room, guest)
    assert placed is not None
    assert (placed.cells[0].id, placed.cells[0].cpu_pinning) == (1, {0: 5, 1: 7})
    assert placed.cells[0].pagesize == HUGE
    assert room.topology is not None
    used = with_usage(room.topology, placed).cells[1]
    assert (used.pinned_cpus, used.mempages[1].used, used.memory_usage) == ({5, 7}, 256, 512)
    assert not fits(HostResources(with_usage(room.topology, placed), room.ratios), guest)


def test_without_dedicated_cpus_guests_are_pinned_where_others_float() -> None:
    room = as_read_by_schedulers(a_cell(0, threads(0), kib4=2**20), online=set(range(4)))
    assert fits(room, needs(a_pinned_cell()))
    assert fits(room, needs(a_guest_cell()))


def test_with_only_dedicated_cpus_none_float() -> None:
    room = as_read_by_schedulers(
        a_cell(0, threads(0), kib4=2**20), sets=CpuSets(dedicated=frozenset({1, 3}))
    )
    assert fits(room, needs(a_pinned_cell()))
    assert not fits(room, needs(a_guest_cell(cpus=1)))


def test_the_reference_s_instance_uses_its_cell() -> None:
    topology = the_topology(a_cell(0, threads(0), kib4=2**20, kib2048=2048), online=set(range(4)))
    guest = a_guest(numa=a_guest_topology(a_guest_cell(memory=2048, pagesize=HUGE)))
    counted = usage.cells(topology, [guest])
    assert counted is not None
    (cell,) = counted.cells
    assert (len(cell.cpuset), cell.memory) == (4, 8192)
    assert (cell.cpu_usage, cell.memory_usage, cell.mempages[1].used) == (2, 2048, 1024)
