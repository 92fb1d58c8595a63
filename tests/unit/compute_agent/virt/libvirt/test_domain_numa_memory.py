# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A guest counts with the memory that it may take from its host."""

from xml.etree import ElementTree

import pytest

from compute_agent.virt.libvirt import domain_numa
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.domain import a_domain


def a_device(model: str, mib: int, cell: int = 0) -> str:
    return f"""
<memory model='{model}'>
  <target><size unit='MiB'>{mib}</size><node>{cell}</node></target>
</memory>"""


def memory_mb(xml: str) -> int:
    return domain_numa.memory_mb(ElementTree.fromstring(xml))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("domain-qemu-system-t1.xml", 64),
        # 128 MiB that it was started with, 128 MiB that were plugged in.
        ("domain-memory-hotplug.xml", 256),
        # Its balloon leaves it 2 GiB.
        ("domain-test-default.xml", 8192),
    ],
)
def test_captured_guests(name: str, expected: int) -> None:
    assert memory_mb(sample(name)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<memory>1024</memory>", 1),
        ("<memory>1025</memory>", 2),
        ("<memory unit='GiB'>3</memory>", 3072),
        ("<memory unit='MB'>1</memory>", 1),
        ("<memory unit='ell'>3</memory>", 0),
        ("<memory>much</memory>", 0),
        ("<memory/>", 0),
        ("", 0),
    ],
)
def test_units_and_nonsense(text: str, expected: int) -> None:
    assert memory_mb(f"<domain>{text}</domain>") == expected


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (a_device("dimm", 1024), 4096),
        (a_device("virtio-mem", 1024), 4096),
        (a_device("nvdimm", 1024), 3072),
        (a_device("virtio-pmem", 512) + a_device("nvdimm", 512), 3072),
        (a_device("nvdimm", 8192), 0),
        ("<memory model='nvdimm'/>", 4096),
        ("<memory model='nvdimm'><target/></memory>", 4096),
    ],
)
def test_persistent_memory_is_not_of_the_host(devices: str, expected: int) -> None:
    assert memory_mb(a_domain(devices=devices)) == expected


def test_what_is_plugged_in_belongs_to_cells() -> None:
    devices = a_device("dimm", 1, 0) + a_device("dimm", 2, 1) + a_device("virtio-mem", 3, 1)
    root = ElementTree.fromstring(a_domain(devices=devices + a_device("nvdimm", 8, 1)))
    assert domain_numa.plugged_in(root) == {0: 2**20, 1: 5 * 2**20}
