# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of Placement is what Nova's own scheduler asks for the same request."""

import random
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import pytest

from scheduler.claims import implied_traits
from scheduler.claims.resource_request import (
    TraitOptions,
    needs_placement_first,
    pins_all_cpus,
    resource_request,
)
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.arguments import decode_select_arguments
from tests.fixtures.code_of_nova import ask_nova

PORT = "2f2ee5a5-2f1e-4c6e-9e3f-0f2b8a7f9a10"
A_PORT = {
    "use_same_provider": True,
    "requester_id": PORT,
    "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
    "required_traits": ["CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_NORMAL"],
}
AGGREGATES = [f"00000000-0000-0000-6666-00000000000{number}" for number in range(4)]


def flavor(**more: Any) -> dict[str, Any]:
    return {"flavor": {"vcpus": 4, "memory_mb": 4096, "root_gb": 10, **more}}


def extra(**specs: str) -> dict[str, Any]:
    """Extra specs, with __ for a colon."""
    return flavor(extra_specs={name.replace("__", ":"): value for name, value in specs.items()})


def image(**properties: Any) -> dict[str, Any]:
    return {**flavor(), "image": properties}


def options(**scheduler: Any) -> dict[str, Any]:
    return {"options": {"scheduler": scheduler}}


DEVICES = {"options": {"filter_scheduler": {"pci_in_placement": True}}}
UEFI = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
ENCRYPTED = extra(hw__mem_encryption="true")
TPM = extra(hw__tpm_version="2.0", hw__tpm_model="tpm-crb")
PINNED = extra(hw__cpu_policy="dedicated", hw__emulator_threads_policy="isolate")
ODDLY_BUILT = image(
    hw_disk_bus="scsi", hw_vif_model="ne2k_pci", hw_architecture="x86_64", hw_video_model="none"
)

