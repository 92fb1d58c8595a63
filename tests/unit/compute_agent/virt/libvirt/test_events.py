# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Events of libvirt are kept by name and wakes who looks after it, from any thread."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compute_agent.virt.libvirt import events
from compute_agent.virt.libvirt.events import LIFECYCLE, Events, drain
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.library import Daemon, Domain, Error

DEVICE = SimpleNamespace(name=lambda: "pci_0000_00_03_0")
PINNING, METADATA, NEW_MEMORY = 17, 23, 26


class Woken:
    """Counts how often somebody was woken."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def woken() -> Woken:
    return Woken()


def attached(daemon: Daemon, woken: Woken) -> tuple[Events, Any, Any]:
    """Return what listens to a new connection, the connection, and what ends that."""
    made = Events(daemon.library, woken)
    link = daemon.open("test:///x")
    return made, link, made.attach(link)


@pytest.mark.parametrize("event", [LIFECYCLE, PINNING, METADATA, NEW_MEMORY])
def test_a_guest_that_changes_is_named(daemon: Daemon, woken: Woken, event: int) -> None:
    heard, _, _ = attached(daemon, woken)
    assert heard.hears_guests
    one, other = Domain(1), Domain(2)
    daemon.send_event("guests", event, one)
    daemon.send_event("guests", event, one)
    daemon.send_event("guests", LIFECYCLE, other)
    assert (heard.guests, heard.devices) == ({one.UUID(), other.UUID()}, set())
    assert woken.times == 3


@pytest.mark.parametrize("event", [LIFECYCLE, events.UPDATE_OF_DEVICE])
def test_a_device_that_changes_is_named(daemon: Daemon, woken: Woken, event: int) -> None:
    heard, _, _ = attached(daemon, woken)
    assert heard.hears_devices
    daemon.send_event("devices", event, DEVICE)
    assert (heard.guests, heard.devices) == (set(), {"pci_0000_00_03_0"})
    assert woken.times == 1


def test_a_connection_that_is_lost_wakes(daemon: Daemon, woken: Woken) -> None:
    attached(daemon, woken)
    daemon.die()
    assert woken.times == 1


def test_a_hypervisor_that_tells_nothing_is_known_to(daemon: Daemon, woken: Woken) -> None:
    daemon.hears = set()
    heard, link, detach = attached(daemon, woken)
    assert (heard.hears_guests, heard.hears_devices, link.callbacks) == (False, False, {})
    detach()


def test_an_older_daemon_tells_what_it_can(daemon: Daemon, woken: Woken) -> None:
    daemon.newest_event = PINNING
    heard, link, detach = attached(daemon, woken)
    assert heard.hears_guests
    assert {event for what, event, _ in link.callbacks.values() if what == "guests"} == {
        LIFECYCLE,
        15,
        16,
        PINNING,
    }
    detach()
    assert link.callbacks == {}


def test_guests_may_be_heard_where_devices_are_not(daemon: Daemon, woken: Woken) -> None:
    daemon.hears = {"guests"}
    heard, _, _ = attached(daemon, woken)
    assert (heard.hears_guests, heard.hears_devices) == (True, False)


def test_nothing_of_an_earlier_connection_is_taken_for_granted(
    daemon: Daemon, woken: Woken
) -> None:
    heard, _, detach = attached(daemon, woken)
    detach()
    daemon.hears = set()
    heard.attach(daemon.open("test:///x"))
    assert (heard.hears_guests, heard.hears_devices) == (False, False)


@pytest.mark.parametrize("dies", [False, True])
def test_who_detaches_is_called_back_no_more(daemon: Daemon, woken: Woken, dies: bool) -> None:
    _, link, detach = attached(daemon, woken)
    if dies:
        daemon.die()
    before = woken.times
    detach()
    assert link.callbacks == {}
    daemon.send_event("guests", LIFECYCLE, Domain(1))
    assert woken.times == before


def test_a_new_connection_is_looked_at_a_second_time(
    daemon: Daemon, woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SECOND_AUDIT", 0.01)
    attached(daemon, woken)
    assert wait_until(lambda: woken.times == 1)


def test_after_the_end_there_is_no_second_audit(daemon: Daemon, woken: Woken) -> None:
    Events(daemon.library, woken).close()
    before = set(threading.enumerate())
    heard, _, _ = attached(daemon, woken)
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["second audit"]
    heard.close()
    assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert woken.times == 0


def test_what_is_taken_is_gone() -> None:
    names = {"a", "b"}
    assert drain(names) == {"a", "b"}
    assert (names, drain(names)) == (set(), set())


def test_a_loop_that_fails_goes_on(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAUSE", 0.001)
    rounds: list[int] = []
    third = threading.Event()

    def fails() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            third.set()
            threading.Event().wait()
        raise Error(1, "poll() failed")

    library = daemon.library
    library.virEventRunDefaultImpl = fails  # type: ignore[attr-defined]
    Events(library, lambda: None).start()
    assert third.wait(PATIENCE)


FORK = """
import os, sys, threading
from compute_agent.virt.libvirt.events import Events
from tests.unit.compute_agent.virt.libvirt.library import Daemon

def loops():
    return [thread.name for thread in threading.enumerate()].count("libvirt events")

daemon = Daemon()
events = Events(daemon.library, lambda: None)
for _ in range(3):
    events.start()
assert (loops(), daemon.loops) == (1, 1)
child = os.fork()
assert loops() == (1 if child else 0)
events.start()
assert loops() == 1
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert daemon.loops == 1
os._exit(0)
"""


def test_a_process_that_was_forked_off_gets_a_loop_of_its_own() -> None:
    root = Path(__file__).parents[5]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=PATIENCE, cwd=root
    )
