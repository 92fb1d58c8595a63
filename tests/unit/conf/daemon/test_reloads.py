# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.reloads: none is lost, two never run at a time, none after the stop."""

import signal
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from conf.daemon.reloads import Reloads
from tests.fixtures.daemons.process import PATIENCE


@pytest.fixture(autouse=True)
def signal_mask() -> Iterator[None]:
    """Put back what a stop changes for this thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def made(reload: Callable[[], None]) -> Reloads:
    """Return reloads that are requested by the test alone."""
    reloads = Reloads(reload)
    reloads.takes_signals = False
    return reloads


def test_what_is_requested_before_the_start_and_during_a_reload_is_done() -> None:
    begun, may_end = SimpleQueue[int](), SimpleQueue[int]()

    def reload() -> None:
        begun.put(1)
        may_end.get(timeout=PATIENCE)

    reloads = made(reload)
    reloads.request()
    reloads.start()
    begun.get(timeout=PATIENCE)
    reloads.request()
    may_end.put(1)
    begun.get(timeout=PATIENCE)
    may_end.put(1)
    reloads.stop()


def test_one_that_fails_is_logged_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    begun = SimpleQueue[int]()

    def reload() -> None:
        begun.put(1)
        raise KeyError("a plug-in's own")

    reloads = made(reload)
    reloads.start()
    for _ in range(2):
        reloads.request()
        begun.get(timeout=PATIENCE)
    reloads.stop()
    assert caplog.messages == ["The reload failed"] * 2


def test_a_stop_waits_for_the_one_under_way_and_is_followed_by_none() -> None:
    begun, may_end, done = Event(), Event(), list[str]()

    def reload() -> None:
        begun.set()
        may_end.wait(PATIENCE)
        done.append("reload")

    reloads = made(reload)
    reloads.start()
    reloads.request()
    begun.wait(PATIENCE)
    stopping = Thread(target=lambda: (reloads.stop(), done.append("stop")))
    stopping.start()
    reloads.request()
    may_end.set()
    stopping.join(PATIENCE)
    assert done[-1] == "stop"
