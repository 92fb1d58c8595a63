# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Devices that guests of a libvirt host use in one way or another are not in the row of its node.

libvirt's imaginary host has a card with two virtual functions, one of them with an interface, and
a second card and a GPU beside it; its guests are in the same file. It reads no vdpa devices.
"""

from pathlib import Path

import pytest

from compute_agent.audit.tracker import ResourceTracker
from inventory import compute_nodes
from inventory.objects import node_json
from tests.contract.conftest import Load
from tests.fixtures import agent

NODE = agent.SAMPLES / "nodedev-test-node.xml"
MEDIATED = """
<device>
  <name>mdev_b155f2a1</name>
  <parent>pci_0001_82_1f_7</parent>
  <capability type='mdev'>
    <type id='nvidia-1'/>
    <uuid>b155f2a1-0000-4000-8000-000000000001</uuid>
    <iommuGroup number='1'/>
  </capability>
</device>"""
GUEST = """
<domain type='test'>
  <name>user</name>
  <uuid>00000000-0000-4000-8000-000000000001</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type>hvm</type></os>
  <devices>{device}</devices>
</domain>"""
ALL = {"type-PF": 2, "type-VF": 2, "type-PCI": 1}


@pytest.mark.parametrize(
    ("device", "missing"),
    [
        ("", []),
        (
            "<interface type='direct'><source dev='ens1f0v1' mode='passthrough'/></interface>",
            ["type-PF", "type-VF"],
        ),
        (
            "<interface type='direct'><source dev='ens1f0np0' mode='bridge'/></interface>",
            ["type-PF"],
        ),
        (
            "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"
            "<address uuid='b155f2a1-0000-4000-8000-000000000001'/></source></hostdev>",
            ["type-PCI"],
        ),
        (
            "<interface type='hostdev'><source><address type='pci' domain='0x0000' bus='0x0a' "
            "slot='0x10' function='0x1'/></source></interface>",
            ["type-PF", "type-VF"],
        ),
    ],
)
def test_a_device_that_a_guest_uses_is_not_offered(
    load: Load, tmp_path: Path, device: str, missing: list[str]
) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    node = tmp_path / "node.xml"
    more = MEDIATED + (GUEST.format(device=device) if device else "")
    node.write_text(NODE.read_text().replace("</node>", f"{more}</node>"))
    uri = {"connection_uri": f"test://{node}"}
    driver = load(libvirt=uri, pci={"device_spec": "{}"})
    driver.nodes()
    conf = agent.options(tmp_path, libvirt=uri, pci={"device_spec": "{}"})
    database = agent.database(conf)
    (tmp_path / "compute_id").write_text(agent.UUID.format(1))
    ResourceTracker(conf, database, driver).audit({"alpha": 0})
    (row,) = database.read(compute_nodes.all_live)
    database.close()
    found = dict.fromkeys(ALL, 0)
    for pool in node_json.pci_pools_from_json(row.pci_stats):
        found[pool.tags["dev_type"] or ""] += pool.count
    assert found == {kind: number - missing.count(kind) for kind, number in ALL.items()}
