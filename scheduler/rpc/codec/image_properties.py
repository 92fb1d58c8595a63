# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Image properties: every one that Nova knows, and of which kind it is."""

from typing import Any

from scheduler.objects.image_meta import ImageMetaProps
from scheduler.objects.kinds import (
    COUNT,
    INTEGER,
    NAME,
    TEXT,
    TRUTH,
    UUID,
    Kind,
    list_of,
    map_of,
    or_none,
    read_under,
    set_of,
)
from scheduler.objects.shape import Fields, enveloped, unpacked
from scheduler.rpc.codec.glance_names import with_current_names

_CLASS = "ImageMetaProps"
_VERSION = "1.44"


def _typed(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


# Every property of ImageMetaProps 1.44. Nova drops all others when it loads an image.
KINDS: dict[str, Kind] = {
    **_typed(
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
    **_typed(UUID, "hw_ephemeral_encryption_secret_uuid img_signature_certificate_uuid"),
    **_typed(
        INTEGER,
        "hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets"
        " hw_cpu_threads hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports"
        " hw_serial_port_count hw_video_ram img_compression_level img_version",
    ),
    **_typed(
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
    return ImageMetaProps(found)


def _write(properties: ImageMetaProps) -> Fields:
    data = {name: KINDS[name].write(each) for name, each in properties.items() if name in KINDS}
    return enveloped(_CLASS, _VERSION, data)


IMAGE_PROPERTIES = Kind(_read, _write)
