# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever the daemon does, a call ends in time, and the connection heals."""

import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from compute_agent.virt.driver import DriverHung, DriverMisconfigured, DriverUnavailable
from compute_agent.virt.libvirt import connection
from compute_agent.virt.libvirt.connection import Connection, SerialWorker
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.session import Timeouts, ask
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Error

SHORT = 0.1


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon(getHostname="vm")
    yield made
    made.thaw()


def connect(daemon: Daemon, answer: float = PATIENCE, slow_answer: float = PATIENCE) -> Connection:
    events = Events(daemon.library, lambda: None)
    return Connection(daemon.library, "test:///x", Timeouts(answer, slow_answer, 5, 2), events)


def hostname(link: Connection) -> str:
    return link.call(lambda each: str(each.getHostname()))


def connected(daemon: Daemon, answer: float, slow_answer: float = PATIENCE) -> Connection:
    """Return a connection that has been used; calls have so much time from now on."""
    link = connect(daemon)
    hostname(link)
    link._timeouts = Timeouts(answer, slow_answer)
    return link


def answers(link: Connection) -> bool:
    try:
        return hostname(link) == "vm"
    except DriverUnavailable:
        return False


def native_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "libvirt"}


def test_one_connection_serves_all_calls(daemon: Daemon) -> None:
    link = connect(daemon)
    assert hostname(link) == "vm"
    opening = link.opening
    assert [hostname(link) for _ in range(3)] == ["vm"] * 3
    assert link.call(lambda each: each.getHostname(), slow=True) == "vm"
    assert len(daemon.links) == 1
    assert link.opening is opening


def test_nothing_is_connected_before_the_first_call(daemon: Daemon) -> None:
    connect(daemon)
    assert (daemon.links, daemon.loops) == ([], 0)


def test_calls_run_in_another_thread(daemon: Daemon) -> None:
    other = connect(daemon).call(lambda _: threading.get_native_id())
    assert other != threading.get_native_id()


def test_the_loop_runs_before_the_first_connection_and_once(daemon: Daemon) -> None:
    loops: list[int] = []
    library = daemon.library
    opened = library.openReadOnly

    def opens(uri: str) -> object:
        loops.append(daemon.loops)
        return opened(uri)

    library.openReadOnly = opens  # type: ignore[attr-defined]
    events = Events(library, lambda: None)
    link = Connection(library, "test:///x", Timeouts(PATIENCE, PATIENCE), events)
    assert [hostname(link) for _ in range(3)] == ["vm"] * 3
    assert (loops, daemon.loops) == ([1], 1)


def test_signs_of_life_are_asked_for(daemon: Daemon) -> None:
    hostname(connect(daemon))
    assert daemon.links[0].keepalive == (5, 2)


def test_a_daemon_that_gives_no_signs_of_life_serves_as_well(daemon: Daemon) -> None:
    daemon.hears = set()
    assert hostname(connect(daemon)) == "vm"
    assert daemon.links[0].keepalive is None


def test_no_signs_of_life_are_asked_for_if_so_configured(daemon: Daemon) -> None:
    events = Events(daemon.library, lambda: None)
    hostname(Connection(daemon.library, "test:///x", Timeouts(PATIENCE, PATIENCE, 0, 2), events))
    assert daemon.links[0].keepalive is None


def test_a_daemon_that_is_not_there_is_said_to_be(daemon: Daemon) -> None:
    daemon.running = False
    with pytest.raises(DriverUnavailable, match=r"no connection to libvirt at test:///x.*daemon"):
        hostname(connect(daemon))


def test_a_dead_connection_is_replaced_at_the_next_call(daemon: Daemon) -> None:
    link = connect(daemon)
    hostname(link)
    opening = link.opening
    daemon.die()
    with pytest.raises(DriverUnavailable, match=r"no connection .* Connection refused"):
        hostname(link)
    daemon.running = True
    assert hostname(link) == "vm"
    assert link.opening is not opening
    # Which it is only if nobody was left to call back.
    assert [each.closed for each in daemon.links] == [True, False]


def test_a_connection_that_dies_in_a_call_is_replaced(daemon: Daemon) -> None:
    link = connect(daemon)
    hostname(link)
    daemon.answers["getInfo"] = daemon.die
    with pytest.raises(DriverUnavailable, match=r"no connection .* socket is closed"):
        link.call(lambda each: (each.getInfo(), each.getHostname()))
    daemon.running = True
    assert hostname(link) == "vm"
    assert len(daemon.links) == 2


