# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What describes instances is followed or refused, and never left out without a word."""

import pytest

from scheduler.wire.image_properties import NAMES, is_known

SIZE = "--flavor=1,512,0"
COMMANDS = [["capacity", SIZE], ["select", "--vcpus=1"], ["plan", "make-room", SIZE]]
UNKNOWN = "is no image property that Nova knows, so no scheduler gets it; "


@pytest.mark.parametrize("command_line", COMMANDS)
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--image-property=os_license=windows", f"'os_license' {UNKNOWN}"),
        ("--image-property=hw_cpu_core=2", f"'hw_cpu_core' {UNKNOWN}did you mean hw_cpu_cores"),
        ("--image-property=department=9", f"'department' {UNKNOWN}leave it out"),
        (
            "--image-property=hw_numa_nodes=2",
            "hw_numa_nodes is not read of images here: give --extr",
        ),
        ("--image-property=hw_mem_page_size=large", "such as hw:mem_page_size=..."),
        ("--image-property=hw_numa_cpus.0=1", "hw_numa_cpus.0 is not read of images here"),
        ("--image-property=trait:GOLD=forbidden", "the value of a trait of an image is 'required'"),
        ("--extra-spec=pci_passthrough:alias=gpu:1", "give --pci-device instead"),
        ("--flavor==2,4096,10", "'=2,4096,10' has no name before the '='"),
    ],
)
def test_what_would_be_left_out_is_refused(command, command_line, option, text):
    assert text in command.refused(*command_line, option, status=2)


@pytest.mark.parametrize("option", ["--extra-spec", "--image-property"])
def test_a_key_has_one_value(command, option):
    twice = [f"{option}=hw_cpu_cores=1", f"{option}=hw_cpu_cores=2"]
    message = command.refused("capacity", SIZE, *twice, status=2)
    assert (
        f"argument {option}: hw_cpu_cores is given 2 times, but can have one value only" in message
    )


def test_names_of_nova_and_of_glance_are_known():
    assert {"os_type", "architecture", "vmware_adaptertype"} <= NAMES
    assert all(map(is_known, [*NAMES, "trait:CUSTOM_GOLD", "hw_numa_mem.1"]))
    assert not any(map(is_known, ["", "os_license", "hw_numa_mem.x", "os_type.1", "OS_TYPE"]))
