# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traits and resources that properties of a flavor or an image ask of Placement, as in Nova 34.

Nova's API has checked the properties, and that those of flavor and image do not contradict.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from oslo_utils import strutils

from inventory.objects.field_types import shown
from scheduler.objects.request_spec import RequestSpec


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Traits of the provider of vCPUs and memory, by the value of a property of flavor or image.
_BY_VALUE = {
    "os:secure_boot": {"required": "COMPUTE_SECURITY_UEFI_SECURE_BOOT"},
    "hw:maxphysaddr_mode": {
        "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
        "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
    },
    "hw:pci_numa_affinity_policy": {"socket": "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"},
}
_TPM_VERSIONS = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TPM_MODELS = {"tpm-tis": "COMPUTE_SECURITY_TPM_TIS", "tpm-crb": "COMPUTE_SECURITY_TPM_CRB"}
_MEMORY_ENCRYPTION = {
    "amd-sev": "HW_CPU_X86_AMD_SEV",
    "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES",
    "amd-sev-snp": "HW_CPU_X86_AMD_SEV_SNP",
    "intel-tdx": "HW_CPU_X86_INTEL_TDX",
}
TPM_SECRETS = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"
_TPM_SECRETS = {each: f"{TPM_SECRETS}{each.upper()}" for each in ("user", "host", "deployment")}
# Placement refuses a query with a trait that it does not know, so these are all of os-traits.
_IMAGE_TYPES = _words("AKI AMI ARI ISO PLOOP QCOW2 RAW VDI VHD VHDX VMDK")
_BUSES = "COMPUTE_STORAGE_BUS_", _words("FDC IDE LXC SATA SCSI UML USB VIRTIO XEN")
_BY_IMAGE_PROPERTY = {
    "hw_cdrom_bus": _BUSES,
    "hw_disk_bus": _BUSES,
    "hw_video_model": (
        "COMPUTE_GRAPHICS_MODEL_",
        _words("BOCHS CIRRUS GOP NONE QXL VGA VIRTIO VMVGA XEN"),
    ),
    "hw_vif_model": (
        "COMPUTE_NET_VIF_MODEL_",
        _words(
            "E1000 E1000E IGB LAN9118 NE2K_PCI NETFRONT PCNET RTL8139 SPAPR_VLAN SRIOV VIRTIO"
            " VMXNET VMXNET3"
        ),
    ),
    "hw_architecture": (
        "HW_ARCH_",
        _words(
            "AARCH64 ALPHA ARMV6 ARMV7 ARMV7B CRIS I686 IA64 LM32 M68K MICROBLAZE MICROBLAZEEL MIPS"
            " MIPS64 MIPS64EL MIPSEL OPENRISC PARISC PARISC64 PPC PPC64 PPC64LE PPCEMB PPCLE S390"
            " S390X SH4 SH4EB SPARC SPARC64 UNICORE32 X86_64 XTENSA XTENSAEB"
        ),
    ),
    "hw_emulation_architecture": (
        "COMPUTE_ARCH_",
        _words("AARCH64 MIPSEL PPC64LE RISCV64 S390X X86_64"),
    ),
    # Nova leaves out the word MODEL, and so never asks for these.
    "hw_viommu_model": ("COMPUTE_VIOMMU_MODEL_", _words("AUTO INTEL SMMUV3 VIRTIO")),
}


def property_of(spec: RequestSpec, name: str) -> str | None:
    """Return what the flavor has under prefix:name, or else the image under prefix_name."""
    return spec.flavor.extra_specs.get(name) or _of_image(spec, name.replace(":", "_"))


def provider_traits(spec: RequestSpec) -> Iterator[str]:
    """Yield the traits that the provider of vCPUs and memory has to have; raises ValueError."""
    for name, traits in _BY_VALUE.items():
        if trait := traits.get(property_of(spec, name) or ""):
            yield trait
    if has_tpm(spec):
        yield _chosen(_TPM_VERSIONS, spec, "hw:tpm_version", "")
        yield _chosen(_TPM_MODELS, spec, "hw:tpm_model", "tpm-tis")
    if _is_true(spec, "hw:mem_encryption"):
        yield _chosen(_MEMORY_ENCRYPTION, spec, "hw:mem_encryption_model", "amd-sev")
    # Other firmware has no state, and Nova ignores the property then.
    if _of_image(spec, "hw_firmware_type") == "uefi" and _is_true(spec, "hw:firmware_stateless"):
        yield "COMPUTE_SECURITY_STATELESS_FIRMWARE"


