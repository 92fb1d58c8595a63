# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""PCI devices are read once each, and what comes, goes or cannot be read spoils no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent import device_spec
from compute_agent.audit.pci_devices import free_pools
from compute_agent.virt.driver import DriverUnavailable, PciDevice
from compute_agent.virt.libvirt import devices
from compute_agent.virt.libvirt.connection import library
from compute_agent.virt.libvirt.devices import DevicePart, Known
from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Error

if TYPE_CHECKING:
    from tests.fixtures.daemons.libvirtd import Libvirtd

NODE = agent.SAMPLES / "nodedev-test-node.xml"
NO_NODE_DEVICE, INTERNAL_ERROR = 53, 1
PCI_DEV, NET, VDPA = 2, 16, 1 << 17
CARD = PciDevice(
    *("0000:0a:00.0", "15b3", "101d", "type-PF", 1),
    interface="ens1f0np0",
    # The second one stands for a virtual function in the card's switch.
    names=("ens1f0np0", "ens1f0npf0vf0"),
)
SECOND = PciDevice("0000:0a:00.1", "15b3", "101d", "type-PF", 1)
FIRST_OF_CARD = PciDevice("0000:0a:00.2", "15b3", "101e", "type-VF", 1, CARD.address)
LAST_OF_CARD = PciDevice(
    *("0000:0a:10.1", "15b3", "101e", "type-VF", 1, CARD.address), "ens1f0v1", ("ens1f0v1",)
)
GPU = PciDevice("0001:82:1f.7", "10de", "1db6")

VDPA_XML = """
<device>
  <name>vdpa_vdpa0</name>
  <path>/sys/devices/pci0000:00/0000:00:02.2/0000:0a:00.2/vdpa0</path>
  <parent>{parent}</parent>
  <driver>
    <name>vhost_vdpa</name>
  </driver>
  <capability type='vdpa'>
    <chardev>/dev/vhost-vdpa-0</chardev>
  </capability>
</device>
"""
PCI_XML = """
<device>
  <name>pci_0000_00_03_0</name>
  <parent>computer</parent>
  <capability type='pci'>
    <domain>{domain}</domain>
    <bus>0</bus>
    <slot>3</slot>
    <function>0</function>
    <product id='{product}'/>
    <vendor id='0x1af4'/>
    {more}
  </capability>
</device>
"""


def described(domain: object = 0, product: str = "0x1041", more: str = "") -> str:
    return PCI_XML.format(domain=domain, product=product, more=more)


class Device:
    """A node device whose description is a text, or an error to raise."""

    def __init__(self, name: str, xml: str | Exception) -> None:
        self._name = name
        self.xml = xml
        self.looks = 0

    def name(self) -> str:
        return self._name

    def XMLDesc(self, flags: int) -> str:
        self.looks += 1
        if isinstance(self.xml, Exception):
            raise self.xml
        return self.xml


class Host:
    """A stand-in for a libvirt host with these devices, and what was read of them."""

    def __init__(self, *devices: Device) -> None:
        self.devices = {device.name(): device for device in devices}
        self.asked: list[int] = []
        self.daemon = Daemon(listAllDevices=self._list)
        self.known: Known = {}
        self.library = self.daemon.library
        vars(self.library).update(
            VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV=PCI_DEV,
            VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET=NET,
            VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA=VDPA,
        )
        self._link = self.daemon.open("x")

    def _list(self, flags: int) -> list[Device]:
        self.asked.append(flags)
        return list(self.devices.values())

    def plug(self, name: str, xml: str | Exception) -> Device:
        self.devices[name] = Device(name, xml)
        return self.devices[name]

    def read(self) -> tuple[PciDevice, ...]:
        return devices.read(self._link, self.library, self.known)


def captured() -> list[Device]:
    """Return the devices of the host in the node file, as libvirt describes them."""
    root = ElementTree.parse(NODE).getroot()
    return [
        Device(each.findtext("name", ""), ElementTree.tostring(each, encoding="unicode"))
        for each in root.findall("device")
    ]


def test_a_captured_device() -> None:
    device = PciDevice("0000:00:03.0", "1af4", "1041")
    assert devices.parse(sample("nodedevice-pci.xml")) == device