def test_an_error_of_one_call_leaves_a_living_connection(daemon: Daemon) -> None:
    link = connect(daemon)
    daemon.answers["getHostname"] = Error(NO_SUPPORT, "this function is not supported")
    with pytest.raises(DriverUnavailable, match="failed: this function is not supported"):
        hostname(link)
    daemon.answers["getHostname"] = "vm"
    assert hostname(link) == "vm"
    assert len(daemon.links) == 1


def test_an_error_without_a_code_is_survived(daemon: Daemon) -> None:
    daemon.answers["getHostname"] = Error(None, "cause is\nunknown")
    with pytest.raises(DriverUnavailable, match="cause is unknown"):
        hostname(connect(daemon))


def test_a_connection_that_cannot_tell_whether_it_lives_is_dead(daemon: Daemon) -> None:
    link = connect(daemon)
    hostname(link)

    def unsure() -> int:
        raise Error(6, "invalid connection pointer")

    daemon.links[0].isAlive = unsure  # type: ignore[method-assign]
    assert hostname(link) == "vm"
    assert len(daemon.links) == 2


def test_what_a_hypervisor_has_no_answer_to_is_answered_otherwise(daemon: Daemon) -> None:
    daemon.answers["getCPUMap"] = Error(NO_SUPPORT, "this function is not supported")
    link = connect(daemon)
    library = daemon.library
    assert link.call(lambda each: ask(library, each, each.getCPUMap, "none")) == "none"
    assert link.call(lambda each: ask(library, each, each.getHostname, "none")) == "vm"
    daemon.answers["getInfo"] = daemon.die
    with pytest.raises(DriverUnavailable, match="socket is closed"):
        link.call(lambda each: (each.getInfo(), ask(library, each, each.getCPUMap, "none")))


@pytest.mark.parametrize("opened", [True, False], ids=["in a call", "while it opens"])
def test_a_frozen_daemon_hangs_one_thread_and_nobody_else(daemon: Daemon, opened: bool) -> None:
    link = connected(daemon, SHORT) if opened else connect(daemon, SHORT)
    daemon.freeze()
    before = native_threads()
    with pytest.raises(DriverHung, match=r"libvirt at test:///x has not answered for 0.1 s"):
        hostname(link)
    for _ in range(5):
        with pytest.raises(DriverHung):
            hostname(link)
    assert len(native_threads() - before) == 1


def test_while_a_call_hangs_the_next_ones_fail_at_once(daemon: Daemon) -> None:
    link = connect(daemon, 1)
    daemon.freeze()
    with pytest.raises(DriverHung):
        hostname(link)
    # It is told how long the first one has waited, and would have waited longer itself.
    with pytest.raises(DriverHung, match="for 1 s"):
        link.call(lambda each: each.getHostname(), slow=True)


def test_a_dear_question_may_take_longer(daemon: Daemon) -> None:
    link = connected(daemon, SHORT, PATIENCE)
    daemon.freeze()
    threading.Timer(5 * SHORT, daemon.thaw).start()
    assert link.call(lambda each: each.getHostname(), slow=True) == "vm"
    link = connected(daemon, PATIENCE, SHORT)
    daemon.freeze()
    with pytest.raises(DriverHung, match=r"for 0\.1 s"):
        link.call(lambda each: each.getHostname(), slow=True)


def test_a_daemon_that_hung_goes_on_with_its_connection(daemon: Daemon) -> None:
    link = connected(daemon, SHORT)
    daemon.freeze()
    with pytest.raises(DriverHung):
        hostname(link)
    daemon.thaw()
    assert wait_until(lambda: answers(link))
    assert [each.closed for each in daemon.links] == [False]


def test_a_call_that_never_returns_is_given_up(daemon: Daemon) -> None:
    link = connected(daemon, SHORT)
    never, before = threading.Event(), native_threads()
    started = time.monotonic()
    with pytest.raises(DriverHung):
        link.call(lambda _: never.wait())
    # The connection of that call may be at fault.
    assert wait_until(lambda: answers(link))
    assert time.monotonic() - started >= connection.GIVE_UP_AFTER * SHORT
    assert len(daemon.links) == 2
    assert wait_until(lambda: len(native_threads() - before) == 1)
    never.set()
    assert wait_until(lambda: daemon.links[0].closed)
    assert not daemon.links[1].closed
    assert wait_until(lambda: answers(link))


