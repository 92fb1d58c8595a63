# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What domains of every kind say of the cells, CPUs and pages of their host."""

from xml.etree import ElementTree

import pytest

from compute_agent import cpu_sets
from compute_agent.virt.libvirt import domain_numa, nova_metadata
from compute_agent.virt.libvirt.domain_numa import DomainCell
from inventory.numa.cells import LARGE
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.domain import (
    TWO_CELLS,
    a_domain,
    bound,
    guest_cells,
    huge,
    noted,
    pinned,
    read,
)


@pytest.mark.parametrize(
    "part",
    [
        "",
        "<vcpu placement='static' cpuset='3'>4</vcpu>",
        guest_cells("0-1", "2-3"),
        pinned(emulator="3"),
        pinned("0-7", "0-7", "0-7", emulator="0-7"),
        "<numatune><memory mode='strict' placement='auto'/></numatune>",
        bound("0-1"),
        bound("nowhere"),
        "<cputune><vcpupin/><vcpupin vcpu='0'/><vcpupin cpuset='1'/></cputune>",
        "<cputune><vcpupin vcpu='16385' cpuset='1'/></cputune>",
    ],
)
def test_a_guest_that_is_bound_to_nothing_has_no_topology(part: str) -> None:
    assert read(part) == ()


@pytest.mark.parametrize(
    "name", ["domain-qemu-system-t1.xml", "domain-memory-hotplug.xml", "domain-test-default.xml"]
)
def test_captured_guests_are_bound_to_nothing(name: str) -> None:
    root = ElementTree.fromstring(sample(name))
    assert domain_numa.read(root, 1, 64, nova_metadata.NovaMetadata()) == ()


def test_floating_cpus_in_two_cells() -> None:
    pins = pinned("0-7", "0-7", "8-15", "8-15", emulator="0-15")
    near, far = frozenset(range(8)), frozenset(range(8, 16))
    assert read(TWO_CELLS, pins) == (
        DomainCell(memory=2048, cpus=frozenset({0, 1}), host_cell=0, near=(near,)),
        DomainCell(memory=2048, cpus=frozenset({2, 3}), host_cell=1, near=(far,)),
    )


def test_pinned_cpus_in_two_cells() -> None:
    first, second = read(TWO_CELLS, pinned("2", "3", "10", "11", emulator="2-3,10-11"))
    assert (first.pins, first.cpus, first.host_cell) == ({0: 2, 1: 3}, set(), 0)
    assert (second.pins, second.cpus, second.host_cell) == ({2: 10, 3: 11}, set(), 1)


def test_cells_may_be_crossed() -> None:
    crossed = bound("0-1", "1", "0") + guest_cells("0-2", "3")
    assert [(cell.host_cell, cell.cpus) for cell in read(crossed)] == [(1, {0, 1, 2}), (0, {3})]


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ("hw:cpu_policy=shared", "", {}),
        ("", "hw_cpu_policy=shared", {}),
        ("hw:cpu_policy=dedicated", "hw_cpu_policy=shared", {0: 5}),
        ("hw:cpu_policy=mixed", "", {0: 5}),
        ("", "hw_cpu_policy=dedicated", {0: 5}),
        # Shared is what Nova makes of a flavor that says nothing.
        ("hw:numa_nodes=1", "", {}),
        ("resources:VCPU=1", "", {}),
        ("", "", {}),
        # These say that CPUs are pinned.
        ("resources:PCPU=1", "", {0: 5}),
        ("resources1:PCPU=1", "", {0: 5}),
        ("hw:cpu_thread_policy=require", "", {0: 5}),
        ("hw:emulator_threads_policy=isolate", "", {0: 5}),
    ],
)
def test_nova_tells_that_a_single_cpu_is_shared(
    flavor: str, image: str, expected: dict[int, int]
) -> None:
    # The host cell has one CPU that is not reserved.
    parts = bound("0", "0") + guest_cells("0") + pinned("5")
    assert read(parts, metadata=noted(flavor, image))[0].pins == expected


def test_older_releases_of_nova_tell_nothing_of_policies() -> None:
    older = noted().replace("extraSpecs>", "otherSpecs>")
    assert read(pinned("5"), metadata=older)[0].pins == {0: 5}
    without_image = noted().replace("nova:image", "nova:picture")
    assert read(pinned("5"), metadata=without_image)[0].pins == {0: 5}


@pytest.mark.parametrize(
    ("flavor", "expected"),
    [
        ("hw:cpu_thread_policy=isolate", "isolate"),
        ("hw:cpu_thread_policy=require", "require"),
        ("hw:cpu_thread_policy=prefer", "prefer"),
        ("hw:cpu_thread_policy=odd", None),
        ("trait:HW_CPU_HYPERTHREADING=forbidden", "isolate"),
        ("trait2:HW_CPU_HYPERTHREADING=required", "require"),
        ("", None),
    ],
)
def test_nova_tells_the_thread_policy(flavor: str, expected: str | None) -> None:
    (cell,) = read(bound("0"), pinned("1", "3"), metadata=noted(flavor))
    assert cell.thread_policy == expected


@pytest.mark.parametrize(
    ("flavor", "emulator", "expected"),
    [
        # One that no guest CPU has is the emulator's own unless Nova says otherwise.
        ("", "6", {6}),
        ("hw:emulator_threads_policy=isolate", "6", {6}),
        ("hw:emulator_threads_policy=isolate", "5-6", {5, 6}),
        ("hw:emulator_threads_policy=share", "6", set()),
        # The guest's own CPUs, or one of them for a guest of real time.
        ("", "1-2", set()),
        ("", "1", set()),
        # CPUs that are for the emulator threads of all guests.
        ("", "6-7", set()),
        ("", "", set()),
    ],
)
def test_a_cpu_for_the_emulator_threads(flavor: str, emulator: str, expected: set[int]) -> None:
    parts = bound("0-1", "0", "1") + guest_cells("0", "1-3") + pinned("1", "2", emulator=emulator)
    first, second = read(parts, metadata=noted(f"hw:cpu_policy=dedicated {flavor}"))
    assert (first.reserved, second.reserved) == (expected, set())


