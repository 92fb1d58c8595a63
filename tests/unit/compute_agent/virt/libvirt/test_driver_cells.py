# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What guests of a libvirt host take of its cells, up to what still fits there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_agent.audit import usage
from compute_agent.virt.libvirt import host as module
from compute_agent.virt.libvirt.driver import LibvirtDriver
from inventory.numa.cells import Ratios
from inventory.numa.fit import HostResources, fits
from inventory.objects.node_json import numa_topology_from_json, numa_topology_to_json
from inventory.objects.numa import NUMATopology
from tests.fixtures import agent
from tests.numa import a_guest_cell, a_pinned_cell, needs
from tests.unit.compute_agent.virt.libvirt.domain import (
    a_domain,
    bound,
    guest_cells,
    huge,
    noted,
    pinned,
)
from tests.unit.compute_agent.virt.libvirt.library import Daemon, Domain, a_host

RATIOS = Ratios(4.0, 1.0)
GIB = 1024
CAPABILITIES = """
<capabilities><host>
  <cpu><arch>{arch}</arch></cpu>
  <topology><cells>{cells}</cells></topology>
</host></capabilities>"""
CELL = """
<cell id='{id}'>
  <memory unit='KiB'>{memory_kib}</memory>
  {pages}
  <cpus>{cpus}</cpus>
</cell>"""
ARM_PAGES = {64: 2**18, 2048: 0, 524288: 24, 16777216: 0}


def a_cell(number: int, cpus: range, pages: dict[int, int]) -> str:
    listed = (f"<pages unit='KiB' size='{size}'>{each}</pages>" for size, each in pages.items())
    return CELL.format(
        id=number,
        memory_kib=sum(size * each for size, each in pages.items()),
        pages="".join(listed),
        cpus="".join(f"<cpu id='{cpu}' socket_id='0' siblings='{cpu}'/>" for cpu in cpus),
    )


class Machine:
    """A host of these cells; what its guests take is as the row has it."""

    def __init__(self, directory: Path, cells: str, arch: str = "x86_64", **sections: Any) -> None:
        capabilities = CAPABILITIES.format(arch=arch, cells=cells)
        number = cells.count("<cpu id")
        cpu_map = (number, [True] * number, number)
        self.daemon: Daemon = a_host(getCapabilities=capabilities, getCPUMap=cpu_map)
        options = agent.options(directory, libvirt={"connection_uri": "qemu:///system"}, **sections)
        self.driver = LibvirtDriver(options, self.daemon.library)

    def with_guests(self, *xml: str) -> NUMATopology:
        guests = [
            Domain(number, xml=each.replace(agent.UUID.format(1), agent.UUID.format(number)))
            for number, each in enumerate(xml, start=1)
        ]
        self.daemon.host(*guests)
        (node,) = self.driver.nodes()
        used = usage.cells(self.driver.facts(node).numa, self.driver.guests(node))
        assert used is not None
        return numa_topology_from_json(numa_topology_to_json(used))


@pytest.fixture
def machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """A function that makes a machine of cells; default_kib is the kernel's size of huge pages."""
    made: list[Machine] = []

    def make(*cells: str, default_kib: int = 2048, **more: Any) -> Machine:
        meminfo = tmp_path / "meminfo"
        meminfo.write_text(f"MemTotal: 33554432 kB\nHugepagesize: {default_kib} kB\n")
        monkeypatch.setattr(module, "MEMINFO", meminfo)
        made.append(Machine(tmp_path, "".join(cells), **more))
        return made[-1]

    yield make
    for each in made:
        each.driver.close()


def test_default_pages_of_aarch64_are_taken_from_those_that_there_are(machines: Any) -> None:
    machine = machines(a_cell(0, range(16), ARM_PAGES), arch="aarch64", default_kib=524288)
    # There are 12 GiB of pages, of which the guest takes 4.
    before = HostResources(machine.with_guests(), RATIOS)
    after = machine.with_guests(a_domain(huge()))
    assert [(each.size_kb, each.used) for each in after.cells[0].mempages] == [
        (64, 0),
        (2048, 0),
        (524288, 8),
        (16777216, 0),
    ]
    another = needs(a_guest_cell(memory=12 * GIB, pagesize=524288))
    assert fits(before, another)
    assert not fits(HostResources(after, RATIOS), needs(a_guest_cell(memory=9 * GIB, pagesize=-2)))


def test_default_pages_of_x86_may_be_the_largest(machines: Any) -> None:
    cell = a_cell(0, range(8), {4: 2**20, 2048: 512, 1048576: 8})
    machine = machines(cell, default_kib=1048576)
    after = machine.with_guests(a_domain(bound("0"), huge()))
    assert [each.used for each in after.cells[0].mempages] == [0, 0, 4]


def test_guests_that_share_the_only_cpu_of_a_cell_use_it_up(machines: Any) -> None:
    """One shared CPU in one cell and none in the other, at a ratio of 4."""
    machine = machines(
        a_cell(0, range(4), {4: 2**22}),
        a_cell(1, range(4, 8), {4: 2**22}),
        compute={"cpu_shared_set": "0", "cpu_dedicated_set": "1-7"},
    )
    notes = noted("hw:numa_nodes=1").replace("<nova:vcpus>2", "<nova:vcpus>1")
    guest = a_domain(
        bound("0", "0"), guest_cells("0", mib=512), pinned("0", emulator="0"), metadata=notes
    ).replace("<vcpu placement='static'>4", "<vcpu placement='static'>1")
    floating = needs(a_guest_cell(cpus=1, memory=512))
    four = machine.with_guests(*[guest] * 4)
    assert (four.cells[0].cpu_usage, four.cells[0].pinned_cpus) == (4, set())
    assert fits(HostResources(machine.with_guests(*[guest] * 3), RATIOS), floating)
    assert not fits(HostResources(four, RATIOS), floating)
    # The dedicated CPUs are all free.
    assert fits(HostResources(four, RATIOS), needs(a_pinned_cell(cpus=4, memory=512)))
