# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.image_properties."""

import json

import pytest

from scheduler.filters.image_properties import ImagePropertiesFilter
from tests.builders import a_request, an_image
from tests.hosts import a_host, a_table

KVM = ["x86_64", "kvm", "hvm"]
RULE = ImagePropertiesFilter()


def verdict(host, image, rule=RULE):
    """Return None when the host passes, else the reason; the mask has to agree."""
    spec = a_request(image=image)
    passes = rule.host_passes(host, spec)
    assert rule.mask(host.table, spec)[0] == passes
    assert rule.applies(spec) or passes
    return None if passes else rule.reason(host, spec)


@pytest.mark.parametrize(
    ("supported", "properties", "reason"),
    [
        ([KVM], {}, None),
        ([], {}, None),
        ([], {"hw_architecture": "x86_64"}, "needs x86_64, the host supports nothing"),
        (None, {"hw_architecture": "x86_64"}, "needs x86_64, the host supports nothing"),
        ([KVM], {"hw_architecture": "amd64"}, None),
        ([KVM], {"hw_architecture": "aarch64"}, "needs aarch64, the host supports x86_64/kvm/hvm"),
        (
            [["x86_64", "qemu", "hvm"], ["i686", "kvm", "hvm"]],
            {"hw_architecture": "x86_64", "img_hv_type": "kvm"},
            "needs x86_64/kvm, the host supports x86_64/qemu/hvm, i686/kvm/hvm",
        ),
        # The place of a name in an entry does not count.
        ([["x86_64", "xen", "hvm"]], {"hw_vm_mode": "xen"}, None),
        ([["i686", "kvm", "hvm"]], {"hw_architecture": "i386"}, None),
        ([["x86_64", "xen", "xen"]], {"img_hv_type": "XAPI", "hw_vm_mode": "PV"}, None),
        ([KVM], {"hw_vm_mode": "hv"}, None),
        ([KVM], {"hw_vm_mode": "exe"}, "needs exe, the host supports x86_64/kvm/hvm"),
    ],
)
def test_architecture_hypervisor_and_mode(supported, properties, reason):
    assert verdict(a_host(supported_instances=supported), an_image(**properties)) == reason


@pytest.mark.parametrize(
    ("name", "given", "canonical"),
    [
        ("hw_architecture", "i386", "i686"),
        ("hw_architecture", "i486", "i686"),
        ("hw_architecture", "i586", "i686"),
        ("hw_architecture", "x86_32", "i686"),
        ("hw_architecture", "x86_32p", "i686"),
        ("hw_architecture", "AMD64", "x86_64"),
        ("hw_architecture", "AARCH64", "aarch64"),
        ("img_hv_type", "xapi", "xen"),
        ("img_hv_type", "KVM", "kvm"),
        # Of hypervisors, unlike modes, this is a name of its own.
        ("img_hv_type", "baremetal", "baremetal"),
        ("hw_vm_mode", "pv", "xen"),
        ("hw_vm_mode", "hv", "hvm"),
        ("hw_vm_mode", "baremetal", "hvm"),
        ("hw_vm_mode", "UML", "uml"),
    ],
)
def test_names_have_one_form(name, given, canonical):
    image = an_image(**{name: given})
    assert verdict(a_host(supported_instances=[["x", canonical, "x"]]), image) is None
    reason = f"needs {canonical}, the host supports x/y/z"
    assert verdict(a_host(supported_instances=[["x", "y", "z"]]), image) == reason


@pytest.mark.parametrize("reported", [7, "x86_64", {"x86_64": 1}, ["x86_64"], [7], [None], [{}]])
def test_what_is_no_list_of_entries_supports_nothing(reported):
    image = an_image(hw_architecture="x86_64")
    reason = "needs x86_64, the host supports nothing"
    assert verdict(a_host(supported_instances=reported), image) == reason


def test_an_entry_may_hold_anything():
    host = a_host(supported_instances=[[["x86_64"], None, 7]])
    reason = "needs x86_64, the host supports ['x86_64']/None/7"
    assert verdict(host, an_image(hw_architecture="x86_64")) == reason


