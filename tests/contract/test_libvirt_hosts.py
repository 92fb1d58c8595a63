# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the libvirt driver sees on three kinds of hosts, whatever mood their libvirt is in."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compute_agent.virt.driver import Driver, DriverUnavailable, Guest
from tests.contract.conftest import Load
from tests.fixtures import agent
from tests.fixtures.daemons import guests
from tests.fixtures.daemons.process import PATIENCE, wait_until

if TYPE_CHECKING:
    from tests.fixtures.daemons.libvirtd import Libvirtd

DEFAULT_HOST = "test:///default"
CUSTOM_HOST = f"test://{agent.SAMPLES / 'test-node.xml'}"
# Signs of life that are missed soon.
QUICK = {"poll_timeout": 1, "keepalive_interval": 1, "keepalive_count": 1}
NOVA = """
<instance xmlns="http://openstack.org/xmlns/libvirt/nova/1.1">
  <name>shop-1</name><flavor name="m1.small"><vcpus>2</vcpus></flavor>
  <owner><project uuid="shop"/></owner>
</instance>
"""


def libvirt_at(load: Load, uri: str, **options: Any) -> Driver:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    return load(libvirt={"connection_uri": uri, **options})


def seen(driver: Driver) -> dict[str, Guest]:
    return {guest.name: guest for node in driver.nodes() for guest in driver.guests(node)}


def answers(driver: Driver) -> bool:
    try:
        return bool(driver.nodes())
    except DriverUnavailable:
        return False


