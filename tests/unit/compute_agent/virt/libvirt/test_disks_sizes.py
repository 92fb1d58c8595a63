# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""libvirt tells the sizes of images that the agent may not open, and no guest holds that up."""

from collections.abc import Callable
from threading import Event
from uuid import UUID

import pytest

from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.disks import REMEMBERED, DiskSizes
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.session import Timeouts
from tests.fixtures import agent
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.library import Daemon, Domain, a_host

GIB = 2**30


def asking(
    daemon: Daemon, timeout: float = PATIENCE, clock: Callable[[], float] = lambda: 0.0
) -> DiskSizes:
    library = daemon.library
    patience = Timeouts(PATIENCE, PATIENCE)
    connection = Connection(library, "qemu:///system", patience, Events(library, lambda: None))
    return DiskSizes(library, connection, timeout, clock)


def a_guest(number: int, **sizes: object) -> Domain:
    domain = Domain(number)
    domain.disk_sizes.update(sizes)
    return domain


def owners(**guests: int) -> dict[str, bytes]:
    return {path: UUID(agent.UUID.format(number)).bytes for path, number in guests.items()}


def test_what_libvirt_knows() -> None:
    daemon = a_host()
    daemon.host(a_guest(1, a=GIB, b=2 * GIB), a_guest(2, c=3 * GIB))
    whose = owners(a=1, b=1, c=2, unknown=2, gone=3)
    assert asking(daemon).of(whose, whose) == {"a": GIB, "b": 2 * GIB, "c": 3 * GIB}


def test_a_size_is_asked_for_only_now_and_then() -> None:
    daemon, now = a_host(), [0.0]
    guest = a_guest(1, a=GIB)
    daemon.host(guest)
    sizes, whose = asking(daemon, clock=lambda: now[0]), owners(a=1, b=1)
    assert sizes.of(whose, whose) == {"a": GIB}
    guest.disk_sizes = {"a": 2 * GIB, "b": GIB}
    now[0] += REMEMBERED - 1
    assert sizes.of(whose, whose) == {"a": GIB}
    now[0] += 1
    assert sizes.of(whose, whose) == {"a": 2 * GIB, "b": GIB}
    assert daemon.calls.count("lookupByUUID") == 4
    assert sizes.of(["b"], whose) == {"b": GIB}
    assert sizes.of(["a"], whose) == {"a": 2 * GIB}
    assert daemon.calls.count("lookupByUUID") == 5


def test_a_guest_that_is_stuck_holds_up_nobody() -> None:
    daemon, answers = a_host(), Event()

    def stuck() -> int:
        answers.wait(PATIENCE)
        return 2 * GIB

    daemon.host(a_guest(1, a=GIB), a_guest(2, b=stuck), a_guest(3, c=GIB))
    sizes, whose = asking(daemon, timeout=0.2), owners(a=1, b=2, c=3)
    for _ in range(2):
        assert sizes.of(whose, whose) == {"a": GIB}
    answers.set()
    assert wait_until(lambda: len(sizes.of(whose, whose)) == 3)


def test_a_libvirt_that_is_gone_is_an_error() -> None:
    daemon = a_host()
    daemon.host()
    daemon.running = False
    whose = owners(a=1)
    with pytest.raises(DriverUnavailable, match="no connection to libvirt"):
        asking(daemon).of(whose, whose)


def test_close_ends_it() -> None:
    daemon = a_host()
    daemon.host(a_guest(1, a=GIB))
    sizes, whose = asking(daemon), owners(a=1)
    sizes.close()
    with pytest.raises(DriverUnavailable, match="the disks of guests is closed"):
        sizes.of(whose, whose)
