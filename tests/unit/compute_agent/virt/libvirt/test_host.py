# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""CPUs and memory are looked at each time, what is dear once per connection."""

import logging
from pathlib import Path
from typing import Any

import pytest

from compute_agent.cpu_sets import CpusNotOnline
from compute_agent.virt.driver import DriverMisconfigured, DriverUnavailable
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.host import Host
from compute_agent.virt.libvirt.session import Timeouts
from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Error, a_host

DEAR = {"getVersion", "getCapabilities", "baselineCPU"}
IMAGINARY = sample("nodeinfo-test-custom.json")["calls"]


def a_look_at(directory: Path, daemon: Daemon, **sections: dict[str, Any]) -> Host:
    library = daemon.library
    events = Events(library, lambda: None)
    connection = Connection(library, "test:///x", Timeouts(20, 20), events)
    return Host(agent.options(directory, **sections), library, connection, is_local=False)


def test_a_real_hosts_answers(tmp_path: Path) -> None:
    found = a_look_at(tmp_path, a_host()).look()
    assert (found.vcpus, found.memory.total_mb, found.hypervisor.kind) == (2, 24105, "QEMU")
    assert found.numa is not None
    (cell,) = found.numa.cells
    assert (cell.id, cell.cpuset, cell.pcpuset, cell.memory) == (0, {0, 1}, {0, 1}, 6234)


def test_cpus_that_are_offline_do_not_count(tmp_path: Path) -> None:
    daemon = a_host(getCPUMap=(2, [False, True], 1))
    found = a_look_at(tmp_path, daemon).look()
    assert found.vcpus == 1
    assert found.numa is not None
    assert [cell.cpuset for cell in found.numa.cells] == [{1}]


@pytest.mark.parametrize(
    ("kind", "architecture", "bound"),
    [
        ("QEMU", "x86_64", True),
        ("QEMU", "i386", True),
        ("QEMU", "aarch64", True),
        ("QEMU", "ppc64le", True),
        ("Xen", "ppc64", True),
        ("TEST", "i686", True),
        ("QEMU", "s390x", False),
        ("QEMU", "riscv64", False),
        ("LXC", "x86_64", False),
        ("Xen", "x86_64", False),
        ("QEMU", "", False),
    ],
)
def test_cells_are_reported_where_nova_binds_guests_to_them(
    tmp_path: Path, kind: str, architecture: str, bound: bool
) -> None:
    xml = sample("capabilities-qemu-system.xml")
    capabilities = xml.replace("<arch>x86_64</arch>", f"<arch>{architecture}</arch>", 1)
    daemon = a_host(getType=kind, getCapabilities=capabilities)
    assert (a_look_at(tmp_path, daemon).look().numa is not None) == bound


def test_without_a_cpu_map_the_node_info_counts(tmp_path: Path) -> None:
    daemon = a_host(getCPUMap=Error(NO_SUPPORT, "not supported"))
    assert a_look_at(tmp_path, daemon).look().vcpus == 2


def test_the_imaginary_host_counts_its_cpus_otherwise(tmp_path: Path) -> None:
    cpu_map = tuple(IMAGINARY["getCPUMap"])
    daemon = a_host(getType="TEST", getInfo=IMAGINARY["getInfo"], getCPUMap=cpu_map)
    found = a_look_at(tmp_path, daemon).look()
    assert (found.vcpus, found.memory.total_mb, found.memory.used_mb) == (8, 16384, None)


def test_cpus_and_pages_that_are_set_apart(tmp_path: Path) -> None:
    host = a_look_at(
        tmp_path,
        a_host(),
        compute={"cpu_dedicated_set": "1"},
        DEFAULT={"reserved_huge_pages": "node:0,size:4,count:100"},
    )
    found = host.look()
    assert found.vcpus == 1
    assert found.numa is not None
    (cell,) = found.numa.cells
    assert (cell.cpuset, cell.pcpuset) == (set(), {1})
    assert {pages.size_kb: pages.reserved for pages in cell.mempages}[4] == 100


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compute": {"cpu_shared_set": "x"}}, "cpu_shared_set = 'x'"),
        ({"DEFAULT": {"reserved_huge_pages": "node:0,size:4"}}, "reserved_huge_pages"),
    ],
)
def test_bad_sets_are_refused_when_it_is_made(
    tmp_path: Path, options: dict[str, dict[str, Any]], text: str
) -> None:
    with pytest.raises(DriverMisconfigured, match=text):
        a_look_at(tmp_path, a_host(), **options)


def test_a_set_that_is_not_online_fails_each_look(tmp_path: Path) -> None:
    daemon = a_host()
    host = a_look_at(tmp_path, daemon, compute={"cpu_shared_set": "0-1"})
    assert host.look().vcpus == 2
    daemon.answers["getCPUMap"] = (2, [True, False], 1)
    for _ in range(2):
        with pytest.raises(CpusNotOnline, match="cpu_shared_set"):
            host.look()
    daemon.answers["getCPUMap"] = (2, [True, True], 2)
    assert host.look().vcpus == 2


def test_cells_stay_the_same_object_as_long_as_they_are_the_same(tmp_path: Path) -> None:
    daemon = a_host()
    host = a_look_at(tmp_path, daemon)
    first = host.cells
    assert first is not None
    assert host.look().cells is first
    assert host.cells is first
    daemon.answers["getCPUMap"] = (2, [True, False], 1)
    assert host.look().cells is not first


def test_dear_questions_are_asked_once_per_connection(tmp_path: Path) -> None:
    daemon = a_host()
    host = a_look_at(tmp_path, daemon)
    host.look()
    daemon.calls.clear()
    host.look()
    assert not DEAR & set(daemon.calls)
    daemon.die()
    with pytest.raises(DriverUnavailable):
        host.look()
    daemon.running = True
    daemon.answers["getVersion"] = 9001000
    # The look after the one that finds itself on a new connection, if not that one.
    host.look()
    assert host.look().hypervisor.version == 9001000


def test_a_disagreement_is_logged_once_and_again_when_it_moves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = a_host()
    host = a_look_at(tmp_path, daemon)
    for memory in (5210, 5594, 6234, 9000, 24000):
        daemon.answers["getInfo"] = ["x86_64", memory, 2, 2596, 1, 1, 2, 1]
        with caplog.at_level(logging.INFO):
            host.look()
    messages = [each.getMessage() for each in caplog.records if "of memory" in each.getMessage()]
    assert [text.split()[2] for text in messages] == ["5210", "6234", "9000"]