@pytest.mark.parametrize(
    ("numatune", "expected"),
    [
        (bound("1"), [1, 1]),
        (bound("1", "0"), [0, 1]),
        (bound("0-1", "0"), [0, None]),
        ("<numatune><memnode cellid='1' mode='preferred' nodeset='0'/></numatune>", [None, 0]),
    ],
)
def test_which_host_cell_a_guest_cell_is_on(numatune: str, expected: list[int | None]) -> None:
    assert [cell.host_cell for cell in read(numatune, guest_cells("0-1", "2-3"))] == expected


def test_a_guest_without_cells_is_one() -> None:
    assert read(bound("1")) == (DomainCell(4096, frozenset({0, 1, 2, 3}), host_cell=1),)


def test_cells_without_ids_go_by_their_order() -> None:
    unnamed = guest_cells("0-1", "2-3").replace("id='0'", "").replace("id='1'", "id='?'")
    assert read(bound("0-1", "0", "1"), unnamed) == read(TWO_CELLS)


def test_cpus_in_no_cell_are_in_the_first() -> None:
    first, second = read(bound("0-1", "0", "1"), guest_cells("0", "2"), pinned("", "", "", "7"))
    assert (first.cpus, first.pins, second.cpus) == ({0, 1}, {3: 7}, {2})


def test_floating_cpus_count_when_they_are_plugged_in_and_pinned_ones_always() -> None:
    listed = """<vcpus>
      <vcpu id='0' enabled='yes' hotpluggable='no' order='1'/>
      <vcpu id='1' enabled='no' hotpluggable='yes'/>
      <vcpu id='2' enabled='no' hotpluggable='yes'/>
      <vcpu id='3' enabled='yes' hotpluggable='yes' order='2'/>
      <vcpu enabled='yes'/>
    </vcpus>"""
    (cell,) = read(bound("0"), guest_cells("0-3"), pinned("", "7"), listed)
    assert (cell.cpus, cell.pins) == ({0, 3}, {1: 7})


def test_memory_that_is_plugged_in_is_in_its_cell() -> None:
    device = "<memory model='dimm'><target><size>1048576</size><node>1</node></target></memory>"
    assert [cell.memory for cell in read(TWO_CELLS, devices=device)] == [2048, 3072]


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
    assert [cell.pagesize for cell in read(TWO_CELLS, pages)] == expected


A_DIMM = """
<memory model='{model}'>
  <source>{source}</source>
  <target><size unit='MiB'>1024</size><node>1</node></target>
</memory>"""


@pytest.mark.parametrize(
    ("source", "host_cell", "pagesize"),
    [
        ("<pagesize unit='KiB'>2048</pagesize><nodemask>0</nodemask>", 0, 2048),
        ("<pagesize unit='GiB'>1</pagesize>", 1, 2**20),
        # As its cell, whose pages are the host's default.
        ("<nodemask>0</nodemask>", 0, LARGE),
        ("<nodemask>0-1</nodemask>", None, LARGE),
    ],
)
def test_memory_devices_may_have_pages_and_host_cells_of_their_own(
    source: str, host_cell: int | None, pagesize: int
) -> None:
    device = A_DIMM.format(model="dimm", source=source)
    *own, plugged = read(TWO_CELLS, huge(), devices=device)
    assert own == [*read(TWO_CELLS, huge())]
    assert plugged == DomainCell(1024, host_cell=host_cell, pagesize=pagesize)


def test_memory_in_files_has_no_pages_of_the_host() -> None:
    device = A_DIMM.format(model="nvdimm", source="<path>/dev/pmem0</path><nodemask>1</nodemask>")
    assert read(devices=device) == ()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (pinned("0-7", "0-7", "0-7", "0-7"), ["0-7"]),
        (pinned("0-3", "2-5", "0", "1"), ["0-5"]),
        # One CPU of it may be anywhere.
        (pinned("0-7", "0-7", "0-7"), []),
        (huge() + pinned("0-7", "0-7", "0-7"), []),
        # What is not pinned otherwise is where the guest is; its pages are there too.
        ("<vcpu cpuset='8-15'>4</vcpu>", []),
        (huge() + "<vcpu cpuset='8-15'>4</vcpu>", ["8-15"]),
        (huge() + "<vcpu cpuset='8-11'>4</vcpu>" + pinned("12-13"), ["8-13"]),
        # Emulator threads allocate the pages.
        (pinned(emulator="0-7"), []),
        (huge() + pinned(emulator="0-7"), ["0-7"]),
        (huge() + pinned("0-15", "0-15", "0-15", "0-15", emulator="8"), ["0-15", "8"]),
    ],
)
def test_cpus_that_confine_a_guest(parts: str, expected: list[str]) -> None:
    xml = a_domain(parts).replace("<vcpu placement='static'>4</vcpu>", "", "<vcpu cpu" in parts)
    found = domain_numa.read(ElementTree.fromstring(xml), 4, 4096, nova_metadata.NovaMetadata())
    near = [list(cpu_sets.parse(each)) for each in expected]
    assert [sorted(cpus) for cell in found for cpus in cell.near] == [sorted(n) for n in near]