# Words for tests.peer.resource_requests, and whether only Placement can say where that fits.
CASES: Mapping[str, tuple[dict[str, Any], bool]] = {
    "plain": (flavor(), False),
    "swap and ephemeral": (flavor(swap=1500, ephemeral_gb=7), False),
    "a full GB of swap": (flavor(swap=2048), False),
    "from a volume": ({**flavor(swap=1), "is_bfv": True}, False),
    "from a volume, no disk": ({**flavor(), "is_bfv": True}, False),
    "own amounts": (extra(resources__VCPU="2", resources__MEMORY_MB="128"), False),
    "own pinned CPUs": (extra(resources__PCPU="4"), False),
    "nothing": (
        extra(
            resources__VCPU="0",
            resources__MEMORY_MB="0",
            resources__DISK_GB="0",
            resources__CUSTOM_IRON="1",
        ),
        True,
    ),
    "custom": (extra(resources__CUSTOM_GOLD="3"), True),
    "none of a group": (extra(resources1__VGPU="0"), False),
    "traits": (extra(trait__HW_CPU_X86_AVX2="required", trait__HW_CPU_X86_VMX="forbidden"), True),
    "trait of an image": (image(**{"trait:HW_CPU_X86_AVX2": "required"}), True),
    "one group": (extra(resources1__VGPU="1", trait1__CUSTOM_RED="required"), True),
    "two groups": (extra(resources1__VGPU="1", resources2__VGPU="1", group_policy="isolate"), True),
    "two groups without a policy": (extra(resources1__VGPU="1", resources2__VGPU="1"), True),
    "odd policy": (extra(resources1__VGPU="1", group_policy="both"), True),
    "named group": (extra(resources_ACCEL__FPGA="1", group_policy="none"), True),
    "resources in a group": (extra(resources_A__MEMORY_MB="512"), True),
    "pinned": (extra(hw__cpu_policy="dedicated"), False),
    "pinned by the image": (image(hw_cpu_policy="dedicated", hw_cpu_thread_policy="prefer"), False),
    "pinned with threads": (PINNED, False),
    "pinned as before": ({**PINNED, "fallback": True}, False),
    "mixed": (extra(hw__cpu_policy="mixed", hw__cpu_dedicated_mask="0-1"), False),
    "mixed for real time": (
        extra(hw__cpu_policy="mixed", hw__cpu_realtime="yes", hw__cpu_realtime_mask="^0-1"),
        False,
    ),
    "shared": (extra(hw__cpu_policy="shared"), False),
    "siblings": (extra(hw__cpu_policy="dedicated", hw__cpu_thread_policy="require"), True),
    "no siblings": (extra(hw__cpu_policy="dedicated", hw__cpu_thread_policy="isolate"), True),
    "cells": (extra(hw__numa_nodes="2"), False),
    "secure boot": (extra(os__secure_boot="required"), True),
    "tpm": (TPM, True),
    "tpm of an image": (image(hw_tpm_version="1.2"), True),
    "tpm with a secret": (extra(hw__tpm_version="1.2", hw__tpm_secret_security="deployment"), True),
    "socket": (extra(hw__pci_numa_affinity_policy="socket"), True),
    "memory of its own": (extra(hw__pmem="4GB, 4GB,big one-b"), True),
    "packed by the image": (image(hw_virtio_packed_ring=True), True),
    "sound": (extra(hw__sound_model="virtio"), True),
    "encrypted disk": (
        extra(hw__ephemeral_encryption="true", hw__ephemeral_encryption_format="luks"),
        True,
    ),
    "encrypted memory": ({**ENCRYPTED, "image": UEFI}, True),
    "encrypted memory, and said so": (
        {
            **extra(hw__mem_encryption="1", resources__MEM_ENCRYPTION_CONTEXT="1"),
            "image": {**UEFI, "hw_mem_encryption": True},
        },
        True,
    ),
    "encrypted by SEV-SNP": (
        {
            **extra(hw__mem_encryption="1", hw__mem_encryption_model="amd-sev-snp"),
            "image": {**UEFI, "hw_firmware_stateless": True},
        },
        True,
    ),
    "encrypted by TDX": (
        {
            **ENCRYPTED,
            "image": {
                **UEFI,
                "hw_firmware_stateless": True,
                "hw_mem_encryption_model": "intel-tdx",
                "hw_video_model": "none",
            },
        },
        True,
    ),
    "accelerator": (extra(accel__device_profile="fpga"), True),
    "port": ({**flavor(), "port_resources": [A_PORT]}, True),
    "two ports": (
        {**flavor(), "port_resources": [A_PORT, {**A_PORT, "requester_id": PORT[:-1] + "1"}]},
        True,
    ),
    "port and group": ({**extra(resources1__VGPU="1"), "port_resources": [A_PORT]}, True),
    "port and two groups": (
        {**extra(resources1__VGPU="1", resources2__VGPU="1"), "port_resources": [A_PORT]},
        True,
    ),
    "port with all": (
        {
            **flavor(),
            "port_resources": [
                {
                    **A_PORT,
                    "forbidden_traits": ["CUSTOM_OLD"],
                    "aggregates": [AGGREGATES[:2], AGGREGATES[2:3]],
                    "forbidden_aggregates": AGGREGATES[3:],
                }
            ],
        },
        True,
    ),
    "port of memory": (
        {**flavor(), "port_resources": [{**A_PORT, "resources": {"MEMORY_MB": 64}}]},
        True,
    ),
    "devices": ({**extra(pci_passthrough__alias="gpu:2"), **DEVICES}, True),
    "own devices": ({**extra(pci_passthrough__alias="fast:1"), **DEVICES, "owned": True}, True),
    "devices, not in Placement": (extra(pci_passthrough__alias="gpu:1"), False),
    "subtree": (
        {
            **extra(resources_A__VGPU="1", trait_B__CUSTOM_RED="required", group_policy="none"),
            "level_params": {
                "same_subtree": [["_B", "_A"]],
                "root_required": ["CUSTOM_BLUE"],
                "root_forbidden": ["CUSTOM_GREEN"],
            },
        },
        True,
    ),
    "host that is owned": ({**flavor(), "owned": True}, False),
    "aggregates": (
        {
            **flavor(),
            "destination": {
                "aggregates": [",".join(AGGREGATES[:2]), AGGREGATES[2]],
                "forbidden_aggregates": AGGREGATES[3:],
            },
        },
        False,
    ),
    "image type": ({**flavor(), **options(query_placement_for_image_type_support=True)}, True),
    "image type of a volume": (
        {**flavor(), "is_bfv": True, **options(query_placement_for_image_type_support=True)},
        False,
    ),
    "image": ({**ODDLY_BUILT, **options(image_metadata_prefilter=True)}, True),
    "image, not asked": (ODDLY_BUILT, False),
}
# What draws are made of: each has a chance of one in four.
SPECS = {
    "resources:VCPU": ["0", "2", " 8 "],
    "resources:PCPU": ["4"],
    "resources:MEMORY_MB": ["0", "64"],
    "resources:DISK_GB": ["0", "3"],
    "resources:CUSTOM_GOLD": ["0", "2"],
    "resources1:VGPU": ["0", "1"],
    "trait1:CUSTOM_RED": ["required", "forbidden"],
    "resources_NIC-a:PCPU": ["1"],
    "trait:HW_CPU_HYPERTHREADING": ["required", "forbidden"],
    "trait:CUSTOM_RED": ["required", "forbidden"],
    "group_policy": ["none", "isolate"],
    "hw:cpu_policy": ["dedicated", "dedicated", "mixed", "shared"],
    "hw:cpu_thread_policy": ["prefer", "isolate", "require"],
    "hw:emulator_threads_policy": ["isolate", "share"],
    "hw:cpu_dedicated_mask": ["0", "^1-2", "1-3,^2"],
    "hw:tpm_version": ["1.2", "2.0"],
    "hw:tpm_model": ["tpm-tis", "tpm-crb"],
    "hw:mem_encryption": ["true", "no"],
    "hw:mem_encryption_model": ["amd-sev", "amd-sev-es"],
    "hw:pmem": ["a,a", ","],
    "hw:sound_model": ["virtio", "sb16"],
    "os:secure_boot": ["required", "disabled"],
    "hw:maxphysaddr_mode": ["passthrough", "emulate"],
    "hw:virtio_packed_ring": ["true", "false"],
}
PROPERTIES = {
    "hw_firmware_type": ["uefi"],
    "hw_firmware_stateless": [True, False],
    "hw_cpu_policy": ["dedicated", "shared"],
    "hw_cpu_thread_policy": ["prefer", "require"],
    "hw_mem_encryption": [True],
    "hw_tpm_version": ["2.0"],
    "trait:CUSTOM_BLUE": ["required"],
    "os_secure_boot": ["required", "optional"],
}
DRAWS = 600


