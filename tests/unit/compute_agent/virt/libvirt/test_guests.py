# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Guests are listed by one call and described when there is a reason to, and none spoils others."""

import logging
import threading
from collections.abc import Iterator

import pytest

from compute_agent.virt.driver import DriverHung, DriverUnavailable, Guest
from compute_agent.virt.libvirt.connection import Connection, SerialWorker
from compute_agent.virt.libvirt.events import LIFECYCLE, Events
from compute_agent.virt.libvirt.guests import REREAD, Guests
from compute_agent.virt.libvirt.host_cells import HostCells
from compute_agent.virt.libvirt.session import Timeouts
from inventory.objects.numa import NUMACell, NUMATopology
from tests.fixtures import agent
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.domain import a_domain
from tests.unit.compute_agent.virt.libvirt.library import (
    NO_DOMAIN,
    NO_SUPPORT,
    OPERATION_TIMEOUT,
    Daemon,
    Domain,
    Error,
)

SHORT = 0.2
GONE = Error(NO_DOMAIN, "Domain not found")
STUCK = Error(OPERATION_TIMEOUT, "Timed out during operation:\ncannot acquire state change lock")
ODD = Error(1, "internal error: no such thing")
PINNED = "<cputune><vcpupin vcpu='0' cpuset='5'/></cputune>"
DISK = """
<disk type='file' device='disk'><driver type='qcow2'/><source file='/d/{}'/></disk>"""


class Host:
    """A host with guests, and what looks at them."""

    def __init__(self, *domains: Domain, timeout: float = PATIENCE) -> None:
        self.now = 0.0
        self.daemon = Daemon(getHostname="vm")
        self.daemon.host(*domains)
        library = self.daemon.library
        self.woken: list[int] = []
        events = Events(library, lambda: self.woken.append(1))
        patience = Timeouts(PATIENCE, PATIENCE)
        self.connection = Connection(library, "test:///x", patience, events)
        lane = SerialWorker("a guest", timeout)
        self.guests = Guests(library, self.connection, events, lane, lambda: self.now)

    def look(self, host: HostCells | None = None) -> list[Guest]:
        return self.guests.look(host)

    def names(self) -> list[int]:
        """Return the numbers of the guests."""
        return [int(guest.uuid[-4:]) for guest in self.look()]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What some thread waits for until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def reads(*domains: Domain) -> list[int]:
    return [domain.reads for domain in domains]


def test_what_has_not_changed_is_listed_only() -> None:
    one, two = Domain(1), Domain(2)
    host = Host(one, two)
    first = host.look()
    assert [(guest.uuid, guest.vcpus, guest.memory_mb) for guest in first] == [
        (agent.UUID.format(1), 4, 4096),
        (agent.UUID.format(2), 4, 4096),
    ]
    host.daemon.calls.clear()
    second = host.look()
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert host.daemon.calls == ["getAllDomainStats"]
    assert reads(one, two) == [1, 1]


@pytest.mark.parametrize("now", [[3, 1], [1, 5]], ids=["state", "reason"])
def test_a_guest_in_another_state_is_described_anew(now: list[int]) -> None:
    one, two = Domain(1), Domain(2)
    host = Host(one, two)
    before = host.look()
    one.state_and_reason = now
    after = host.look()
    assert reads(one, two) == [2, 1]
    assert after[0].vm_state == ("paused" if now[0] == 3 else "active")
    assert after[1] is before[1]
    host.look()
    assert reads(one, two) == [2, 1]


def test_a_guest_that_is_named_by_an_event_is_described_anew() -> None:
    one, two = Domain(1), Domain(2)
    host = Host(one, two)
    (first, _) = host.look()
    host.daemon.send_event("guests", LIFECYCLE, one)
    assert host.woken
    # As long as it says the same it stays the same.
    assert host.look()[0] is first
    assert reads(one, two) == [2, 1]
    one.xml = one.xml.replace(">4<", ">3<")
    host.daemon.send_event("guests", LIFECYCLE, one)
    assert host.look()[0].vcpus == 3
    host.look()
    assert reads(one, two) == [3, 1]