@pytest.mark.parametrize(
    ("version", "asked", "found"),
    [
        (6001000, ">=6.0,<6.2", None),
        (6002000, ">=6.0,<6.2", "6.2.0"),
        (0, ">=99", None),
        (None, ">=99", None),
        (6002000, "==6.2", None),
        (6002000, "!=6.2.0", "6.2.0"),
        (5000, ">=5.1", "5.0"),
        (10, ">10", "10"),
    ],
)
def test_version_beside_an_architecture(version, asked, found):
    image = an_image(hw_architecture="x86_64", img_hv_requested_version=asked)
    reason = None if found is None else f"needs hypervisor version {asked}, the host has {found}"
    assert verdict(a_host(hypervisor_version=version), image) == reason


@pytest.mark.parametrize("asked", ["6.0", "=6.0", "6.2", ">=6,"])
def test_a_version_without_a_condition_is_one_that_no_host_has(asked):
    # Nova refuses such an image when it is loaded.
    image = an_image(hw_architecture="x86_64", img_hv_requested_version=asked)
    reason = f"needs hypervisor version {asked!r}, which is not a condition such as '>=6.0'"
    assert verdict(a_host(hypervisor_version=6002000), image) == reason
    assert verdict(a_host(hypervisor_version=0), image) is None


def test_the_version_is_checked_also_by_itself():
    # Nova looks at it only beside an architecture, a hypervisor type or a mode.
    image = an_image(img_hv_requested_version=">=99.0")
    reason = "needs hypervisor version >=99.0, the host has 6.2.0"
    assert verdict(a_host(hypervisor_version=6002000), image) == reason


@pytest.mark.parametrize(
    ("cpu_info", "asked", "offered"),
    [
        ({"maxphysaddr": {"bits": 46}}, 46, None),
        ({"maxphysaddr": {"bits": 46}}, "40", None),
        ({"maxphysaddr": {"bits": 40}}, 46, 40),
        ({"maxphysaddr": {"bits": "40"}}, 46, 40),
        # A host that does not say is not refused.
        ({"maxphysaddr": {}}, 46, None),
        ({"maxphysaddr": 7}, 46, None),
        ({"maxphysaddr": {"bits": None}}, 46, None),
        ({"maxphysaddr": {"bits": float("inf")}}, 46, None),
        ([], 46, None),
        ({"maxphysaddr": {"bits": 40}}, "many", None),
    ],
)
def test_address_bits_are_read_from_the_text_that_a_real_host_has(cpu_info, asked, offered):
    # Nova fails on every real host here, and looks at the bits only beside other properties.
    host = a_host(cpu_info=json.dumps(cpu_info))
    image = an_image(hw_maxphysaddr_bits=asked)
    reason = offered and f"needs {asked} bits of physical addresses, the host has {offered}"
    assert verdict(host, image) == reason


@pytest.mark.parametrize("cpu_info", [None, "", "no JSON", "[" * 100_000])
def test_no_cpu_info_is_no_reason_to_refuse(cpu_info):
    host = a_host(cpu_info=cpu_info)
    assert verdict(host, an_image(hw_maxphysaddr_bits=46)) is None
    assert verdict(host, an_image(hw_architecture="x86_64")) is None


@pytest.mark.parametrize("image", [None, an_image()])
def test_the_default_architecture_serves_images_that_name_none(image):
    rule = ImagePropertiesFilter(default_architecture="x86_64")
    arm = a_host(supported_instances=[["aarch64", "kvm", "hvm"]])
    assert verdict(arm, image, rule) == "needs x86_64, the host supports aarch64/kvm/hvm"
    assert verdict(arm, an_image(hw_architecture="aarch64"), rule) is None
    assert verdict(arm, image) is None


def test_all_that_is_missing_is_named():
    image = an_image(hw_architecture="ppc64", img_hv_requested_version="<1", hw_maxphysaddr_bits=99)
    host = a_host(cpu_info='{"maxphysaddr": {"bits": 40}}')
    assert verdict(host, image) == (
        "needs ppc64, the host supports x86_64/kvm/hvm; "
        "needs hypervisor version <1, the host has 6.2.0; "
        "needs 99 bits of physical addresses, the host has 40"
    )


def test_a_mask_tells_hosts_apart_by_all_that_is_read():
    old = {"hypervisor_version": 5000000}
    hosts = a_table(
        a_host("h1"), a_host("h2", **old), a_host("h3", supported_instances=[]), a_host("h4")
    )
    image = an_image(hw_architecture="x86_64", img_hv_requested_version=">=6")
    assert RULE.mask(hosts, a_request(image=image)).tolist() == [True, False, False, True]


def test_it_is_asked_once_per_request_and_when_an_instance_is_rebuilt():
    assert RULE.RUN_ON_REBUILD
    assert not RULE.run_filter_for_index(1)
