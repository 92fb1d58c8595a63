# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual functions that guests have as vdpa, which libvirt's imaginary host does not know."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from compute_agent import device_spec
from compute_agent.audit.pci_devices import free_pools
from compute_agent.virt.libvirt.driver import LibvirtDriver
from tests.fixtures import agent
from tests.unit.compute_agent.virt.libvirt.domain import a_domain
from tests.unit.compute_agent.virt.libvirt.library import Domain, a_host

FUNCTION = """
<device>
  <name>pci_0000_0a_00_{number}</name>
  <parent>computer</parent>
  <capability type='pci'>
    <domain>0</domain><bus>10</bus><slot>0</slot><function>{number}</function>
    <product id='0x101e'/><vendor id='0x15b3'/>
    {more}
  </capability>
</device>"""
OF_THE_FIRST = """
<capability type='phys_function'>
  <address domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/>
</capability>"""
VDPA = """
<device>
  <name>vdpa_vdpa{number}</name>
  <parent>pci_0000_0a_00_{number}</parent>
  <driver><name>vhost_vdpa</name></driver>
  <capability type='vdpa'><chardev>/dev/vhost-vdpa-{number}</chardev></capability>
</device>"""
CARD = {"pci_0000_0a_00_0": FUNCTION.format(number=0, more="<capability type='virt_functions'/>")}
FUNCTIONS = {
    f"pci_0000_0a_00_{number}": FUNCTION.format(number=number, more=OF_THE_FIRST)
    for number in (1, 2)
}
PARTS = {f"vdpa_vdpa{number}": VDPA.format(number=number) for number in (1, 2)}


@pytest.mark.parametrize(
    ("device", "free"),
    [
        ("", {"type-PF": 1, "vdpa": 2}),
        ("<interface type='vdpa'><source dev='/dev/vhost-vdpa-1'/></interface>", {"vdpa": 1}),
        ("<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-2'/></disk>", {"vdpa": 1}),
        (
            "<interface type='vdpa'><source dev='/dev/vhost-vdpa-9'/></interface>",
            {"type-PF": 1, "vdpa": 2},
        ),
    ],
)
def test_a_virtual_function_that_a_guest_has_as_vdpa_is_taken(
    tmp_path: Path, device: str, free: dict[str, int]
) -> None:
    listed = [
        SimpleNamespace(name=lambda name=name: name, XMLDesc=lambda _, xml=xml: xml)
        for name, xml in (CARD | FUNCTIONS | PARTS).items()
    ]
    daemon = a_host(listAllDevices=listed)
    daemon.host(Domain(1, xml=a_domain(devices=device)))
    options = agent.options(tmp_path, pci={"device_spec": "{}"})
    driver = LibvirtDriver(options, daemon.library)
    (node,) = driver.nodes()
    (guest,) = driver.guests(node)
    devices = driver.facts(node).pci_devices
    driver.close()
    pools = free_pools(device_spec.parse(["{}"]), devices, guest.pci_addresses, guest.device_names)
    assert {pool.tags["dev_type"]: pool.count for pool in pools if pool.count} == free
