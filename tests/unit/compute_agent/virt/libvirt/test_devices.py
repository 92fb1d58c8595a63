# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Devices are asked for when something was plugged in or out, and else once an hour."""

from types import SimpleNamespace

import pytest

from compute_agent.virt.driver import DriverUnavailable, PciDevice
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.devices import REREAD_AFTER, Devices
from compute_agent.virt.libvirt.events import LIFECYCLE, Events
from compute_agent.virt.libvirt.session import Timeouts
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import Daemon, Error

NAME = "pci_0000_00_03_0"


class Card:
    """The one device of a host."""

    def __init__(self) -> None:
        self.xml = sample("nodedevice-pci.xml")
        self.reads = 0

    def name(self) -> str:
        return NAME

    def XMLDesc(self, _flags: int) -> str:
        self.reads += 1
        return str(self.xml)


class Host:
    """A host with a device, and what looks at it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.card = Card()
        self.daemon = Daemon(listAllDevices=[self.card], getHostname="vm")
        library = self.daemon.library
        events = Events(library, lambda: None)
        self.connection = Connection(library, "test:///x", Timeouts(20, 20), events)
        self.devices = Devices(library, self.connection, events, lambda: self.now)
        self.connection.call(lambda link: link.getHostname())

    def look(self) -> tuple[PciDevice, ...]:
        return self.devices.look()

    def costs(self) -> tuple[int, int]:
        """Return how often devices were listed, and how often described."""
        return self.daemon.calls.count("listAllDevices"), self.card.reads


@pytest.fixture
def host() -> Host:
    return Host()


def test_where_changes_are_heard_of_nothing_is_asked_twice(host: Host) -> None:
    first = host.look()
    assert [device.address for device in first] == ["0000:00:03.0"]
    assert host.look() is first
    assert host.costs() == (1, 1)


@pytest.mark.parametrize("name", [NAME, "pci_0000_00_04_0"])
def test_what_an_event_names_is_described_anew(host: Host, name: str) -> None:
    host.look()
    host.daemon.send_event("devices", LIFECYCLE, SimpleNamespace(name=lambda: name))
    host.look()
    assert host.costs() == (2, 2 if name == NAME else 1)
    host.look()
    assert host.costs() == (2, 2 if name == NAME else 1)


def test_an_event_outlasts_a_look_that_fails(host: Host) -> None:
    host.look()
    host.daemon.send_event("devices", LIFECYCLE, host.card)
    host.daemon.answers["listAllDevices"] = Error(1, "internal error")
    with pytest.raises(DriverUnavailable):
        host.look()
    host.daemon.answers["listAllDevices"] = [host.card]
    host.look()
    assert host.card.reads == 2


def test_where_nothing_is_heard_devices_are_listed_each_time() -> None:
    host = Host()
    host.daemon.die()
    host.daemon.running, host.daemon.hears = True, set()
    host.connection.call(lambda link: link.getHostname())
    for number in (1, 2, 3):
        host.look()
        assert host.costs() == (number, 1)
    host.daemon.answers["listAllDevices"] = []
    assert host.look() == ()


def test_after_an_hour_all_are_described_anew(host: Host) -> None:
    host.look()
    host.now += REREAD_AFTER - 1
    host.look()
    assert host.costs() == (1, 1)
    host.now += 2
    host.look()
    assert host.costs() == (2, 2)
    host.now += REREAD_AFTER - 1
    host.look()
    assert host.costs() == (2, 2)


def test_after_a_new_connection_all_are_described_anew(host: Host) -> None:
    host.look()
    host.daemon.die()
    host.daemon.running = True
    host.connection.call(lambda link: link.getHostname())
    host.look()
    host.look()
    assert host.costs() == (2, 2)
