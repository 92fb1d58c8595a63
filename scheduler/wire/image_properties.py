# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Image properties of Nova: the type of each, and its former names."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from inventory.objects.field_types import (
    COUNT,
    INTEGER,
    NAME,
    TEXT,
    TRUTH,
    UUID,
    FieldType,
    Malformed,
    list_of,
    map_of,
    or_none,
    read_under,
    set_of,
    shown,
    typed,
)
from inventory.objects.object_schema import Fields, enveloped, unpacked
from scheduler.objects.flavor_and_image import ImageMetaProps

_CLASS = "ImageMetaProps"
_VERSION = "1.44"
# Of all properties: each claim has them, and each instance. Nova keeps 255 of each property.
MAX_CHARACTERS = 65_535


# Every property of ImageMetaProps 1.44. Nova drops all others when it loads an image.
KINDS: dict[str, FieldType] = {
    **typed(
        TEXT,
        "hw_architecture hw_auto_disk_config hw_cdrom_bus hw_cpu_policy hw_cpu_realtime_mask"
        " hw_cpu_thread_policy hw_disk_bus hw_disk_type hw_emulation_architecture"
        " hw_ephemeral_encryption_format hw_firmware_type hw_floppy_bus hw_input_bus"
        " hw_machine_type hw_maxphysaddr_mode hw_mem_encryption_model hw_mem_page_size"
        " hw_pci_numa_affinity_policy hw_pointer_model hw_rescue_bus hw_rescue_device"
        " hw_rng_model hw_scsi_model hw_sound_model hw_tpm_model hw_tpm_version hw_usb_model"
        " hw_video_model hw_vif_model hw_viommu_model hw_vm_mode hw_watchdog_action"
        " img_config_drive img_hv_requested_version img_hv_type img_owner_id"
        " img_root_device_name img_signature img_signature_hash_method img_signature_key_type"
        " os_admin_user os_command_line os_distro os_secure_boot os_type",
    ),
    **typed(UUID, "hw_ephemeral_encryption_secret_uuid img_signature_certificate_uuid"),
    **typed(
        INTEGER,
        "hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets"
        " hw_cpu_threads hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports"
        " hw_serial_port_count hw_video_ram img_compression_level img_version",
    ),
    **typed(
        TRUTH,
        "hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot"
        " hw_locked_memory hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet"
        " hw_vif_multiqueue_enabled hw_virtio_packed_ring img_bdm_v2 img_bittorrent"
        " img_cache_in_nova img_hide_hypervisor_id img_linked_clone img_use_agent"
        " os_require_quiesce os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh",
    ),
    "hw_numa_cpus": list_of(set_of(COUNT)),
    "hw_numa_mem": list_of(COUNT),
    "img_block_device_mapping": list_of(map_of(or_none(TEXT))),
    "img_mappings": list_of(map_of(or_none(TEXT))),
    "traits_required": list_of(NAME),
}


def _read(value: Any) -> ImageMetaProps:
    given = unpacked(value, _CLASS, _VERSION.partition(".")[0])
    if given.keys() - KINDS.keys():
        given = with_current_names(given)
    found = {}
    for name, each in given.items():
        if each is not None and name in KINDS:
            found[name] = read_under(name, KINDS[name].read, each)
    size = sum(len(str(each)) for each in found.values())
    if size > MAX_CHARACTERS:
        raise Malformed(f"{size} characters are more than {MAX_CHARACTERS}")
    return ImageMetaProps(found)


def _write(properties: ImageMetaProps) -> Fields:
    data = {name: KINDS[name].write(each) for name, each in properties.items() if name in KINDS}
    return enveloped(_CLASS, _VERSION, data)


IMAGE_PROPERTIES = FieldType(_read, _write)


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
_NUMBERED = ("hw_numa_cpus", "hw_numa_mem")
_HIGHEST_CPU = 65_535
# Names of Nova and of Glance, without those that end in a number or a trait.
NAMES = frozenset({*KINDS, *FORMER_NAMES, "vmware_adaptertype"})


def is_known(name: str) -> bool:
    """Return whether something is read of a property of this name."""
    stem, _, number = name.rpartition(".")
    return name in NAMES or name.startswith(_TRAIT) or (stem in _NUMBERED and number.isdecimal())


def with_current_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties under their current names, with those of Glance."""
    found = {FORMER_NAMES[name]: each for name, each in given.items() if name in FORMER_NAMES}
    adapter = given.get("vmware_adaptertype")
    if adapter == "ide":
        found["hw_disk_bus"] = adapter
    elif adapter:
        found |= {"hw_disk_bus": "scsi", "hw_scsi_model": adapter}
    readers: tuple[Callable[[Any], Any], ...] = (_cpus, lambda value: value)
    for name, read in zip(_NUMBERED, readers, strict=True):
        found[name] = list(_numbered(given, name, read)) or None
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
    """Yield the values of ``name.0``, ``name.1`` and so on, up to the first missing one."""
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