def pid_of(uuid: str) -> int:
    """Return the process of a guest that the test has started."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "qemu-system" in command and f"-uuid\0{uuid}" in command:
            return int(each.parent.name)
    raise AssertionError(f"no QEMU runs guest {uuid}")


@contextmanager
def down(libvirtd: "Libvirtd") -> Iterator[None]:
    """Kill a libvirtd for a while."""
    libvirtd.kill()
    try:
        yield
    finally:
        libvirtd.start()


@contextmanager
def frozen(libvirtd: "Libvirtd") -> Iterator[None]:
    """Let a libvirtd hang for a while."""
    libvirtd.pause()
    try:
        yield
    finally:
        libvirtd.resume()


def test_the_imaginary_host(load: Load) -> None:
    driver = libvirt_at(load, DEFAULT_HOST)
    (node,) = driver.nodes()
    facts = driver.facts(node)
    captured = agent.sample("nodeinfo-test-default.json")["calls"]
    # Its CPU map says 3 of 8, whatever the host has.
    assert (facts.memory_mb, facts.vcpus) == (captured["getInfo"][1], captured["getInfo"][2])
    assert (facts.hypervisor_type, facts.hypervisor_version) == ("TEST", 2)
    assert facts.numa is not None
    # The cells need not hold what the host does: 3072 MiB here.
    assert [cell.memory for cell in facts.numa.cells] == [2048, 4096]
    guest = seen(driver)["test"]
    assert (guest.vcpus, guest.memory_mb, guest.vm_state) == (2, 8192, "active")


def test_guests_in_four_states(load: Load) -> None:
    found = seen(libvirt_at(load, CUSTOM_HOST))
    assert {name: (each.vm_state, each.vcpus, each.memory_mb) for name, each in found.items()} == {
        "running1": ("active", 2, 2048),
        "paused1": ("paused", 1, 1024),
        "shutoff1": ("stopped", 2, 512),
        "transient1": ("active", 1, 64),
    }


def test_a_real_host(load: Load, libvirtd: "Libvirtd") -> None:
    driver = load(libvirt={"connection_uri": libvirtd.uri}, pci={"device_spec": "{}"})
    (node,) = driver.nodes()
    facts = driver.facts(node)
    assert facts.hypervisor_type == "QEMU"
    assert facts.vcpus == len(os.sched_getaffinity(0)) or facts.vcpus == os.cpu_count()
    assert facts.booted is not None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(time.time() - uptime - facts.booted) < 10
    assert driver.facts(node).pci_devices is facts.pci_devices


HUGE = "<memoryBacking><hugepages>{}</hugepages></memoryBacking>"
A_GUEST_CELL = "<cpu><numa><cell id='0' cpus='0' memory='64' unit='MiB'/></numa></cpu>"


@pytest.mark.parametrize(
    ("parts", "vcpu"),
    [
        (HUGE.format(""), "<vcpu cpuset='{cpu}'>1</vcpu>"),
        (HUGE.format("<page size='2' unit='MiB'/>"), "<vcpu cpuset='{cpu}'>1</vcpu>"),
        (HUGE.format("<page size='2' unit='MiB' nodeset='0'/>") + A_GUEST_CELL, "{pinned}"),
        ("<memoryBacking><hugepages/><source type='memfd'/></memoryBacking>", "{pinned}"),
        (HUGE.format(""), "<vcpu>1</vcpu><cputune><emulatorpin cpuset='{cpu}'/></cputune>"),
        ("<numatune><memory mode='preferred' nodeset='{cell}'/></numatune>", "<vcpu>1</vcpu>"),
        ("", "{pinned}"),
    ],
)
def test_a_guest_is_on_the_cell_that_it_is_bound_to(
    load: Load, libvirtd: "Libvirtd", parts: str, vcpu: str
) -> None:
    driver = libvirt_at(load, libvirtd.uri)
    (node,) = driver.nodes()
    numa = driver.facts(node).numa
    assert numa is not None
    cell = next(each for each in numa.cells if each.cpuset)
    pinned = "<vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='{cpu}'/></cputune>"
    more = (parts + vcpu).format(pinned=pinned, cell=cell.id, cpu="{cpu}")
    uuid = agent.UUID.format(75)
    xml = guests.XML.format(name="bound", uuid=uuid, vcpus=1, memory_mib=64)
    xml = xml.replace("<vcpu>1</vcpu>", more.format(cpu=min(cell.cpuset)))
    with guests.connected(libvirtd.uri) as connection:
        connection.defineXML(xml)
        try:
            found = seen(driver)["bound"].numa
        finally:
            guests.remove(connection, uuid)
    assert found is not None
    assert [(each.id, each.memory) for each in found.cells] == [(cell.id, 64)]


def test_what_nova_notes_of_a_guest_is_heard(load: Load, libvirtd: "Libvirtd") -> None:
    import libvirt

    driver = libvirt_at(load, libvirtd.uri)
    (node,) = driver.nodes()
    with libvirtd.guest("plain", agent.UUID.format(70), vcpus=1, memory_mib=64) as domain:
        assert "plain" in seen(driver)
        domain.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT,
            NOVA,
            "nova",
            "http://openstack.org/xmlns/libvirt/nova/1.1",
        )

        def shows() -> bool:
            assert driver.changes.wait(PATIENCE) == {node}
            return "shop-1" in seen(driver)

        assert wait_until(shows)
        guest = seen(driver)["shop-1"]
        assert (guest.project_id, guest.flavor_name, guest.vcpus) == ("shop", "m1.small", 2)


def test_a_killed_daemon_is_noticed_at_once_and_replaced(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri)
    (node,) = driver.nodes()
    facts = driver.facts(node)
    before = seen(driver)
    with libvirtd.guest("real", agent.UUID.format(71), memory_mib=64):
        assert wait_until(lambda: "real" in seen(driver))
        with down(libvirtd):
            assert driver.changes.wait(PATIENCE) == {node}
            for _ in range(3):
                with pytest.raises(DriverUnavailable, match="no connection to libvirt"):
                    driver.nodes()
        # The first call after it is back succeeds; no other has to find out that it was away.
        assert list(driver.nodes()) == [node]
        assert driver.facts(node).cpu_info == facts.cpu_info
        assert seen(driver)["real"].vm_state == "active"
    # And what happens from now on is heard.
    assert wait_until(lambda: bool(driver.changes.wait(PATIENCE)) and seen(driver) == before)


def test_a_guest_that_died_without_a_daemon_goes_without_an_event(
    load: Load, libvirtd: "Libvirtd"
) -> None:
    driver = libvirt_at(load, libvirtd.uri)
    (node,) = driver.nodes()
    uuid = agent.UUID.format(72)
    xml = guests.XML.format(name="transient", uuid=uuid, vcpus=1, memory_mib=64)
    with guests.connected(libvirtd.uri) as link:
        link.createXML(xml)
    assert wait_until(lambda: "transient" in seen(driver))
    with down(libvirtd):
        os.kill(pid_of(uuid), signal.SIGKILL)

    def is_gone() -> bool:
        # Only as often as somebody who waits for changes would look.
        assert driver.changes.wait(PATIENCE) == {node}
        return answers(driver) and "transient" not in seen(driver)

    assert wait_until(is_gone)


def seconds_until_refused(question: Callable[[], object]) -> float:
    started = time.monotonic()
    with pytest.raises(DriverUnavailable):
        question()
    return time.monotonic() - started


def test_a_daemon_that_hangs_and_goes_on(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri, poll_timeout=1, keepalive_interval=0)
    (node,) = driver.nodes()
    before = seen(driver)
    with frozen(libvirtd):
        with pytest.raises(DriverUnavailable, match="has not answered for 1 s"):
            driver.guests(node)
        for question in (driver.nodes, lambda: driver.facts(node), lambda: driver.guests(node)):
            # A busy machine delays some of them.
            assert min(seconds_until_refused(question) for _ in range(5)) < 1
    assert wait_until(lambda: answers(driver))
    assert seen(driver) == before


def test_a_daemon_that_hangs_is_noticed_though_nobody_asks(
    load: Load, libvirtd: "Libvirtd"
) -> None:
    driver = libvirt_at(load, libvirtd.uri, **QUICK)
    (node,) = driver.nodes()
    # The second look after a new connection would hide it.
    assert driver.changes.wait(PATIENCE) == {node}
    with frozen(libvirtd):
        assert driver.changes.wait(PATIENCE) == {node}
        with pytest.raises(DriverUnavailable):
            driver.nodes()
    assert wait_until(lambda: answers(driver))


def test_a_driver_is_closed_while_its_daemon_hangs(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri, poll_timeout=600, keepalive_interval=0)
    driver.nodes()
    with frozen(libvirtd):
        started = time.monotonic()
        driver.close()
        assert time.monotonic() - started < PATIENCE / 2
        with pytest.raises(DriverUnavailable, match="is closed: the agent is stopping"):
            driver.nodes()


def test_a_guest_that_hangs_holds_up_no_other(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri, poll_timeout=5)
    driver.nodes()
    stuck, other = agent.UUID.format(73), agent.UUID.format(74)
    with libvirtd.guest("stuck", stuck, memory_mib=64):
        pid = pid_of(stuck)
        os.kill(pid, signal.SIGSTOP)
        try:
            with libvirtd.guest("other", other, memory_mib=64):
                assert wait_until(lambda: {"stuck", "other"} <= seen(driver).keys())
            found = seen(driver)
            assert (found["stuck"].vm_state, "other" in found) == ("active", False)
        finally:
            os.kill(pid, signal.SIGCONT)
