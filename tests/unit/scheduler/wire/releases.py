# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the objects of each release of Nova can say: its versions, and when each field came."""

_IN_ORDER = (
    "mitaka newton ocata pike queens rocky stein train ussuri victoria wallaby xena zed 2024.1"
    " 2026.1 2026.2"
)
RELEASES = tuple(_IN_ORDER.split())
NEWTON, NEWEST = "newton", "2026.2"

# A version for each of the releases, and a dash where there was no such class.
_HISTORY = {
    "CellMapping": "1.0 1.0 1.0 1.0 1.0" + 11 * " 1.1",
    "ComputeNode": "1.16 1.16 1.16 1.18 1.18 1.18 1.18" + 9 * " 1.19",
    "ComputeNodeList": "1.14 1.15 1.16" + 13 * " 1.17",
    "Destination": "- 1.0 1.0 1.1 1.1 1.2 1.2" + 9 * " 1.4",
    "Flavor": "1.1 1.1 1.1 1.1" + 12 * " 1.2",
    "ImageMeta": 16 * " 1.8",
    "ImageMetaProps": "1.12 1.15 1.16 1.19 1.19 1.20 1.21 1.24 1.25 1.27 1.29 1.30 1.34 1.37 1.42"
    " 1.44",
    "InstanceGroup": "1.10 1.10 1.10 1.10 1.10" + 11 * " 1.11",
    "InstanceNUMACell": "1.3 1.3 1.4 1.4 1.4 1.4 1.4 1.4 1.4" + 7 * " 1.6",
    "InstanceNUMATopology": "1.2 1.2" + 14 * " 1.3",
    "InstancePCIRequest": "1.1 1.1 1.1 1.1 1.2 1.2 1.3 1.3 1.3 1.3" + 6 * " 1.4",
    "InstancePCIRequests": 16 * " 1.1",
    "NetworkMetadata": "- - - - -" + 11 * " 1.0",
    "NetworkRequest": "1.1" + 10 * " 1.2" + 5 * " 1.3",
    "NetworkRequestList": 16 * " 1.1",
    "NUMATopologyLimits": "1.0 1.0 1.0 1.0 1.0" + 11 * " 1.1",
    "RequestGroup": "- - - - - - 1.1" + 9 * " 1.3",
    "RequestLevelParams": "- - - - - - - - 1.0 1.0 1.0" + 5 * " 1.1",
    "RequestSpec": "1.5 1.6 1.8 1.8 1.8 1.11 1.12 1.12 1.13 1.13 1.14 1.14 1.14 1.15 1.15 1.15",
    "SchedulerLimits": 16 * " 1.0",
    "SchedulerRetries": 16 * " 1.1",
    "SecurityGroup": "1.1 1.1" + 14 * " 1.2",
    "SecurityGroupList": "1.0 1.0 1.0" + 13 * " 1.1",
}
VERSIONS = {
    name: dict(zip(RELEASES, history.split(), strict=True)) for name, history in _HISTORY.items()
}

