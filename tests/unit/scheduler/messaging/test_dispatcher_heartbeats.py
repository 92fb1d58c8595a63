# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A caller gets heartbeats until its call is answered."""

import logging
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from scheduler.messaging import dispatcher
from scheduler.messaging.dispatcher import CallHeartbeats
from tests.fixtures.daemons.process import wait_until


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(dispatcher, "LOOK", 0.005)
    monkeypatch.setattr(dispatcher, "SHORTEST", 0.0)


def a_message(timeout, heartbeat=None):
    sent = []
    beat = heartbeat or (lambda: sent.append(1))
    return SimpleNamespace(client_timeout=timeout, heartbeat=beat, sent=sent)


def test_a_caller_gets_heartbeats_until_the_end():
    message = a_message(0)
    with CallHeartbeats().during(message):
        assert wait_until(lambda: len(message.sent) >= 3)
        assert message.client_timeout is None
    sent = len(message.sent)
    other = a_message(0)
    with CallHeartbeats().during(other):
        assert wait_until(lambda: len(other.sent) >= 3)
    assert len(message.sent) == sent


def test_heartbeats_come_after_half_of_the_timeout():
    slower, message = a_message(3600), a_message(0)
    heartbeats = CallHeartbeats()
    with heartbeats.during(slower), heartbeats.during(message):
        assert wait_until(lambda: len(message.sent) >= 3)
    assert slower.sent == []


def test_a_failing_heartbeat_ends_and_delays_no_others(caplog):
    caplog.set_level(logging.DEBUG, dispatcher.__name__)
    tried, stuck = [], Event()

    def fails():
        tried.append(1)
        raise OSError("no queue")

    gone, slow, message = a_message(0, fails), a_message(0, stuck.wait), a_message(0)
    heartbeats = CallHeartbeats()
    with heartbeats.during(gone), heartbeats.during(slow), heartbeats.during(message):
        assert wait_until(lambda: len(message.sent) >= 5)
        stuck.set()
    assert tried == [1]
    assert caplog.messages == ["Stopped call-monitor heartbeats for a caller: no queue"]


def test_a_hanging_heartbeat_is_not_followed_by_others():
    tried, stuck = [], Event()

    def hangs():
        tried.append(1)
        stuck.wait()

    slow, message = a_message(0, hangs), a_message(0)
    heartbeats = CallHeartbeats()
    with heartbeats.during(slow), heartbeats.during(message):
        assert wait_until(lambda: len(message.sent) >= 5)
        stuck.set()
    # The second one may just have begun.
    assert 1 <= len(tried) <= 2


def test_heartbeats_go_on_after_a_failure_to_start_threads(monkeypatch):
    started, fails = Thread.start, [True, True]

    def start(thread):
        if thread.name == "call-heartbeats" and fails:
            fails.pop()
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(Thread, "start", start)
    heartbeats = CallHeartbeats()
    with heartbeats.during(a_message(0)):
        pass
    message = a_message(0)
    with heartbeats.during(message), heartbeats.during(a_message(0)):
        assert wait_until(lambda: len(message.sent) >= 3)
    assert not fails


def test_an_error_of_the_call_is_raised():
    message = a_message(0)
    with pytest.raises(ZeroDivisionError), CallHeartbeats().during(message):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "timeout", [None, [], {"a": 1}, float("inf"), "x", "\ud800", -5, 1, 1.5, True]
)
def test_timeouts_without_heartbeats(monkeypatch, timeout):
    monkeypatch.setattr(dispatcher, "SHORTEST", 1.0)
    assert dispatcher.heartbeat_period(timeout) is None


@pytest.mark.parametrize(("timeout", "period"), [(2, 1), ("60", 30), (60.9, 30), (10**30, 5e29)])
def test_a_period(timeout, period):
    assert dispatcher.heartbeat_period(timeout) == period
