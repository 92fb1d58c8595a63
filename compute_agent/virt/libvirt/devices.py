# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a libvirt host, listed again when something was plugged or unplugged."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any
from xml.etree.ElementTree import Element

from compute_agent.virt.driver import DriverAnswerUnusable, DriverUnavailable, PciDevice
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.events import Events, drain
from compute_agent.virt.libvirt.xml_values import document
from conf.daemon.state_logger import one_line

# What was read of node devices, by their names.
Known = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A part of the node device owner that guests may use, by its name.

    A network interface ("net"), a part such as a virtual GPU ("mdev"), which has a uuid, or what
    speaks virtio to a guest by way of a file ("vdpa").
    """

    kind: str
    owner: str
    name: str


_PARTS = ("domain", "bus", "slot", "function")


def read(link: Any, libvirt: ModuleType, known: Known) -> tuple[PciDevice, ...]:
    """Return all PCI devices, in the order of their addresses.

    Only devices that are not known yet are read. Those that vanish meanwhile or that libvirt cannot
    describe are left out. Raises libvirtError where the connection is lost, and DriverUnavailable
    where libvirt cannot list devices, which modular daemons need virtnodedevd for.
    """
    listed = {device.name(): device for device in _listed(link, libvirt)}
    for name in known.keys() - listed.keys():
        del known[name]
    for name in listed.keys() - known.keys():
        xml = _description(link, listed[name], libvirt)
        if xml is not None:
            known[name] = parse(xml)
    return joined(known)


def _listed(link: Any, libvirt: ModuleType) -> list[Any]:
    kinds = (
        libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
        | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET
        # Known since 3.4 and 6.9.
        | getattr(libvirt, "VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV", 0)
        | getattr(libvirt, "VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA", 0)
    )
    try:
        listed: list[Any] = link.listAllDevices(kinds)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
            return []
        if link.isAlive() != 1:
            raise
        raise DriverUnavailable(
            f"libvirt cannot list the devices for [pci] device_spec: {one_line(error)}; does its "
            "daemon for devices (virtnodedevd) run?"
        ) from error
    return listed


def _description(link: Any, device: Any, libvirt: ModuleType) -> str | None:
    try:
        xml: str = device.XMLDesc(0)
    except libvirt.libvirtError:
        # Its code says "no such device" or, if it went while libvirt read its files, anything.
        if link.isAlive() != 1:
            raise
        return None
    return xml


def joined(parts: Mapping[str, PciDevice | DevicePart | None]) -> tuple[PciDevice, ...]:
    """Return the devices among the parts, by the names of node devices, with their own names."""
    interfaces: dict[str, list[str]] = {}
    names: dict[str, set[str]] = {}
    of_devices = [part for part in parts.values() if isinstance(part, DevicePart)]
    for part in of_devices:
        if part.kind == "net":
            interfaces.setdefault(part.owner, []).append(part.name)
        if part.name:
            names.setdefault(part.owner, set()).add(part.name)
    vdpa = {part.owner for part in of_devices if part.kind == "vdpa"}
    devices = []
    for name, device in parts.items():
        if isinstance(device, PciDevice):
            is_vdpa = device.kind == "type-VF" and name in vdpa
            # A card that switches has an interface for each virtual function, with longer names.
            found = min(interfaces.get(name, []), key=lambda each: (len(each), each), default=None)
            kind = "vdpa" if is_vdpa else device.kind
            own = tuple(sorted(names.get(name, ())))
            devices.append(replace(device, kind=kind, interface=found, names=own))
    return tuple(sorted(devices, key=lambda device: device.address))


def parse(xml: str) -> PciDevice | DevicePart | None:
    """Return the device or part that XML describes, None if it cannot be read or used."""
    try:
        root = document(xml, "XMLDesc")
    except DriverAnswerUnusable:
        return None
    owner = root.findtext("parent", "")
    pci = root.find("capability[@type='pci']")
    if pci is not None:
        return _pci(pci)
    for kind, field in (("net", "interface"), ("mdev", "uuid")):
        if name := root.findtext(f"capability[@type='{kind}']/{field}"):
            return DevicePart(kind, owner, name)
    vdpa = root.find("capability[@type='vdpa']")
    return None if vdpa is None else DevicePart("vdpa", owner, vdpa.findtext("chardev", ""))


def _pci(pci: Element) -> PciDevice | None:
    physical = pci.find("capability[@type='phys_function']/address")
    if pci.find("capability[@type='virt_functions']") is not None:
        kind = "type-PF"
    else:
        kind = "type-PCI" if physical is None else "type-VF"
    node = _attribute(pci, "numa", "node")
    try:
        parent = None
        if physical is not None:
            parent = _address(int(physical.get(part, ""), 16) for part in _PARTS)
        return PciDevice(
            address=_address(int(pci.findtext(part, "")) for part in _PARTS),
            vendor_id=f"{int(_attribute(pci, 'vendor', 'id'), 16):04x}",
            product_id=f"{int(_attribute(pci, 'product', 'id'), 16):04x}",
            kind=kind,
            numa_node=int(node) if node.isdecimal() else None,
            parent=parent,
        )
    except ValueError:
        return None


def _address(parts: Iterable[int]) -> str:
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*parts)


def _attribute(element: Element, child: str, name: str) -> str:
    found = element.find(child)
    return "" if found is None else found.get(name, "")


# Seconds after which all devices are read again without an event.
REREAD_AFTER = 3600.0


class Devices:
    """Cache the PCI devices of a host."""

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        events: Events,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._events = events
        self._clock = clock
        self._known: Known = {}
        self._found: tuple[PciDevice, ...] = ()
        self._changed: set[str] = set()
        self._opening: object = None
        self._due = clock()

    def look(self) -> tuple[PciDevice, ...]:
        """Return all devices, asking only if they may have changed; raises DriverUnavailable."""
        self._changed |= drain(self._events.devices)
        opening, now = self._connection.opening, self._clock()
        anew = opening is not self._opening or now >= self._due
        if not anew and self._events.hears_devices and not self._changed:
            return self._found
        # A copy: a call that hangs may go on with it after it was abandoned.
        known = {name: part for name, part in self._known.items() if name not in self._changed}
        if anew:
            known.clear()
            self._due = now + REREAD_AFTER
        self._found = self._connection.call(lambda link: read(link, self._libvirt, known))
        self._known, self._opening = known, opening
        self._changed.clear()
        return self._found