def provider_resources(spec: RequestSpec) -> Counter[str]:
    """Return resources beside vCPUs, memory and disk: encrypted and persistent memory."""
    found: Counter[str] = Counter()
    if _is_true(spec, "hw:mem_encryption"):
        found["MEM_ENCRYPTION_CONTEXT"] = 1
    for label in filter(
        None, map(str.strip, spec.flavor.extra_specs.get("hw:pmem", "").split(","))
    ):
        name = re.sub("[^0-9A-Za-z]+", "_", label).upper()
        found[f"CUSTOM_PMEM_NAMESPACE_{name}"] += 1
    return found


def root_traits(spec: RequestSpec) -> Iterator[str]:
    """Yield the traits that the host itself has to have, as Nova's request filters add them."""
    if spec.flavor.extra_specs.get("accel:device_profile"):
        yield "COMPUTE_ACCELERATORS"
    if _is_true(spec, "hw:virtio_packed_ring"):
        yield "COMPUTE_NET_VIRTIO_PACKED"
    if property_of(spec, "hw:sound_model") == "virtio":
        yield "COMPUTE_SOUND_MODEL_VIRTIO"
    if _is_true(spec, "hw:ephemeral_encryption"):
        yield "COMPUTE_EPHEMERAL_ENCRYPTION"
        if form := property_of(spec, "hw:ephemeral_encryption_format"):
            yield f"COMPUTE_EPHEMERAL_ENCRYPTION_{form.upper()}"
    # Nova asks Neutron for the type of each port; its API has asked too, and says so here.
    if any(
        str(each.get("remote_managed")).lower() == "true"
        for device in spec.devices
        for each in device.spec
    ):
        yield "COMPUTE_REMOTE_MANAGED_PORTS"


def has_tpm(spec: RequestSpec) -> bool:
    """Return whether an instance gets a virtual TPM."""
    return bool(property_of(spec, "hw:tpm_version"))


def tpm_secret_trait(spec: RequestSpec) -> Iterator[str]:
    """Yield the trait of hosts that keep the secret of a TPM in the way that the flavor says.

    Raises ValueError for a way that there is not.
    """
    if has_tpm(spec):
        yield _chosen(_TPM_SECRETS, spec, "hw:tpm_secret_security", "user")


def image_type_trait(spec: RequestSpec) -> Iterator[str]:
    """Yield the trait of hosts that can use the format of the image, unless a volume serves."""
    disk_format = (spec.image.disk_format or "").upper() if spec.image else ""
    if disk_format in _IMAGE_TYPES and not spec.is_bfv:
        yield f"COMPUTE_IMAGE_TYPE_{disk_format}"


def image_traits(spec: RequestSpec) -> Iterator[str]:
    """Yield the traits of hosts with the buses, models and architecture of the image."""
    for name, (prefix, known) in _BY_IMAGE_PROPERTY.items():
        value = (_of_image(spec, name) or "").replace("-", "_").upper()
        if value in known:
            yield prefix + value


def _chosen(traits: Mapping[str, str], spec: RequestSpec, name: str, default: str) -> str:
    value = property_of(spec, name) or default
    if value not in traits:
        raise ValueError(f"{shown(name)} = {shown(value)} is not one of {', '.join(traits)}")
    return traits[value]


def _of_image(spec: RequestSpec, name: str) -> str | None:
    value = spec.image.properties.get(name) if spec.image else None
    return None if value is None else str(value)


def _is_true(spec: RequestSpec, name: str) -> bool:
    values = spec.flavor.extra_specs.get(name), _of_image(spec, name.replace(":", "_"))
    return any(map(strutils.bool_from_string, values))
