# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The libvirt driver makes facts of what a host answers, and says when something has changed."""

import errno
import os
import posix
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from compute_agent.virt.driver import (
    CpuCounters,
    DriverCannot,
    DriverUnavailable,
    NodeFacts,
    NodeName,
)
from compute_agent.virt.libvirt import driver as module
from compute_agent.virt.libvirt import events
from compute_agent.virt.libvirt.driver import LibvirtDriver
from compute_agent.virt.libvirt.events import LIFECYCLE
from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.domain import a_domain
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Domain, Error, a_host

REMOTE = "qemu+tls://elsewhere/system"
NODE = NodeName("alpha", "vm")
PINNED = "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>"
DISK = """
<disk type='file' device='disk'><driver type='raw'/><source file='{}'/></disk>"""

Make = Callable[..., LibvirtDriver]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A function from a daemon and options to the driver of its host."""
    made: list[LibvirtDriver] = []

    def driver(daemon: Daemon, uri: str = "qemu:///system", **libvirt: Any) -> LibvirtDriver:
        options = agent.options(tmp_path, libvirt={"connection_uri": uri, **libvirt})
        made.append(LibvirtDriver(options, daemon.library))
        return made[-1]

    yield driver
    for each in made:
        each.close()


def facts(host: LibvirtDriver) -> NodeFacts:
    (node,) = host.nodes()
    return host.facts(node)


def test_a_real_hosts_answers(make: Make) -> None:
    host = make(a_host(), REMOTE)
    assert host.hosts() == ["alpha"]
    assert host.nodes() == [NODE]
    found = facts(host)
    assert (found.hypervisor_type, found.hypervisor_version) == ("QEMU", 7002022)
    assert (found.vcpus, found.memory_mb, found.memory_used_mb) == (2, 24105, 1445)
    assert found.supported_instances[1] == ("i686", "kvm", "hvm")
    assert found.numa is not None
    assert [cell.id for cell in found.numa.cells] == [0]
    assert (found.uuid, found.booted) == (None, None)


def test_a_libvirt_that_is_reached_by_tcp_is_this_machines(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(3 * 1024**4)
    daemon = a_host()
    daemon.host(Domain(1, xml=a_domain(devices=DISK.format(image))))
    here = facts(make(daemon, "qemu+tcp://127.0.0.1/system"))
    assert here.booted is not None
    assert caplog.records == []
    there = facts(make(daemon, REMOTE))
    assert there.booted is None
    assert f"libvirt at {REMOTE} seems to run on another machine" in caplog.text
    assert (there.disk_available_least or 0) - (here.disk_available_least or 0) >= 3070


def test_this_machine_knows_when_it_was_booted(make: Make) -> None:
    booted = facts(make(a_host())).booted
    assert booted is not None
    assert 0 < booted < time.time()
    assert facts(make(a_host(getType="TEST"))).booted is None


@pytest.mark.parametrize("text", ["cpu 1 2 3\n", "btime soon\n", None])
def test_without_a_word_of_the_kernel_nobody_knows(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text)
    monkeypatch.setattr(module, "STAT", stat)
    assert facts(make(a_host())).booted is None


def test_what_disks_may_still_take_is_not_left(make: Make, tmp_path: Path) -> None:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(3 * 1024**4)
    thin = Domain(1, xml=a_domain(devices=DISK.format(image)))

    def left(uri: str, kind: str) -> int:
        daemon = a_host(getType=kind)
        daemon.host(thin)
        least = facts(make(daemon, uri)).disk_available_least
        assert least is not None
        return least

    without = left(REMOTE, "QEMU")
    # The guests of an imaginary host, and of one that is elsewhere, have no files here.
    assert abs(left("qemu:///system", "TEST") - without) <= 2
    assert abs(left("qemu:///system", "QEMU") - (without - 3072)) <= 2


def test_libvirt_tells_the_size_of_a_disk_that_may_not_be_read(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: str, _flags: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    # Root may read all files, whatever their mode.
    monkeypatch.setattr(posix, "open", forbidden)
    image = tmp_path / "disk"
    image.touch()
    guest = Domain(1, xml=a_domain(devices=DISK.format(image).replace("raw", "qcow2")))
    daemon = a_host()
    daemon.host(guest)
    without = facts(make(daemon)).disk_available_least
    guest.disk_sizes[str(image)] = 3 * 1024**4
    exact = facts(make(daemon)).disk_available_least
    assert without is not None
    assert exact is not None
    assert abs(exact - (without - 3072)) <= 2


def test_a_disk_on_another_file_system_is_charged_to_that(make: Make) -> None:
    with NamedTemporaryFile(dir="/dev/shm") as volume:
        os.truncate(volume.name, 131072 * 1024**3)
        daemon = a_host()
        daemon.host(Domain(1, xml=a_domain(devices=DISK.format(volume.name))))
        least = facts(make(daemon)).disk_available_least
    assert least is not None
    assert least >= 0


def test_files_as_memory_take_the_place_of_the_hosts(make: Make) -> None:
    daemon = a_host()
    daemon.host(Domain(1), Domain(2, state=5))
    found = facts(make(daemon, REMOTE, file_backed_memory=1048576))
    assert (found.memory_mb, found.memory_used_mb) == (1048576, 4096)


def test_guests_are_placed_on_the_cells(make: Make) -> None:
    daemon = a_host()
    daemon.host(Domain(1, xml=a_domain(PINNED)))
    (guest,) = make(daemon).guests(NODE)
    assert guest.numa is not None
    assert [(cell.id, cell.cpu_pinning) for cell in guest.numa.cells] == [(0, {0: 1})]


def test_how_busy_the_cpus_were(make: Make) -> None:
    captured = sample("nodeinfo-qemu-system.json")["calls"]["getCPUStats(-1)"]
    host = make(a_host())
    assert host.cpu_counters(NODE) == CpuCounters(**captured, frequency_mhz=2596)
    some = make(a_host(getCPUStats={"user": 5, "idle": 7, "intr": 1}))
    assert some.cpu_counters(NODE) == CpuCounters(5, 0, 7, 0, 2596)
    none = make(a_host(getCPUStats=Error(NO_SUPPORT, "not supported")))
    with pytest.raises(DriverCannot, match="count the time of CPUs"):
        none.cpu_counters(NODE)


def test_a_look_that_finds_nothing_new_asks_little(make: Make) -> None:
    daemon = a_host()
    daemon.host(*(Domain(number) for number in range(1, 5)))
    host = make(daemon, REMOTE)
    facts(host)
    host.guests(NODE)
    daemon.calls.clear()
    facts(host)
    host.guests(NODE)
    assert daemon.calls == [
        "getHostname",
        # libvirt-python's library knows it without asking the daemon.
        "getType",
        "getCPUMap",
        "getInfo",
        "getMemoryStats",
        "getAllDomainStats",
    ]


def test_a_change_is_noted(make: Make) -> None:
    daemon = a_host()
    host = make(daemon)
    host.nodes()
    assert host.changes.wait(0.001) == frozenset()
    daemon.send_event("guests", LIFECYCLE, Domain(1))
    assert host.changes.wait(PATIENCE) == {NODE}


def test_a_connection_that_is_lost_is_noted(make: Make) -> None:
    daemon = a_host()
    host = make(daemon)
    host.nodes()
    daemon.die()
    assert host.changes.wait(PATIENCE) == {NODE}


def test_after_a_new_connection_there_is_a_second_look(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SECOND_AUDIT", 0.05)
    daemon = a_host()
    host = make(daemon)
    for _ in range(2):
        host.nodes()
        assert host.changes.wait(PATIENCE) == {NODE}
        daemon.die()
        assert host.changes.wait(PATIENCE) == {NODE}
        daemon.running = True


def test_what_is_heard_before_there_is_a_name_is_looked_at_anyway(make: Make) -> None:
    daemon = a_host()

    def get_hostname() -> str:
        daemon.send_event("guests", LIFECYCLE, Domain(1))
        return "vm"

    daemon.answers["getHostname"] = get_hostname
    host = make(daemon)
    host.nodes()
    assert host.changes.wait(0.001) == frozenset()


def test_a_new_name_of_the_hypervisor_is_not_taken_over(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = a_host()
    host = make(daemon)
    for name, warnings in (("vm", 0), ("vm.example.org", 1), ("vm.example.org", 1), ("vm", 1)):
        daemon.answers["getHostname"] = name
        assert host.nodes() == [NODE]
        assert len(caplog.records) == warnings
    assert "is now called vm.example.org; the node stays vm" in caplog.text
    daemon.answers["getHostname"] = "vm.example.org"
    host.nodes()
    assert len(caplog.records) == 2


def test_close_ends_all_questions(make: Make) -> None:
    host = make(a_host())
    host.nodes()
    host.close()
    for question in (host.nodes, lambda: host.facts(NODE), lambda: host.guests(NODE)):
        with pytest.raises(DriverUnavailable, match="is closed"):
            question()
    started = time.monotonic()
    host.changes.wait(PATIENCE)
    assert time.monotonic() - started < PATIENCE / 2


def test_nothing_is_left_after_its_end(make: Make) -> None:
    before = set(threading.enumerate())
    daemon = a_host()
    host = make(daemon)
    host.nodes()
    host.close()
    # The loop goes on: there is one for all drivers of a process.
    assert wait_until(
        lambda: {each.name for each in set(threading.enumerate()) - before} <= {"libvirt events"}
    )
    assert daemon.links[0].closed