def test_the_captured_list() -> None:
    """Six devices, of which one has an interface; the other interfaces are of no device."""
    listed = []
    for each in sample("nodedevices-pci-net.json"):
        text = sample("nodedevice-pci.xml").replace("<slot>3<", f"<slot>{each['name'][12:14]}<")
        if each["caps"] == ["net"]:
            interface = each["name"].split("_")[1]
            text = (
                f"<device><parent>{each['parent']}</parent><capability type='net'>"
                f"<interface>{interface}</interface></capability></device>"
            )
        listed.append(Device(each["name"], text))
    found = Host(*listed).read()
    assert [device.address for device in found] == [f"0000:00:0{slot}.0" for slot in range(6)]
    assert [device.interface for device in found] == [None, None, None, "eth0", None, None]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("<numa node='1'/>", {"numa_node": 1}),
        ("<numa node='-1'/>", {}),
        ("<capability type='virt_functions' maxCount='8'/>", {"kind": "type-PF"}),
        ("<capability type='phys_function'/>", {}),
        (
            "<capability type='phys_function'>"
            "<address domain='0x0001' bus='0x0a' slot='0x1f' function='0x7'/></capability>",
            {"kind": "type-VF", "parent": "0001:0a:1f.7"},
        ),
        ("<capability type='mdev_types'/><capability type='vpd'/>", {}),
        # Not those that the device merely shares its isolation with.
        ("<iommuGroup number='2'><address domain='0x0001' bus='0x0a'/></iommuGroup>", {}),
    ],
)
def test_what_a_description_says(more: str, expected: dict[str, Any]) -> None:
    found = devices.parse(described(more=more))
    assert found == PciDevice(
        **{"address": "0000:00:03.0", "vendor_id": "1af4", "product_id": "1041"} | expected
    )


def test_numbers_are_written_as_addresses_are() -> None:
    device = devices.parse(described(domain=65536, product="0xAb"))
    assert device == PciDevice("10000:00:03.0", "1af4", "00ab")