def test_an_event_outlasts_a_look_that_fails() -> None:
    one = Domain(1)
    host = Host(one)
    host.look()
    host.daemon.send_event("guests", LIFECYCLE, one)
    listing = host.daemon.answers["getAllDomainStats"]
    host.daemon.answers["getAllDomainStats"] = ODD
    with pytest.raises(DriverUnavailable, match="no such thing"):
        host.look()
    host.daemon.answers["getAllDomainStats"] = listing
    host.look()
    assert one.reads == 2


def test_an_event_during_a_look_leads_to_another_description() -> None:
    one = Domain(1)
    host = Host(one)
    xml = one.xml

    def meanwhile() -> str:
        if one.reads == 1:
            host.daemon.send_event("guests", LIFECYCLE, one)
        return str(xml)

    one.xml = meanwhile
    for reads_by_now in (1, 2, 2):
        host.look()
        assert one.reads == reads_by_now


def test_guests_come_and_go() -> None:
    one, two, three = Domain(1), Domain(2), Domain(3)
    host = Host(one, two)
    assert host.names() == [1, 2]
    host.daemon.host(two, three)
    host.daemon.send_event("guests", LIFECYCLE, one)
    assert host.names() == [2, 3]
    host.daemon.host(one, two, three)
    assert host.names() == [1, 2, 3]
    assert reads(one, two, three) == [2, 1, 1]


def test_nothing_is_kept_of_guests_that_are_gone() -> None:
    host = Host(Domain(1))
    host.look()
    for number in range(2, 9):
        host.daemon.send_event("guests", LIFECYCLE, Domain(number))
    host.look()
    assert (host.guests._stale, len(host.guests._known)) == (set(), 1)


def test_after_a_new_connection_all_are_described_anew() -> None:
    one, two = Domain(1), Domain(2)
    host = Host(one, two)
    first = host.look()
    host.daemon.die()
    with pytest.raises(DriverUnavailable):
        host.look()
    host.daemon.running = True
    second = host.look()
    assert reads(one, two) == [2, 2]
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_where_nothing_is_heard_all_are_described_at_each_look() -> None:
    one, two = Domain(1), Domain(2)
    host = Host(one, two)
    host.daemon.hears = set()
    first = host.look()
    second = host.look()
    assert reads(one, two) == [2, 2]
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_everything_is_described_anew_now_and_then() -> None:
    domains = [Domain(number) for number in range(1, 11)]
    host = Host(*domains)
    host.look()
    # Time for three: those whose turn was the longest time ago.
    for turn in range(1, 11):
        host.now += 3.01 / REREAD
        host.look()
        assert sum(reads(*domains)) == 10 + 3 * turn
    assert {*reads(*domains)} == {4}
    # Time adds up, however often somebody looks.
    for _ in range(40):
        host.now += 0.1 / REREAD
        host.look()
    assert 43 <= sum(reads(*domains)) <= 44
    host.now += 1_000_000
    host.look()
    assert 53 <= sum(reads(*domains)) <= 54


def test_a_change_without_an_event_is_found_in_the_end() -> None:
    one = Domain(1)
    host = Host(one)
    host.look()
    one.xml = one.xml.replace(">4<", ">2<")
    assert host.look()[0].vcpus == 4
    host.now += 60
    assert host.look()[0].vcpus == 2


def test_a_hypervisor_without_the_bulk_call_lists_its_guests_otherwise() -> None:
    one, two, gone = Domain(1), Domain(2, state=3), Domain(3)
    host = Host(one, two, gone)
    for each in (one, two, gone):
        each.link = host.daemon
    gone.state_and_reason = GONE
    host.daemon.answers["getAllDomainStats"] = Error(NO_SUPPORT, "not supported")
    assert [guest.vm_state for guest in host.look()] == ["active", "paused"]
    one.state_and_reason = [5, 1]
    assert [guest.vm_state for guest in host.look()] == ["stopped", "paused"]
    gone.state_and_reason = ODD
    with pytest.raises(DriverUnavailable, match="no such thing"):
        host.look()


