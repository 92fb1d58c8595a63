# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The names that Glance and old releases know image properties by, turned into current ones."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduler.objects.kinds import TEXT, Malformed, read_under, shown

# Where an image has both names, the current one wins.
FORMER_NAMES = {
    "architecture": "hw_architecture",
    "auto_disk_config": "hw_auto_disk_config",
    "bdm_v2": "img_bdm_v2",
    "bittorrent": "img_bittorrent",
    "block_device_mapping": "img_block_device_mapping",
    "cache_in_nova": "img_cache_in_nova",
    "hypervisor_type": "img_hv_type",
    "hypervisor_version_requires": "img_hv_requested_version",
    "ipxe_boot": "hw_ipxe_boot",
    "mappings": "img_mappings",
    "owner_id": "img_owner_id",
    "root_device_name": "img_root_device_name",
    "vm_mode": "hw_vm_mode",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_linked_clone": "img_linked_clone",
    "vmware_ostype": "os_distro",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_use_agent": "img_use_agent",
}
_TRAIT = "trait:"
_HIGHEST_CPU = 65_535


def with_current_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties under their current names, those of Glance folded into them."""
    found = {FORMER_NAMES[name]: each for name, each in given.items() if name in FORMER_NAMES}
    adapter = given.get("vmware_adaptertype")
    if adapter == "ide":
        found["hw_disk_bus"] = adapter
    elif adapter:
        found |= {"hw_disk_bus": "scsi", "hw_scsi_model": adapter}
    found["hw_numa_cpus"] = list(_numbered(given, "hw_numa_cpus", _cpus)) or None
    found["hw_numa_mem"] = list(_numbered(given, "hw_numa_mem", lambda value: value)) or None
    found |= {name: each for name, each in given.items() if each is not None}
    required = [
        name.removeprefix(_TRAIT)
        for name, each in given.items()
        if isinstance(name, str) and name.startswith(_TRAIT) and each == "required"
    ]
    listed = found.get("traits_required") or []
    if required and isinstance(listed, list):
        found["traits_required"] = listed + [name for name in required if name not in listed]
    return found


def _numbered(given: Mapping[str, Any], name: str, read: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield ``name.0``, ``name.1`` and so on, up to the first that is not there."""
    number = 0
    while (each := given.get(f"{name}.{number}")) is not None:
        yield read_under(f"{name}.{number}", read, each)
        number += 1


def _cpus(value: Any) -> list[int]:
    """Read a list of CPUs such as ``0-3,^2,8``."""
    chosen: set[int] = set()
    refused: set[int] = set()
    try:
        for part in filter(None, map(str.strip, TEXT.read(value).split(","))):
            target = refused if part.startswith("^") else chosen
            first, _, last = part.removeprefix("^").partition("-")
            low, high = int(first), int(last or first)
            if not 0 <= low <= high <= _HIGHEST_CPU:
                raise ValueError(part)
            target.update(range(low, high + 1))
    except ValueError:
        raise Malformed(f"{shown(value)} is not a list of CPUs") from None
    return sorted(chosen - refused)
