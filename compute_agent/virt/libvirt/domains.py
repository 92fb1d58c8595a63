# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guests of a libvirt host, asked for in ways that a stuck guest cannot hold up.

Memory statistics and the balloon and vCPU groups of the bulk call ask the guest's monitor, and one
stuck guest blocks them without limit. info() and metadata() only look at what libvirtd has.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

from compute_agent.virt.driver import Guest

# The namespaces of Nova's metadata: since 22.0, and before.
NOVA = (
    "http://openstack.org/xmlns/libvirt/nova/1.1",
    "http://openstack.org/xmlns/libvirt/nova/1.0",
)
KIB_PER_MIB = 1024
# What Nova allows and the database has room for.
_LONGEST_NAME = 255
# By libvirt's number of the state: 0 none, 1 running, 2 blocked, 3 paused, 4 shutting down,
# 5 shut off, 6 crashed, 7 suspended by its power management. Nova stops what has crashed.
STATES = ("active", "active", "active", "paused", "stopped", "stopped", "stopped", "suspended")


def read(link: Any, libvirt: ModuleType) -> list[Guest]:
    """Return all guests, running or not; those that vanish meanwhile are left out.

    Raises libvirtError for all that is no matter of one guest.
    """
    guests = (_read_one(domain, libvirt) for domain in link.listAllDomains(0))
    return [guest for guest in guests if guest is not None]


def _read_one(domain: Any, libvirt: ModuleType) -> Guest | None:
    try:
        info = domain.info()
        metadata = _metadata(domain, libvirt)
    except libvirt.libvirtError as error:
        # OPERATION_TIMEOUT: the guest is stuck, and its libvirtd is one that minds.
        if error.get_error_code() in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_TIMEOUT):
            return None
        raise
    return guest(domain.UUIDString(), domain.name(), info, metadata)


def _metadata(domain: Any, libvirt: ModuleType) -> str | None:
    absent = (
        libvirt.VIR_ERR_NO_DOMAIN_METADATA,
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_OPERATION_INVALID,
    )
    for namespace in NOVA:
        try:
            found: str = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, namespace, 0)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in absent:
                raise
        else:
            return found
    return None


def guest(uuid: str, name: str, info: Sequence[int], metadata: str | None) -> Guest:
    """Return a guest from info(), [state, KiB at most, KiB now, vCPUs, time], and Nova's metadata.

    It counts with the memory it may have, not with what a balloon leaves it at the moment. Without
    metadata its disks count nothing here: what they take shows in disk_available_least. Of the
    flavor Nova tells the name, and newer releases the flavorid, but never the number.
    """
    state, memory_kib, _, vcpus, _ = info
    nova = _Nova(metadata)
    return Guest(
        uuid=uuid,
        name=nova.name or name,
        vcpus=vcpus,
        memory_mb=-(-memory_kib // KIB_PER_MIB),
        root_gb=nova.number("flavor/disk") if nova.has_local_root else 0,
        ephemeral_gb=nova.number("flavor/ephemeral"),
        swap_mb=nova.number("flavor/swap"),
        vm_state=STATES[state] if 0 <= state < len(STATES) else "active",
        project_id=nova.project_id,
        flavor_name=nova.flavor_name,
        image_properties=nova.image_properties,
    )


class _Nova:
    """Nova's metadata of a guest; empty where there is none or it cannot be read."""

    def __init__(self, xml: str | None) -> None:
        try:
            self._root = ElementTree.fromstring(xml or "<none/>")
        except ElementTree.ParseError:
            self._root = ElementTree.Element("none")

    @property
    def name(self) -> str | None:
        return self._root.findtext("{*}name")

    @property
    def project_id(self) -> str | None:
        owner = self._root.find("{*}owner/{*}project")
        return owner.get("uuid") if owner is not None else None

    @property
    def flavor_name(self) -> str | None:
        flavor = self._root.find("{*}flavor")
        name = flavor.get("name", "") if flavor is not None else ""
        return name if 0 < len(name) <= _LONGEST_NAME else None

    @property
    def image_properties(self) -> dict[str, str] | None:
        """Newer releases tell them, with the image; nothing is known without."""
        image = self._root.find("{*}image")
        if image is None:
            return None
        found = image.findall("{*}properties/{*}property")
        return {name: each.text or "" for each in found if (name := each.get("name"))}

    @property
    def has_local_root(self) -> bool:
        """Nova names an image here, and nothing for a guest that boots from a volume."""
        root = self._root.find("{*}root")
        return root is not None and root.get("type") == "image"

    def number(self, path: str) -> int:
        text = self._root.findtext("/".join("{*}" + name for name in path.split("/")), "")
        return int(text) if text.isdecimal() else 0