def test_each_call_that_is_given_up_makes_the_next_one_wait_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: now))
    worker, never, before = SerialWorker("the test", SHORT), threading.Event(), native_threads()
    for hopeless in (10 * SHORT, 20 * SHORT, 40 * SHORT):
        with pytest.raises(DriverHung):
            worker.run(never.wait)
        now += 0.99 * hopeless
        assert not worker.give_up()
        now += 0.02 * hopeless
        assert worker.give_up()
    never.set()
    assert wait_until(lambda: native_threads() <= before)
    # With what was given up over and done with, all is as it was.
    again = threading.Event()
    with pytest.raises(DriverHung):
        worker.run(again.wait)
    now += 10.1 * SHORT
    assert worker.give_up()
    again.set()
    assert worker.run(lambda: 42) == 42
    assert not worker.give_up()


def test_close_frees_who_waits(daemon: Daemon) -> None:
    link = connect(daemon, 600)
    daemon.freeze()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            hostname(link)
        except DriverUnavailable as error:
            errors.append(error)

    before = native_threads()
    thread = threading.Thread(target=ask)
    thread.start()
    assert wait_until(lambda: native_threads() - before)
    link.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert [str(error) for error in errors] == [
        "libvirt at test:///x is closed: the agent is stopping"
    ]
    with pytest.raises(DriverUnavailable, match="is closed"):
        hostname(link)


def test_close_closes_the_connection(daemon: Daemon) -> None:
    link = connect(daemon)
    hostname(link)
    link.close()
    assert wait_until(lambda: daemon.links[0].closed)


def test_close_does_not_wait_for_a_daemon_that_hangs(daemon: Daemon) -> None:
    link = connected(daemon, SHORT)
    daemon.freeze()
    with pytest.raises(DriverHung):
        hostname(link)
    link.close()
    # A thread is using it.
    assert not daemon.links[0].closed


def test_a_worker_returns_and_raises_what_its_work_does() -> None:
    worker = SerialWorker("the test", PATIENCE)
    assert worker.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 // 0)
    assert worker.run(lambda: None) is None


def test_a_worker_keeps_nothing_of_what_it_returned() -> None:
    class Found:
        pass

    worker = SerialWorker("the test", PATIENCE)
    found = weakref.ref(worker.run(Found))
    assert found() is None


def test_a_worker_that_was_left_takes_another_call() -> None:
    worker, never = SerialWorker("the test", SHORT), threading.Event()
    worker.abandon()
    with pytest.raises(DriverHung):
        worker.run(never.wait)
    worker.abandon()
    assert worker.run(lambda: 42) == 42
    never.set()


def test_a_worker_forgets_calls_that_it_abandoned_and_that_have_ended() -> None:
    worker = SerialWorker("the test", SHORT)
    for _ in range(3):
        never = threading.Event()
        with pytest.raises(DriverHung):
            worker.run(never.wait)
        worker.abandon()
        (left,) = worker._abandoned
        never.set()
        assert wait_until(lambda left=left: left.finished)  # type: ignore[misc]


def test_without_a_thread_a_call_fails_and_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_work: object) -> None:
        raise RuntimeError("can't start new thread")

    worker = SerialWorker("the test", PATIENCE)
    with monkeypatch.context() as patched:
        patched.setattr(connection, "_start", refuse)
        with pytest.raises(DriverUnavailable, match="new thread"):
            worker.run(lambda: 42)
    assert worker.run(lambda: 42) == 42


def test_close_in_the_last_moment_before_a_call_starts_nothing() -> None:
    worker, started = SerialWorker("the test", PATIENCE), threading.Event()

    refuse = worker._refuse

    def close_after() -> None:
        refuse()
        worker.close()

    worker._refuse = close_after  # type: ignore[method-assign]
    with pytest.raises(DriverUnavailable, match="is closed"):
        worker.run(started.set)
    assert not started.is_set()


def test_a_missing_library_is_reported_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    # None is Python's own way of saying that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(DriverMisconfigured, match=r"pip install 'berthmaster\[libvirt\]'.*pkg-con"):
        connection.library()
