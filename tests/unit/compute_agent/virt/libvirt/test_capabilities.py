# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Captured capabilities give the columns that Nova makes of them."""

import json

import pytest

from compute_agent.virt.driver import DriverAnswerUnusable
from compute_agent.virt.libvirt import capabilities
from tests.fixtures.agent import sample

EXPANDED = "<cpu><model>kvm64</model><feature name='vme'/><feature name='aes'/></cpu>"


def test_a_real_host_gives_what_nova_writes() -> None:
    captured = sample("columns-nova34.json")
    found = capabilities.parse(sample("capabilities-qemu-system.xml"))
    features = captured["cpu_info"]["features"]
    expanded = "<cpu>" + "".join(f"<feature name='{each}'/>" for each in features) + "</cpu>"
    wanted = captured["cpu_info"] | {"features": sorted(features)}
    assert json.loads(found.cpu_info_json(expanded)) == wanted
    assert [list(triple) for triple in found.supported_instances] == captured["supported_instances"]


def test_without_an_expansion_the_features_are_those_of_the_host() -> None:
    found = capabilities.parse(sample("capabilities-qemu-system.xml"))
    features = json.loads(found.cpu_info_json())["features"]
    assert len(features) == 74
    assert features == sorted(features)


def test_an_expansion_replaces_the_features() -> None:
    found = capabilities.parse(sample("capabilities-qemu-system.xml"))
    assert json.loads(found.cpu_info_json(EXPANDED))["features"] == ["aes", "vme"]
    assert len(json.loads(found.cpu_info_json("<cpu/>"))["features"]) == 74


def test_the_cpu_element_is_kept_for_the_expansion() -> None:
    found = capabilities.parse(sample("capabilities-qemu-system.xml"))
    assert found.cpu is not None
    assert found.cpu.startswith("<cpu>")
    assert "<model>kvm64</model>" in found.cpu


def test_the_test_driver_says_little() -> None:
    found = capabilities.parse(sample("capabilities-test-default.xml"))
    assert json.loads(found.cpu_info_json()) == {
        "arch": "i686",
        "model": None,
        "vendor": None,
        "topology": {"cells": 2, "sockets": None, "cores": None, "threads": None},
        "features": [],
    }
    assert found.supported_instances == (("i686", "test", "hvm"), ("i686", "test", "xen"))
    assert found.cpu is None


def test_arm_is_not_expanded() -> None:
    xml = (
        "<capabilities><host><cpu><arch>aarch64</arch><model>m</model></cpu></host></capabilities>"
    )
    assert capabilities.parse(xml).cpu is None


def test_names_are_lower_case_and_come_once() -> None:
    guest = "<guest><os_type>HVM</os_type><arch name='X86_64'><domain type='KVM'/></arch></guest>"
    xml = f"<capabilities><host><cpu/></host>{guest}{guest}</capabilities>"
    assert capabilities.parse(xml).supported_instances == (("x86_64", "kvm", "hvm"),)


@pytest.mark.parametrize("xml", ["", "<capabilities>", "<capabilities/>"])
def test_nonsense_is_reported_as_such(xml: str) -> None:
    with pytest.raises(DriverAnswerUnusable, match="answer to getCapabilities cannot be used"):
        capabilities.parse(xml)


def test_odd_numbers_are_unknown() -> None:
    xml = "<capabilities><host><cpu><topology sockets='two'/></cpu></host></capabilities>"
    topology = capabilities.parse(xml).cpu_info["topology"]
    assert topology == {"cells": 1, "sockets": None, "cores": None, "threads": None}
