# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What properties of a flavor and an image ask of Placement."""

import pytest

from scheduler.claims.implied_traits import provider_resources, provider_traits, root_traits
from tests.builders import a_request, an_image


@pytest.mark.parametrize(
    ("specs", "traits"),
    [
        ({}, set()),
        ({"os:secure_boot": "required"}, {"COMPUTE_SECURITY_UEFI_SECURE_BOOT"}),
        ({"os:secure_boot": "optional"}, set()),
        ({"hw:maxphysaddr_mode": "emulate"}, {"COMPUTE_ADDRESS_SPACE_EMULATED"}),
        ({"hw:maxphysaddr_mode": "passthrough"}, {"COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}),
        ({"hw:pci_numa_affinity_policy": "socket"}, {"COMPUTE_SOCKET_PCI_NUMA_AFFINITY"}),
        ({"hw:pci_numa_affinity_policy": "legacy"}, set()),
        ({"hw:tpm_version": "1.2"}, {"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_TIS"}),
        (
            {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
            {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"},
        ),
        ({"hw:tpm_model": "tpm-crb"}, set()),
        ({"hw:mem_encryption": " Yes "}, {"HW_CPU_X86_AMD_SEV"}),
        ({"hw:mem_encryption": "false", "hw:mem_encryption_model": "amd-sev-es"}, set()),
        (
            {"hw:mem_encryption": "1", "hw:mem_encryption_model": "intel-tdx"},
            {"HW_CPU_X86_INTEL_TDX"},
        ),
    ],
)
def test_of_the_provider_of_vcpus(specs, traits):
    assert {*provider_traits(a_request(extra_specs=specs))} == traits
    of_image = {name.replace(":", "_"): value for name, value in specs.items()}
    assert {*provider_traits(a_request(image=an_image(**of_image)))} == traits


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        ({"hw_firmware_type": "uefi", "hw_firmware_stateless": True}, True),
        ({"hw_firmware_type": "uefi", "hw_firmware_stateless": False}, False),
        ({"hw_firmware_type": "uefi"}, False),
        ({"hw_firmware_type": "bios", "hw_firmware_stateless": True}, False),
    ],
)
def test_firmware_without_state(properties, asked):
    found = {*provider_traits(a_request(image=an_image(**properties)))}
    assert found == ({"COMPUTE_SECURITY_STATELESS_FIRMWARE"} if asked else set())


@pytest.mark.parametrize(
    ("specs", "traits"),
    [
        ({}, set()),
        ({"accel:device_profile": "fpga"}, {"COMPUTE_ACCELERATORS"}),
        ({"hw:virtio_packed_ring": "on"}, {"COMPUTE_NET_VIRTIO_PACKED"}),
        ({"hw:sound_model": "virtio"}, {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        ({"hw:sound_model": "sb16"}, set()),
        ({"hw:ephemeral_encryption": "true"}, {"COMPUTE_EPHEMERAL_ENCRYPTION"}),
        ({"hw:ephemeral_encryption_format": "luks"}, set()),
        (
            {"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"},
            {"COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"},
        ),
    ],
)
def test_of_the_host_itself(specs, traits):
    assert {*root_traits(a_request(extra_specs=specs))} == traits


def test_persistent_memory_by_its_labels():
    found = provider_resources(a_request(extra_specs={"hw:pmem": "4GB, 4GB,big one-b,"}))
    assert found == {"CUSTOM_PMEM_NAMESPACE_4GB": 2, "CUSTOM_PMEM_NAMESPACE_BIG_ONE_B": 1}


def test_encrypted_memory_takes_a_slot():
    assert provider_resources(a_request(extra_specs={"hw:mem_encryption": "1"})) == {
        "MEM_ENCRYPTION_CONTEXT": 1
    }
    assert not provider_resources(a_request())
