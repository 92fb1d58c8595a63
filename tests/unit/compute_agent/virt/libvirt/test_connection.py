# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever the daemon does, a call ends in time, and the connection heals."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from compute_agent.virt.driver import DriverHung, DriverMisconfigured, DriverUnavailable
from compute_agent.virt.libvirt import connection
from compute_agent.virt.libvirt.connection import Connection, Lane
from tests.fixtures.daemons.process import wait_until
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Error

SHORT = 0.05


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon(getHostname="vm")
    yield made
    made.thaw()


def connect(daemon: Daemon, timeout: float = 20) -> Connection:
    return Connection(daemon.library, "test:///x", timeout)


def hostname(link: Connection) -> str:
    return link.call(lambda each: str(each.getHostname()))


def native_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "libvirt"}


def test_one_connection_serves_all_calls(daemon: Daemon) -> None:
    link = connect(daemon)
    assert [hostname(link) for _ in range(3)] == ["vm"] * 3
    assert (len(daemon.links), link.openings) == (1, 1)


def test_nothing_is_connected_before_the_first_call(daemon: Daemon) -> None:
    link = connect(daemon)
    assert (daemon.links, link.openings) == ([], 0)


def test_calls_run_in_another_thread(daemon: Daemon) -> None:
    other = connect(daemon).call(lambda _: threading.get_native_id())
    assert other != threading.get_native_id()


def test_a_daemon_that_is_not_there_is_said_to_be(daemon: Daemon) -> None:
    daemon.running = False
    with pytest.raises(DriverUnavailable, match=r"no connection to libvirt at test:///x.*daemon"):
        hostname(connect(daemon))


def test_a_dead_connection_is_replaced(daemon: Daemon) -> None:
    link = connect(daemon)
    hostname(link)
    daemon.die()
    with pytest.raises(DriverUnavailable, match="socket is closed"):
        hostname(link)
    daemon.running = True
    assert hostname(link) == "vm"
    assert link.openings == 2
    assert daemon.links[0].closed


def test_an_error_of_one_call_leaves_a_living_connection(daemon: Daemon) -> None:
    link = connect(daemon)
    daemon.answers["getHostname"] = Error(NO_SUPPORT, "this function is not supported")
    with pytest.raises(DriverUnavailable, match="failed: this function is not supported"):
        hostname(link)
    daemon.answers["getHostname"] = "vm"
    assert hostname(link) == "vm"
    assert link.openings == 1


def test_an_error_without_a_code_is_survived(daemon: Daemon) -> None:
    daemon.answers["getHostname"] = Error(None, "cause is\nunknown")
    with pytest.raises(DriverUnavailable, match="cause is unknown"):
        hostname(connect(daemon))


@pytest.mark.parametrize("opened", [True, False], ids=["in a call", "while it opens"])
def test_a_frozen_daemon_hangs_one_thread_and_nobody_else(daemon: Daemon, opened: bool) -> None:
    link = connect(daemon, SHORT)
    if opened:
        hostname(link)
    daemon.freeze()
    before = native_threads()
    with pytest.raises(DriverHung, match=r"libvirt at test:///x has not answered for 0.05 s"):
        hostname(link)
    for _ in range(10):
        with pytest.raises(DriverHung):
            hostname(link)
    assert len(native_threads() - before) == 1


def test_while_a_call_hangs_the_next_ones_fail_at_once(daemon: Daemon) -> None:
    link = connect(daemon, 1)
    daemon.freeze()
    with pytest.raises(DriverHung):
        hostname(link)
    started = time.monotonic()
    with pytest.raises(DriverHung):
        hostname(link)
    assert time.monotonic() - started < 0.5


def test_after_a_hang_a_new_connection_is_opened(daemon: Daemon) -> None:
    link = connect(daemon, SHORT)
    hostname(link)
    daemon.freeze()
    with pytest.raises(DriverHung):
        hostname(link)
    daemon.thaw()

    def works() -> bool:
        try:
            return hostname(link) == "vm"
        except DriverHung:
            return False

    assert wait_until(works, 20)
    assert link.openings == 2
    assert [each.closed for each in daemon.links] == [True, False]


def test_close_frees_who_waits(daemon: Daemon) -> None:
    link = connect(daemon, 600)
    daemon.freeze()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            hostname(link)
        except DriverUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert wait_until(native_threads, 20)
    link.close()
    thread.join(20)
    assert not thread.is_alive()
    assert [str(error) for error in errors] == ["the agent is leaving libvirt at test:///x"]
    with pytest.raises(DriverUnavailable, match="leaving"):
        hostname(link)


def test_a_lane_returns_and_raises_what_its_work_does() -> None:
    lane = Lane("the test", 20)
    assert lane.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        lane.run(lambda: 1 // 0)
    assert lane.run(lambda: None) is None


def test_a_missing_library_is_reported_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    # None is Python's own way of saying that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(DriverMisconfigured, match=r"pip install 'berthmaster\[libvirt\]'.*pkg-con"):
        connection.library()