@pytest.mark.parametrize(
    "xml",
    [
        "",
        "<device",
        "<device/>",
        "<device><capability type='net'/></device>",
        "<device><capability type='usb'/></device>",
        "<device><capability type='pci'/></device>",
        described(domain=""),
        described(domain="x"),
        described(product="network card"),
        described().replace("<vendor", "<seller"),
        described(more="<capability type='phys_function'><address domain='0x0000'/></capability>"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_looked_at_once(xml: str) -> None:
    assert devices.parse(xml) is None
    host = Host(Device("odd", xml), *captured())
    assert len(host.read()) == 5
    assert host.read() == host.read()
    assert host.devices["odd"].looks == 1


def test_parts_are_put_together_by_name() -> None:
    card, virtual = PciDevice("0000:01:00.0", "1", "2", "type-PF"), FIRST_OF_CARD
    parts = {
        "virtual": virtual,
        "card": card,
        "none": None,
        "long": DevicePart("net", "card", "eth10"),
        "short": DevicePart("net", "card", "eth9"),
        "lo": DevicePart("net", "computer", "lo"),
        "vdpa0": DevicePart("vdpa", "virtual", "/dev/vhost-vdpa-0"),
        "mdev": DevicePart("mdev", "card", "b155f2a1"),
        # One that a card offers as a whole is no virtual function.
        "vdpa1": DevicePart("vdpa", "card", ""),
    }
    one, two = devices.joined(parts)
    assert (one.kind, one.interface) == ("type-PF", "eth9")
    assert (two.kind, two.interface, two.parent) == ("vdpa", None, CARD.address)
    assert one.names == ("b155f2a1", "eth10", "eth9")
    assert two.names == ("/dev/vhost-vdpa-0",)


def test_each_device_is_described_once() -> None:
    host = Host(*captured())
    expected = (CARD, SECOND, FIRST_OF_CARD, LAST_OF_CARD, GPU)
    assert [host.read() for _ in range(3)] == [expected] * 3
    assert {device.looks for device in host.devices.values()} == {1}
    assert host.daemon.calls == ["listAllDevices"] * 3
    assert host.asked == [PCI_DEV | NET | VDPA] * 3


def test_before_6_9_libvirt_knows_no_vdpa() -> None:
    host = Host(*captured())
    del host.library.VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA
    assert len(host.read()) == 5
    assert host.asked == [PCI_DEV | NET]


def test_what_is_plugged_and_unplugged_is_seen_each_time() -> None:
    host = Host(*captured())
    host.read()
    gpu = host.devices.pop("pci_0001_82_1f_7")
    assert GPU not in host.read()
    host.plug("vdpa_vdpa0", VDPA_XML.format(parent="pci_0000_0a_00_2"))
    host.devices.pop("net_ens1f0v1_b8_ce_f6_00_00_03")
    after = {device.address: device for device in host.read()}
    assert after[FIRST_OF_CARD.address].kind == "vdpa"
    assert after[FIRST_OF_CARD.address].names == ("/dev/vhost-vdpa-0",)
    assert after[LAST_OF_CARD.address].interface is None
    host.devices.pop("vdpa_vdpa0")
    host.devices[gpu.name()] = gpu
    after = {device.address: device for device in host.read()}
    assert after[FIRST_OF_CARD.address].kind == "type-VF"
    assert (after[GPU.address], gpu.looks) == (GPU, 2)
    assert host.known.keys() == host.devices.keys()


@pytest.mark.parametrize("code", [NO_NODE_DEVICE, INTERNAL_ERROR, None])
def test_a_device_that_vanishes_meanwhile_is_left_out_until_it_is_back(code: int | None) -> None:
    host = Host(*captured())
    device = host.devices["pci_0001_82_1f_7"]
    xml, device.xml = device.xml, Error(code, "no node device with matching name")
    assert len(host.read()) == 4
    device.xml = xml
    assert len(host.read()) == 5


def test_a_daemon_that_dies_meanwhile_is_no_matter_of_one_device() -> None:
    host = Host(*captured())
    host.devices["pci_0001_82_1f_7"].xml = Error(38, "Cannot recv data: Connection reset by peer")

    def last_words(flags: int) -> Any:
        host.daemon.die()
        return list(host.devices.values())

    host.daemon.answers["listAllDevices"] = last_words
    with pytest.raises(Error, match="Connection reset"):
        host.read()


def test_a_host_that_cannot_list_devices_has_none() -> None:
    host = Host(*captured())
    host.read()
    host.daemon.answers["listAllDevices"] = Error(NO_SUPPORT, "this function is not supported")
    assert host.read() == ()
    assert host.known == {}


def test_a_list_that_cannot_be_made_names_who_asked_for_it() -> None:
    host = Host()
    host.daemon.answers["listAllDevices"] = Error(INTERNAL_ERROR, "no such luck")
    with pytest.raises(DriverUnavailable, match=r"device_spec: no such luck; .*virtnodedevd"):
        host.read()


def test_a_connection_that_is_lost_is_the_callers() -> None:
    host = Host()
    host.daemon.die()
    with pytest.raises(Error, match="socket is closed"):
        host.read()


@given(st.text() | st.text(st.characters(codec="ascii")).map(lambda text: described(more=text)))
def test_no_description_raises(xml: str) -> None:
    devices.parse(xml)


@contextmanager
def connected(uri: str) -> Iterator[tuple[ModuleType, Any]]:
    """Yield the real library and a connection to look at."""
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    real = library()
    link = real.openReadOnly(uri)
    yield real, link
    link.close()


def test_libvirts_own_host_from_a_file() -> None:
    with connected(f"test://{NODE}") as (real, link):
        known: Known = {}
        found = devices.read(link, real, known)
        assert found == (CARD, SECOND, FIRST_OF_CARD, LAST_OF_CARD, GPU)
        assert devices.read(link, real, known) == found


def test_libvirts_imaginary_host_has_no_pci_devices() -> None:
    with connected("test:///default") as (real, link):
        assert devices.read(link, real, {}) == ()


def test_a_real_daemon(libvirtd: "Libvirtd") -> None:
    """What it finds is the machine's; it may be nothing, in a container as a rule."""
    with connected(libvirtd.uri) as (real, link):
        known: Known = {}
        found = devices.read(link, real, known)
        assert devices.read(link, real, known) == found
        kinds = {"type-PCI", "type-PF", "type-VF", "vdpa"}
        assert all(device.kind in kinds for device in found)
        pools = free_pools(device_spec.parse(["{}"]), found, ())
        assert sum(pool.count for pool in pools) == len(found)
        names = {each.name() for each in link.listAllDevices(PCI_DEV)}
        spelt = {"pci_" + device.address.translate({58: "_", 46: "_"}) for device in found}
        assert spelt == names
