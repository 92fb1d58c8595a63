# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hypervisors on which a test does what somebody besides the agent does to guests."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, cast

from compute_agent.virt.driver import Driver, NodeName
from compute_agent.virt.fake import FakeDriver
from tests.fixtures import agent
from tests.fixtures.daemons import guests

# A guest of libvirt's imaginary hosts.
TEST_XML = """
<domain type='test'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <os><type>hvm</type></os>
</domain>
"""


class Hypervisor(Protocol):
    """One node of a driver; guests are called by numbers, which are the ends of their uuids."""

    driver: Driver
    node: NodeName

    def define(self, number: int, vcpus: int, memory_mb: int) -> None:
        """Let there be such a guest that does not run, or one that runs be such from now on."""

    def start(self, number: int) -> None:
        """Let a guest that does not run do so."""

    def create(self, number: int, vcpus: int, memory_mb: int) -> None:
        """Run a guest that is gone as soon as it ends."""

    def pause(self, number: int) -> None: ...

    def resume(self, number: int) -> None: ...

    def stop(self, number: int) -> None:
        """End a guest as a power cut would."""

    def undefine(self, number: int) -> None:
        """Let a guest be gone, or one that runs as soon as it ends."""


class FakeHypervisor:
    """The last node of the fake driver."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        *_, self.node = driver.nodes()
        self._transient: set[int] = set()

    def define(self, number: int, vcpus: int, memory_mb: int) -> None:
        self._add(number, vcpus=vcpus, memory_mb=memory_mb, vm_state="stopped")

    def start(self, number: int) -> None:
        self._put(number, "active")

    def create(self, number: int, vcpus: int, memory_mb: int) -> None:
        self._transient.add(number)
        self._add(number, vcpus=vcpus, memory_mb=memory_mb)

    def pause(self, number: int) -> None:
        self._put(number, "paused")

    def resume(self, number: int) -> None:
        self._put(number, "active")

    def stop(self, number: int) -> None:
        if number in self._transient:
            self.driver.remove_guest(self.node.node, agent.UUID.format(number))
        else:
            self._put(number, "stopped")

    def undefine(self, number: int) -> None:
        self._transient.add(number)
        if self._found(number).vm_state == "stopped":
            self.stop(number)

    def _found(self, number: int) -> Any:
        uuid = agent.UUID.format(number)
        return next(each for each in self.driver.guests(self.node) if each.uuid == uuid)

    def _put(self, number: int, state: str) -> None:
        each = self._found(number)
        self._add(number, vcpus=each.vcpus, memory_mb=each.memory_mb, vm_state=state)

    def _add(self, number: int, **what: Any) -> None:
        self.driver.add_guest(self.node.node, agent.a_guest(number, **what))


class LibvirtHypervisor:
    """A host of libvirt, changed through a connection that may do so."""

    def __init__(self, driver: Driver, link: Any, xml: str) -> None:
        self.driver = driver
        (self.node,) = driver.nodes()
        self._link = link
        self._xml = xml

    def define(self, number: int, vcpus: int, memory_mb: int) -> None:
        self._link.defineXML(self._description(number, vcpus, memory_mb))

    def start(self, number: int) -> None:
        self._domain(number).create()

    def create(self, number: int, vcpus: int, memory_mb: int) -> None:
        self._link.createXML(self._description(number, vcpus, memory_mb))

    def pause(self, number: int) -> None:
        self._domain(number).suspend()

    def resume(self, number: int) -> None:
        self._domain(number).resume()

    def stop(self, number: int) -> None:
        self._domain(number).destroy()

    def undefine(self, number: int) -> None:
        self._domain(number).undefine()

    def remove_all(self, numbers: range) -> None:
        """Take away the guests of a test."""
        for number in numbers:
            guests.remove(self._link, agent.UUID.format(number))

    def _description(self, number: int, vcpus: int, memory_mb: int) -> str:
        return self._xml.format(
            name=f"guest{number}", uuid=agent.UUID.format(number), vcpus=vcpus, memory_mib=memory_mb
        )

    def _domain(self, number: int) -> Any:
        return self._link.lookupByUUIDString(agent.UUID.format(number))


def changeable(libvirt: ModuleType) -> tuple[ModuleType, list[Any]]:
    """Return libvirt-python with connections that may change something, and those it will open.

    An imaginary host from a file is another one for each connection, so a test has to share one.
    """
    links: list[Any] = []

    def opened(uri: str) -> Any:
        links.append(libvirt.open(uri))
        return _Shared(links[-1])

    names = {**vars(libvirt), "openReadOnly": opened}
    return cast(ModuleType, SimpleNamespace(**names)), links


class _Shared:
    """A connection that is not closed while a test uses it."""

    def __init__(self, link: Any) -> None:
        self._link = link

    def close(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


@contextmanager
def changing(driver: Driver, link: Any, xml: str, numbers: range) -> Iterator[LibvirtHypervisor]:
    """Yield a host of libvirt, and take the guests with these numbers away afterwards."""
    hypervisor = LibvirtHypervisor(driver, link, xml)
    try:
        yield hypervisor
    finally:
        hypervisor.remove_all(numbers)