def drawn(chance: random.Random) -> dict[str, Any]:
    """Return a request that Nova may refuse, as its parts may contradict."""
    specs = {name: chance.choice(each) for name, each in SPECS.items() if chance.random() < 0.15}
    properties = {
        name: chance.choice(each) for name, each in PROPERTIES.items() if chance.random() < 0.15
    }
    sizes = {"swap": chance.choice([0, 1, 1025]), "ephemeral_gb": chance.choice([0, 5])}
    return {
        **flavor(extra_specs=specs, **sizes),
        "image": properties,
        "is_bfv": chance.random() < 0.3,
        "port_resources": [A_PORT] if chance.random() < 0.2 else [],
        "fallback": chance.random() < 0.2,
        "owned": chance.random() < 0.2,
    }


DRAWN = [drawn(random.Random(number)) for number in range(DRAWS)]


@cache
def _of_nova() -> dict[str, Any]:
    words = [*(words for words, _ in CASES.values()), *DRAWN]
    found: dict[str, Any] = ask_nova("resource_requests", words)
    return found


def answer(name: str) -> dict[str, Any]:
    """Return what Nova says of a case."""
    found: dict[str, Any] = _of_nova()["asked"][[*CASES].index(name)]
    assert found is not None, "Nova refuses the case"
    return found


def received(answer: dict[str, Any]) -> RequestSpec:
    """Return the spec that a conductor sends."""
    return decode_select_arguments({"spec_obj": answer["spec"], "instance_uuids": ["u"]}).spec


def chosen(words: dict[str, Any]) -> TraitOptions:
    """Return the options of Nova's side."""
    scheduler = words.get("options", {}).get("scheduler", {})
    return TraitOptions(
        image_type_support=scheduler.get("query_placement_for_image_type_support", False),
        image_metadata=scheduler.get("image_metadata_prefilter", False),
        owner_nova=words.get("owned", False),
    )


def asked(words: dict[str, Any], spec: RequestSpec) -> list[tuple[str, str]]:
    pins_cpus = not words.get("fallback", False)
    return resource_request(spec, chosen(words), pins_cpus).query(None, None)


def split(query: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return the parameters without the order of what they list."""
    return sorted((name, sorted(value.removeprefix("in:").split(","))) for name, value in query)


@pytest.mark.parametrize("name", CASES)
def test_it_is_asked_as_nova_asks(name):
    found = answer(name)
    words, spec = CASES[name][0], received(found)
    assert split(asked(words, spec)) == split(parse_qsl(found["query"]))
    # Without the translation Nova does not look.
    assert words.get("fallback") or pins_all_cpus(spec) == found["pins"]


def test_drawn_flavors_and_images_are_asked_for_as_nova_asks():
    pairs = list(zip(DRAWN, _of_nova()["asked"][len(CASES) :], strict=True))
    taken = [(words, found) for words, found in pairs if found is not None]
    # What Nova refuses comes to no scheduler.
    assert len(taken) > DRAWS / 4
    for words, found in taken:
        assert split(asked(words, received(found))) == split(parse_qsl(found["query"])), words


@pytest.mark.parametrize("name", CASES)
def test_placement_is_asked_first_only_for_what_it_alone_knows(name):
    words, expected = CASES[name]
    found = resource_request(received(answer(name)), chosen(words))
    assert needs_placement_first(found) == expected


def test_the_traits_of_images_are_all_that_there_are():
    known = set(_of_nova()["traits"])
    by_prefix = dict(implied_traits._BY_IMAGE_PROPERTY.values())
    by_prefix["COMPUTE_IMAGE_TYPE_"] = implied_traits._IMAGE_TYPES
    for prefix, words in by_prefix.items():
        assert {prefix + each for each in words} == {
            each for each in known if each.startswith(prefix)
        }