# The fields that a class has not had from its beginning; versions before Mitaka's are left out.
_SINCE = {
    "Destination": {
        "cell": "1.1",
        "aggregates": "1.2",
        "allow_cross_cell_move": "1.3",
        "forbidden_aggregates": "1.4",
    },
    "Flavor": {"description": "1.2"},
    "InstanceGroup": {"policy": "1.11", "_rules": "1.11"},
    "InstanceNUMACell": {"pcpuset": "1.5", "cpuset_reserved": "1.4"},
    "InstanceNUMATopology": {"emulator_threads_policy": "1.3"},
    "InstancePCIRequest": {"numa_policy": "1.2", "requester_id": "1.3"},
    "NetworkRequest": {"tag": "1.2", "arq_uuid": "1.3", "device_profile": "1.3"},
    "NUMATopologyLimits": {"network_metadata": "1.1"},
    "RequestGroup": {"in_tree": "1.2", "forbidden_aggregates": "1.3"},
    "RequestLevelParams": {"same_subtree": "1.1"},
    "RequestSpec": {
        "requested_destination": "1.6",
        "security_groups": "1.8",
        "user_id": "1.9",
        "network_metadata": "1.10",
        "is_bfv": "1.11",
        "requested_resources": "1.12",
        "request_level_params": "1.13",
        "requested_networks": "1.14",
    },
}
# All image properties: the version of ImageMetaProps that brought them.
_PROPERTIES = {
    "1.0": "hw_architecture hw_auto_disk_config hw_boot_menu hw_cdrom_bus hw_cpu_cores"
    " hw_cpu_sockets hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_policy"
    " hw_cpu_threads hw_device_id hw_disk_bus hw_disk_type hw_floppy_bus hw_ipxe_boot"
    " hw_machine_type hw_mem_page_size hw_numa_nodes hw_numa_cpus hw_numa_mem"
    " hw_qemu_guest_agent hw_rng_model hw_serial_port_count hw_scsi_model hw_video_model"
    " hw_video_ram hw_vif_model hw_vm_mode hw_watchdog_action img_bittorrent img_bdm_v2"
    " img_block_device_mapping img_cache_in_nova img_compression_level img_linked_clone"
    " img_mappings img_owner_id img_root_device_name img_use_agent img_version os_command_line"
    " os_distro os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh os_type",
    "1.1": "os_require_quiesce",
    "1.2": "img_hv_requested_version img_hv_type",
    "1.4": "hw_vif_multiqueue_enabled",
    "1.5": "os_admin_user",
    "1.7": "img_config_drive",
    "1.9": "hw_cpu_thread_policy",
    "1.10": "hw_cpu_realtime_mask",
    "1.11": "hw_firmware_type",
    "1.12": "img_signature img_signature_hash_method img_signature_certificate_uuid"
    " img_signature_key_type",
    "1.13": "os_secure_boot",
    "1.14": "hw_pointer_model",
    "1.15": "hw_rescue_bus hw_rescue_device",
    "1.19": "img_hide_hypervisor_id",
    "1.20": "traits_required",
    "1.21": "hw_time_hpet",
    "1.23": "hw_pmu",
    "1.24": "hw_mem_encryption",
    "1.25": "hw_pci_numa_affinity_policy",
    "1.27": "hw_tpm_model hw_tpm_version",
    "1.29": "hw_input_bus",
    "1.31": "hw_emulation_architecture",
    "1.32": "hw_ephemeral_encryption hw_ephemeral_encryption_format",
    "1.33": "hw_locked_memory",
    "1.34": "hw_viommu_model",
    "1.35": "hw_virtio_packed_ring",
    "1.36": "hw_maxphysaddr_mode hw_maxphysaddr_bits",
    "1.37": "hw_ephemeral_encryption_secret_uuid",
    "1.38": "hw_firmware_stateless",
    "1.40": "hw_sound_model",
    "1.41": "hw_usb_model hw_redirected_usb_ports",
    "1.42": "hw_mem_encryption_model",
}
_SINCE["ImageMetaProps"] = {
    name: version for version, names in _PROPERTIES.items() for name in names.split()
}
PROPERTIES = frozenset(_SINCE["ImageMetaProps"])
# Those that are no text.
_WHOLE_NUMBERS = (
    "hw_cpu_cores hw_cpu_sockets hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads"
    " hw_cpu_threads hw_device_id hw_numa_nodes hw_serial_port_count hw_video_ram"
    " hw_maxphysaddr_bits hw_redirected_usb_ports img_compression_level img_version"
)
_TRUTHS = (
    "hw_boot_menu hw_firmware_stateless hw_ipxe_boot hw_locked_memory hw_mem_encryption hw_pmu"
    " hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled hw_ephemeral_encryption"
    " hw_virtio_packed_ring img_bittorrent img_bdm_v2 img_cache_in_nova img_linked_clone"
    " img_use_agent img_hide_hypervisor_id os_require_quiesce os_skip_agent_inject_files_at_boot"
    " os_skip_agent_inject_ssh"
)
WHOLE_NUMBERS = frozenset(_WHOLE_NUMBERS.split())
TRUTHS = frozenset(_TRUTHS.split())


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as what can be compared."""
    return tuple(map(int, version.split(".")))


def knows(release: str, name: str, field: str) -> bool:
    """Tell whether a class has the field in the release."""
    version = VERSIONS[name][release]
    since = _SINCE.get(name, {}).get(field, "0.0")
    return version != "-" and numbers(since) <= numbers(version)


def is_at_least(release: str, other: str) -> bool:
    """Tell whether a release is not older than the other one."""
    return RELEASES.index(release) >= RELEASES.index(other)