def test_a_guest_that_vanishes_meanwhile_is_left_out() -> None:
    one, two = Domain(1), Domain(2, xml=GONE)
    host = Host(one, two)
    assert host.names() == [1]
    one.xml = GONE
    assert host.names() == [1]
    host.daemon.send_event("guests", LIFECYCLE, one)
    assert host.names() == []


def test_domain_0_is_no_guest() -> None:
    one, zero = Domain(1), Domain(2)
    zero.number = 0
    assert Host(zero, one).names() == [1]


@pytest.mark.parametrize("problem", [STUCK, ODD, Error(None, "unknown"), "<domain", "<domain/>"])
def test_a_guest_that_cannot_be_described(
    problem: object, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Domain(1), Domain(2, xml=problem)
    host = Host(one, other)
    assert host.names() == [1]
    good, one.xml = one.xml, problem
    host.daemon.send_event("guests", LIFECYCLE, one)
    before = one.reads
    assert host.names() == [1]
    # It is tried again each time, but logged once.
    assert host.names() == [1]
    assert one.reads == before + 2
    texts = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [text.split(": ")[0] for text in texts] == [
        f"Cannot read guest {agent.UUID.format(2)}, it is not counted",
        f"Cannot read guest {agent.UUID.format(1)}, it counts as it was last read",
    ]
    assert all("\n" not in text for text in texts)
    one.xml = good
    host.look()
    assert one.reads == before + 3
    host.look()
    assert one.reads == before + 3


def test_a_guest_without_a_description_counts_with_what_libvirt_tells_otherwise() -> None:
    odd = Domain(1, state=5, xml=ODD)
    odd.figures = [5, 65536 + 1, 1024, 3, 0]
    host = Host(odd)
    (guest,) = host.look()
    assert (guest.uuid, guest.name) == (agent.UUID.format(1), "guest1")
    assert (guest.vcpus, guest.memory_mb, guest.vm_state) == (3, 65, "stopped")
    odd.xml = a_domain()
    (guest,) = host.look()
    assert guest.vcpus == 4


def test_a_problem_is_forgotten_with_its_guest(caplog: pytest.LogCaptureFixture) -> None:
    odd = Domain(1, xml=ODD)
    host = Host(odd)
    for domains in ((odd,), (), (odd,)):
        host.daemon.host(*domains)
        host.look()
    assert len(caplog.records) == 2


def test_a_connection_that_dies_meanwhile_is_no_matter_of_one_guest() -> None:
    one = Domain(1)
    host = Host(one)

    def last_words() -> Exception:
        host.daemon.die()
        return Error(1, "internal error: client socket is closed")

    one.xml = last_words
    with pytest.raises(DriverUnavailable, match="socket is closed"):
        host.look()
    host.daemon.running = True
    one.xml = a_domain()
    assert host.names() == [1]


def test_a_guest_that_hangs_holds_up_no_other(never: threading.Event) -> None:
    one, two, three = Domain(1), Domain(2), Domain(3)
    host = Host(one, two, three, timeout=SHORT)
    host.look()
    xml = two.xml

    def hangs() -> str:
        never.wait()
        return str(xml)

    two.xml = hangs
    for each in (one, two, three):
        host.daemon.send_event("guests", LIFECYCLE, each)
    # It keeps what was known of it, and nobody asks again.
    for _ in range(3):
        assert host.names() == [1, 2, 3]
    assert reads(one, two, three) == [2, 2, 2]
    never.set()
    assert wait_until(lambda: host.look() and two.reads == 3)


def test_a_guest_that_hangs_and_never_was_described_is_left_out_aloud(
    never: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Domain(1, xml=never.wait), Domain(2)
    host = Host(one, two, timeout=SHORT)
    assert host.names() == [2]
    assert host.names() == [2]
    assert one.reads == 1
    (warning,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert warning.startswith(f"Cannot read guest {agent.UUID.format(1)}, it is not counted: ")


def test_a_guest_that_hung_in_its_turn_is_read_again_once_it_can_be(
    never: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    one = Domain(1)
    host = Host(one, timeout=SHORT)
    host.look()
    good, one.xml = one.xml, never.wait
    host.now += 60
    host.look()
    assert "it counts as it was last read" in caplog.text
    one.xml = str(good).replace(">4<", ">2<")
    never.set()
    assert wait_until(lambda: host.look()[0].vcpus == 2)


def test_who_has_been_left_reads_nothing_more(never: threading.Event) -> None:
    one, two, three = Domain(1), Domain(2), Domain(3)
    host = Host(one, two, three, timeout=1)
    first, descriptions = set[int](), [one.xml, two.xml, three.xml]

    def hangs() -> str:
        first.add(threading.get_ident())
        never.wait()
        return str(descriptions[0])

    def frees_the_first() -> str:
        never.set()
        wait_until(lambda: three.reads, 0.3)
        return str(descriptions[1])

    def xml() -> str:
        assert threading.get_ident() not in first
        return str(descriptions[2])

    one.xml, two.xml, three.xml = hangs, frees_the_first, xml
    assert host.names() == [2, 3]
    assert three.reads == 1


def test_what_a_guest_said_too_late_does_not_count(never: threading.Event) -> None:
    one = Domain(1)
    host = Host(one, timeout=SHORT)
    (before,) = host.look()
    old = one.xml.replace(">4<", ">1<")

    def late() -> str:
        never.wait()
        return str(old)

    new, one.xml = one.xml, late
    host.daemon.send_event("guests", LIFECYCLE, one)
    host.look()
    one.xml = new
    never.set()
    assert wait_until(lambda: host.look() and one.reads == 3)
    assert host.look() == [before]


def test_with_many_guests_that_hang_the_look_fails(never: threading.Event) -> None:
    domains = [Domain(number, xml=never.wait) for number in range(1, 9)]
    host = Host(*domains, timeout=SHORT)
    with pytest.raises(DriverHung, match="a guest has not answered"):
        host.look()
    assert sum(reads(*domains)) == 4


def test_a_daemon_that_hangs_is_told_from_a_guest(never: threading.Event) -> None:
    one, two = Domain(1, xml=never.wait), Domain(2)
    host = Host(one, two, timeout=SHORT)
    host.daemon.answers["getHostname"] = Error(1, "the daemon itself")
    with pytest.raises(DriverUnavailable, match="the daemon itself"):
        host.look()


def cells(*cpus: set[int]) -> HostCells:
    numa = NUMATopology(
        [NUMACell(id=n, memory=1024, cpuset=each, pcpuset=each) for n, each in enumerate(cpus)]
    )
    return HostCells(numa, {cell.id: frozenset(cell.cpuset) for cell in numa.cells})


def test_guests_are_placed_on_the_cells_of_their_host() -> None:
    pinned, floating = Domain(1, xml=a_domain(PINNED)), Domain(2)
    host = Host(pinned, floating)
    assert [guest.numa for guest in host.look(None)] == [None, None]
    one = cells({4, 5}, {6, 7})
    (first, second) = host.look(one)
    assert first.numa is not None
    assert [cell.id for cell in first.numa.cells] == [0]
    again = host.look(one)
    assert (again[0] is first, again[1] is second) == (True, True)
    # Equal cells change nothing, other ones do.
    assert host.look(cells({4, 5}, {6, 7}))[0] is first
    moved = host.look(cells({6, 7}, {4, 5}))[0].numa
    assert moved is not None
    assert [cell.id for cell in moved.cells] == [1]
    assert pinned.reads == 1


def test_disks_and_memory_of_the_last_look() -> None:
    one = Domain(1, xml=a_domain(devices=DISK.format("a") + DISK.format("b")))
    two = Domain(2, state=5)
    host = Host(one, two)
    assert (host.guests.looked, host.guests.disks) == (False, [])
    host.look()
    assert host.guests.looked
    assert [(disk.path, disk.format) for disk in host.guests.disks] == [
        ("/d/a", "qcow2"),
        ("/d/b", "qcow2"),
    ]
    assert host.guests.running_mb == 4096
