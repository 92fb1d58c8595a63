# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Captured capabilities give the columns that Nova makes of them."""

import json

import pytest

from compute_agent.virt.driver import DriverAnswerUnusable
from compute_agent.virt.libvirt import capabilities
from compute_agent.virt.libvirt.capabilities import Cell, Cpu
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


@pytest.mark.parametrize(
    ("named", "known"),
    [
        (("i386", "qemu", "hvm"), ("i686", "qemu", "hvm")),
        (("i586", "xapi", "pv"), ("i686", "xen", "xen")),
        (("AMD64", "kvm", "hv"), ("x86_64", "kvm", "hvm")),
        (("riscv64", "qemu", "hvm"), ("riscv64", "qemu", "hvm")),
        # Nova knows neither.
        (("x86_64", "xen", "xenpvh"), ("x86_64", "xen", "xenpvh")),
        (("x86_64", "hvf", "hvm"), ("x86_64", "hvf", "hvm")),
    ],
)
def test_names_are_those_that_requests_are_compared_with(
    named: tuple[str, str, str], known: tuple[str, str, str]
) -> None:
    architecture, kind, mode = named
    guest = (
        f"<guest><os_type>{mode}</os_type>"
        f"<arch name='{architecture}'><domain type='{kind}'/></arch></guest>"
    )
    xml = f"<capabilities><host><cpu/></host>{guest}</capabilities>"
    assert capabilities.parse(xml).supported_instances == (known,)


@pytest.mark.parametrize("xml", ["", "<capabilities>", "<capabilities/>"])
def test_nonsense_is_reported_as_such(xml: str) -> None:
    with pytest.raises(DriverAnswerUnusable, match="answer to getCapabilities cannot be used"):
        capabilities.parse(xml)


def test_odd_numbers_are_unknown() -> None:
    xml = "<capabilities><host><cpu><topology sockets='two'/></cpu></host></capabilities>"
    topology = capabilities.parse(xml).cpu_info["topology"]
    assert topology == {"cells": 1, "sockets": None, "cores": None, "threads": None}


def test_the_cell_of_a_real_host() -> None:
    found = capabilities.parse(sample("capabilities-qemu-system.xml"))
    assert found.cells == (
        Cell(
            id=0,
            memory_mb=6234,
            pages=((4, 1595957), (2048, 0), (1048576, 0)),
            cpus=(Cpu(0, 0, frozenset({0})), Cpu(1, 0, frozenset({1}))),
        ),
    )


def test_the_cells_of_the_test_driver() -> None:
    near, far = capabilities.parse(sample("capabilities-test-default.xml")).cells
    assert [cpu.id for cpu in far.cpus] == list(range(8, 16))
    assert (near.memory_mb, far.memory_mb) == (2048, 4096)
    assert (near.pages[0], far.pages[0]) == ((4, 524288), (8, 524288))


def the_cells(xml: str) -> tuple[Cell, ...]:
    return capabilities.parse(
        f"<capabilities><host><cpu/><topology>{xml}</topology></host></capabilities>"
    ).cells


@pytest.mark.parametrize("xml", ["", "<cells num='0'/>", "<cells><cell/><cell id='x'/></cells>"])
def test_what_is_no_cell_is_left_out(xml: str) -> None:
    assert the_cells(xml) == ()


def test_an_empty_cell_has_nothing() -> None:
    assert the_cells("<cells><cell id='3'/></cells>") == (Cell(3, 0, (), ()),)


def test_odd_things_in_a_cell_are_left_out() -> None:
    (cell,) = the_cells(
        "<cells><cell id='0'><memory>some</memory><pages>7</pages><pages size='0'>7</pages>"
        "<pages size='2048'>many</pages><pages size='4'>-1</pages>"
        "<pages unit='MiB' size='2'>3</pages>"
        "<cpus><cpu/><cpu id='1' siblings='1,3-4'/><cpu id='2' socket_id='?' siblings='x'/></cpus>"
        "</cell></cells>"
    )
    assert (cell.memory_mb, cell.pages) == (0, ((2048, 3),))
    assert cell.cpus == (Cpu(1, None, frozenset({1, 3, 4})), Cpu(2, None, frozenset({2})))


@pytest.mark.parametrize(("count", "pages"), [(2**31 - 1, ((4, 2**31 - 1),)), (2**31, ())])
def test_more_pages_than_a_row_may_hold_are_left_out(
    count: int, pages: tuple[tuple[int, int], ...]
) -> None:
    (cell,) = the_cells(f"<cells><cell id='0'><pages size='4'>{count}</pages></cell></cells>")
    assert cell.pages == pages
