# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Image properties under all their names."""

import pytest

from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.errors import InvalidInput
from scheduler.wire.image_properties import FORMER_NAMES, KINDS, MAX_CHARACTERS

A_FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 5}


def properties(given):
    request_spec = {"instance_type": A_FLAVOR, "image": {"properties": given}}
    return dict(decode_select_arguments({"request_spec": request_spec}).spec.image.properties)


def test_every_former_name_has_a_current_one():
    assert set(FORMER_NAMES.values()) <= KINDS.keys()
    assert not FORMER_NAMES.keys() & KINDS.keys()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"architecture": "x86_64"}, {"hw_architecture": "x86_64"}),
        ({"hw_architecture": "i686", "architecture": "arm"}, {"hw_architecture": "i686"}),
        ({"hw_architecture": None, "architecture": "arm"}, {"hw_architecture": "arm"}),
        ({"hypervisor_type": "kvm", "vm_mode": None}, {"img_hv_type": "kvm"}),
        ({"vm_mode": "pv"}, {"hw_vm_mode": "pv"}),
        ({"hypervisor_version_requires": ">=6.0"}, {"img_hv_requested_version": ">=6.0"}),
        ({"hw_cpu_cores": "2"}, {"hw_cpu_cores": 2}),
        ({"hw_qemu_guest_agent": "yes"}, {"hw_qemu_guest_agent": True}),
        ({"favourite_colour": "blue"}, {}),
        ({"vmware_adaptertype": "ide"}, {"hw_disk_bus": "ide"}),
        ({"vmware_adaptertype": "lsiLogic"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "lsiLogic"}),
        (
            {"trait:HW_A": "required", "trait:HW_B": "forbidden", "traits_required": ["HW_C"]},
            {"traits_required": ["HW_C", "HW_A"]},
        ),
        (
            {"hw_numa_cpus.0": "0-3,^2", "hw_numa_cpus.1": 4, "hw_numa_cpus.3": "9"},
            {"hw_numa_cpus": [{0, 1, 3}, {4}]},
        ),
        ({"hw_numa_cpus.0": "", "hw_numa_cpus.1": " 1, 2,"}, {"hw_numa_cpus": [set(), {1, 2}]}),
        ({"hw_numa_mem.0": "512", "hw_numa_mem.1": 256}, {"hw_numa_mem": [512, 256]}),
        ({"hw_numa_mem.0": "512", "hw_numa_mem": [1]}, {"hw_numa_mem": [1]}),
    ],
)
def test_names_and_types_of_today(given, read):
    assert properties(given) == read


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"hw_numa_nodes": "abc"}, "hw_numa_nodes"),
        ({"hw_boot_menu": "perhaps"}, "hw_boot_menu"),
        ({"architecture": {}}, "hw_architecture"),
        ({"hw_numa_cpus.0": "0-9999999999"}, "hw_numa_cpus.0"),
        ({"hw_numa_cpus.0": "3-1"}, "hw_numa_cpus.0"),
        ({"hw_numa_cpus.0": []}, "hw_numa_cpus.0"),
        ({"trait:HW_A": "required", "traits_required": "HW_C"}, "traits_required"),
        ({"vmware_adaptertype": {"a": 1}}, "hw_scsi_model"),
    ],
)
def test_a_refusal_names_the_property(given, name):
    with pytest.raises(InvalidInput, match=f"request_spec.image.properties.{name}: "):
        properties(given)


@pytest.mark.parametrize("length", [MAX_CHARACTERS, MAX_CHARACTERS + 1])
def test_all_together_are_no_longer_than_what_is_kept(length):
    given = {"os_command_line": "x" * 60_000, "os_distro": "x" * (length - 60_000)}
    if length <= MAX_CHARACTERS:
        assert properties(given) == given
        return
    with pytest.raises(InvalidInput, match=r"image\.properties: 65536 characters are more than"):
        properties(given)
