# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Domains as libvirt writes them, for tests that look at one part of them."""

from xml.etree import ElementTree

from compute_agent.virt.libvirt import domain_numa, nova_metadata
from compute_agent.virt.libvirt.domain_numa import DomainCell
from tests.fixtures.agent import UUID

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"


def a_domain(*parts: str, devices: str = "", metadata: str = "") -> str:
    """Return a domain of 4 CPUs and 4096 MiB with more elements, more devices and Nova's notes."""
    return f"""
<domain type='kvm'>
  <name>instance-00000001</name>
  <uuid>{UUID.format(1)}</uuid>
  <metadata>{metadata}</metadata>
  <memory unit='KiB'>4194304</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <vcpu placement='static'>4</vcpu>
  {"".join(parts)}
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>{devices}</devices>
</domain>"""


def read(*parts: str, devices: str = "", metadata: str = "") -> tuple[DomainCell, ...]:
    """Return what such a domain says of its cells."""
    root = ElementTree.fromstring(a_domain(*parts, devices=devices, metadata=metadata))
    return domain_numa.read(root, 4, 4096, nova_metadata.read(root.find("metadata")))


def noted(flavor: str = "", image: str = "", more: str = "", namespace: str = NOVA) -> str:
    """Return Nova's notes of an instance: extra specs, image properties and what else."""
    specs = "".join(
        f'<nova:extraSpec name="{name}">{value}</nova:extraSpec>'
        for name, value in (each.split("=") for each in flavor.split())
    )
    properties = "".join(
        f'<nova:property name="{name}">{value}</nova:property>'
        for name, value in (each.split("=") for each in image.split())
    )
    return f"""
<nova:instance xmlns:nova="{namespace}">
  <nova:flavor name="m1.small" id="3">
    <nova:memory>2048</nova:memory>
    <nova:vcpus>2</nova:vcpus>
    <nova:extraSpecs>{specs}</nova:extraSpecs>
  </nova:flavor>
  <nova:image uuid="i1"><nova:properties>{properties}</nova:properties></nova:image>
  {more}
</nova:instance>"""


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
    """Return huge pages, without any of the host's default size."""
    return f"<memoryBacking><hugepages>{''.join(pages)}</hugepages></memoryBacking>"


# Nova's form of a guest with two cells, each on one of the host.
TWO_CELLS = bound("0-1", "0", "1") + guest_cells("0-1", "2-3")
