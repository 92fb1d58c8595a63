# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A host is reported although libvirt calls fail that its options do not need."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compute_agent.virt.driver import DriverUnavailable, NodeFacts
from compute_agent.virt.libvirt.driver import LibvirtDriver
from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import Daemon, Domain, Error, a_host

NO_DEVICE_DAEMON = Error(
    38, "Failed to connect socket to '/run/libvirt/virtnodedevd-sock': No such file or directory"
)
NO_ANSWER = Error(1, "internal error: no emulator found")
EVERY_DEVICE = {"device_spec": "{}"}
HERE, ELSEWHERE = "qemu:///system", "qemu+tls://elsewhere/system"

Make = Callable[..., LibvirtDriver]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A function from a daemon and options to the driver of its host."""
    made: list[LibvirtDriver] = []

    def driver(daemon: Daemon, uri: str = HERE, **sections: dict[str, Any]) -> LibvirtDriver:
        options = agent.options(tmp_path, libvirt={"connection_uri": uri}, **sections)
        made.append(LibvirtDriver(options, daemon.library))
        return made[-1]

    yield driver
    for each in made:
        each.close()


def facts(host: LibvirtDriver) -> NodeFacts:
    (node,) = host.nodes()
    assert len(host.guests(node)) == 1
    return host.facts(node)


def a_host_with_a_guest(**answers: Any) -> Daemon:
    daemon = a_host(**answers)
    daemon.host(Domain(1))
    return daemon


@pytest.mark.parametrize(
    ("question", "uri"),
    [
        ("getVersion", HERE),
        ("getInfo", HERE),
        ("getCPUMap", HERE),
        ("getMemoryStats", HERE),
        ("getMemoryStats", ELSEWHERE),
        ("baselineCPU", HERE),
        ("getCPUStats", HERE),
        ("listAllDevices", HERE),
    ],
)
def test_one_question_without_an_answer_takes_no_host_out(
    make: Make, question: str, uri: str
) -> None:
    whole = facts(make(a_host_with_a_guest(), uri))
    part = facts(make(a_host_with_a_guest(**{question: NO_ANSWER}), uri))
    assert (part.vcpus, part.numa) == (whole.vcpus, whole.numa)
    assert part.memory_mb > 0
    assert part.hypervisor_version == (0 if question == "getVersion" else whole.hypervisor_version)


def test_what_says_how_much_there_is_is_needed(make: Make) -> None:
    host = make(a_host_with_a_guest(getInfo=NO_ANSWER, getCPUMap=NO_ANSWER))
    with pytest.raises(DriverUnavailable, match="no emulator found"):
        facts(host)
    elsewhere = make(a_host_with_a_guest(getInfo=NO_ANSWER, getMemoryStats=NO_ANSWER), ELSEWHERE)
    with pytest.raises(DriverUnavailable, match="no emulator found"):
        facts(elsewhere)


def test_without_a_device_for_guests_nobody_asks_for_devices(make: Make) -> None:
    daemon = a_host_with_a_guest(listAllDevices=NO_DEVICE_DAEMON)
    assert facts(make(daemon, pci={"device_spec": " "})).pci_devices == ()
    assert "listAllDevices" not in daemon.calls
    registered = {what for what, *_ in daemon.links[0].callbacks.values()}
    assert registered == {"guests", "close"}


def test_devices_that_are_asked_for_are_among_the_facts(make: Make) -> None:
    xml = sample("nodedevice-pci.xml")
    card = SimpleNamespace(name=lambda: "pci_0000_00_03_0", XMLDesc=lambda _: xml)
    host = make(a_host_with_a_guest(listAllDevices=[card]), pci=EVERY_DEVICE)
    assert [device.address for device in facts(host).pci_devices] == ["0000:00:03.0"]


def test_devices_that_are_asked_for_name_the_daemon_that_is_missing(make: Make) -> None:
    host = make(a_host_with_a_guest(listAllDevices=NO_DEVICE_DAEMON), pci=EVERY_DEVICE)
    (node,) = host.nodes()
    with pytest.raises(DriverUnavailable) as caught:
        host.facts(node)
    assert str(caught.value) == (
        "libvirt cannot list the devices for [pci] device_spec: Failed to connect socket to "
        "'/run/libvirt/virtnodedevd-sock': No such file or directory; does its daemon for devices "
        "(virtnodedevd) run?"
    )
