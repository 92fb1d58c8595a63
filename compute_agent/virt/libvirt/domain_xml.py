# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the XML of a libvirt domain into a guest.

XMLDesc(0) has all that is needed, and libvirtd answers it by itself: a guest that is stuck cannot
hold it up.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID
from xml.etree.ElementTree import Element

from compute_agent.virt.driver import DriverAnswerUnusable, Guest
from compute_agent.virt.libvirt import domain_numa, nova_metadata
from compute_agent.virt.libvirt.domain_numa import DomainCell
from compute_agent.virt.libvirt.nova_metadata import MAX_NAME_LENGTH
from compute_agent.virt.libvirt.xml_values import MAX_CPUS, document, number

QUESTION = "XMLDesc"
# The number of Xen's own, which runs the others. No other hypervisor has a guest of this number.
DOMAIN_0 = 0
# By libvirt's number of the state: 0 none, 1 running, 2 blocked, 3 paused, 4 shutting down,
# 5 shut off, 6 crashed, 7 suspended by its power management. Nova stops what has crashed.
STATES = ("active", "active", "active", "paused", "stopped", "stopped", "stopped", "suspended")
_HEXADECIMAL = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk in a file of the host, in a format such as raw or qcow2. Guests may share one."""

    path: str
    format: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A guest, its disks, and its cells, of which placed() of guest_numa makes its numa."""

    guest: Guest
    disks: tuple[Disk, ...]
    cells: tuple[DomainCell, ...] = ()


def vm_state(state: int) -> str:
    """Return Nova's name of libvirt's state; an unknown one may be running."""
    return STATES[state] if 0 <= state < len(STATES) else "active"


def parse(xml: str, state: int) -> Parsed:
    """Return the guest of a domain in libvirt's state; raises DriverAnswerUnusable.

    Where Nova noted a flavor, that counts; but if the domain may take more CPUs or memory than the
    flavor, because it was changed later, so does the guest. CPUs
    are those that are plugged in. Without a flavor disks count nothing here: what they take shows
    in disk_available_least.
    """
    domain = document(xml, QUESTION)
    nova = nova_metadata.read(domain.find("metadata"))
    vcpus, memory_mb = _vcpus(domain), domain_numa.memory_mb(domain)
    devices = domain.find("devices")
    devices = Element("devices") if devices is None else devices
    return Parsed(
        guest=Guest(
            uuid=_uuid(domain),
            name=nova.name or domain.findtext("name", "")[:MAX_NAME_LENGTH],
            vcpus=max(vcpus, nova.vcpus),
            memory_mb=max(memory_mb, nova.memory_mb),
            root_gb=nova.root_gb,
            ephemeral_gb=nova.ephemeral_gb,
            swap_mb=nova.swap_mb,
            vm_state=vm_state(state),
            project_id=nova.project_id,
            os_type=nova.os_type,
            flavor_name=nova.flavor_name,
            image_properties=nova.image_properties,
            pci_addresses=tuple(dict.fromkeys(_pci_addresses(devices))),
            device_names=tuple(dict.fromkeys(_device_names(devices))),
        ),
        disks=tuple(_disks(devices)),
        cells=domain_numa.read(domain, vcpus, memory_mb, nova),
    )


def _uuid(domain: Element) -> str:
    text = domain.findtext("uuid", "").strip()
    try:
        return str(UUID(text))
    except ValueError as error:
        raise DriverAnswerUnusable(QUESTION, f"{text[:40]!r} is not a uuid") from error


def _vcpus(domain: Element) -> int:
    """Return how many are plugged in, which is what info() counts."""
    found = domain.find("vcpu")
    if found is None:
        return 0
    return number(found.get("current", found.text), at_most=MAX_CPUS) or 0


def _disks(devices: Element) -> Iterator[Disk]:
    for disk in devices.findall("disk"):
        source, driver = disk.find("source"), disk.find("driver")
        path = None if source is None else source.get("file")
        if path and disk.get("type") == "file" and disk.get("device", "disk") == "disk":
            yield Disk(path, "raw" if driver is None else driver.get("type", "raw"))


def _pci_addresses(devices: Element) -> Iterator[str]:
    """Yield the address of each device of the host that is passed through."""
    for device in devices:
        source = device.find("source")
        if source is None or not _passes_pci(device, source):
            continue
        address = source.find("address")
        found = None if address is None else _pci_address(address)
        if found is not None:
            yield found


def _device_names(devices: Element) -> Iterator[str]:
    """Yield the interface, file or uuid of each device of the host that is used without an address.

    With macvtap a guest has an interface of a card, with vdpa a file that stands for a function.
    """
    for device in devices:
        source = device.find("source")
        if source is None:
            continue
        name: str | None = None
        match device.tag, device.get("type"):
            case ("interface", "direct" | "vdpa") | ("disk", "vhostvdpa"):
                name = source.get("dev")
            case "hostdev", "mdev":
                address = source.find("address")
                name = None if address is None else address.get("uuid")
        if name:
            yield name


def _passes_pci(device: Element, source: Element) -> bool:
    match device.tag, device.get("type"):
        case "hostdev", "pci":
            return device.get("mode", "subsystem") == "subsystem"
        case "interface", "hostdev":
            return True
        case "disk", "nvme":
            return source.get("type") == "pci"
    return False


def _pci_address(address: Element) -> str | None:
    parts = ("domain", 0xFFFFFFFF), ("bus", 0xFF), ("slot", 0x1F), ("function", 7)
    numbers = []
    for name, largest in parts:
        digits = _HEXADECIMAL.fullmatch(address.get(name, ""))
        value = int(digits[1], 16) if digits else largest + 1
        if value > largest:
            return None
        numbers.append(value)
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)
