# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits long is told that its call is being handled, until it is answered."""

import logging
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from scheduler.rpc import signs_of_life
from scheduler.rpc.signs_of_life import SignsOfLife
from tests.fixtures.daemons.process import wait_until

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(signs_of_life, "LOOK", 0.005)
    monkeypatch.setattr(signs_of_life, "SHORTEST", 0.0)


def a_message(patience, heartbeat=None):
    told = []
    beat = heartbeat or (lambda: told.append(1))
    return SimpleNamespace(client_timeout=patience, heartbeat=beat, told=told)


def test_a_caller_is_told_again_and_again_and_not_after_the_end():
    message = a_message(0)
    with SignsOfLife().given(message):
        assert wait_until(lambda: len(message.told) >= 3, PATIENCE)
        assert message.client_timeout is None
    told = len(message.told)
    other = a_message(0)
    with SignsOfLife().given(other):
        assert wait_until(lambda: len(other.told) >= 3, PATIENCE)
    assert len(message.told) == told


def test_a_caller_is_told_by_half_of_its_patience():
    patient, message = a_message(3600), a_message(0)
    signs = SignsOfLife()
    with signs.given(patient), signs.given(message):
        assert wait_until(lambda: len(message.told) >= 3, PATIENCE)
    assert patient.told == []


def test_one_that_cannot_be_told_is_left_alone_and_holds_up_nobody(caplog):
    caplog.set_level(logging.DEBUG, signs_of_life.__name__)
    tried, stuck = [], Event()

    def fails():
        tried.append(1)
        raise OSError("no queue")

    gone, slow, message = a_message(0, fails), a_message(0, stuck.wait), a_message(0)
    signs = SignsOfLife()
    with signs.given(gone), signs.given(slow), signs.given(message):
        assert wait_until(lambda: len(message.told) >= 5, PATIENCE)
        stuck.set()
    assert tried == [1]
    assert caplog.messages == ["No more signs of life for a caller: no queue"]


def test_who_is_being_told_is_not_told_once_more():
    tried, stuck = [], Event()

    def hangs():
        tried.append(1)
        stuck.wait()

    slow, message = a_message(0, hangs), a_message(0)
    signs = SignsOfLife()
    with signs.given(slow), signs.given(message):
        assert wait_until(lambda: len(message.told) >= 5, PATIENCE)
        stuck.set()
    # The second one may just have begun.
    assert 1 <= len(tried) <= 2


def test_signs_go_on_after_a_moment_without_room_for_threads(monkeypatch):
    started, fails = Thread.start, [True, True]

    def start(thread):
        if thread.name == "signs-of-life" and fails:
            fails.pop()
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(Thread, "start", start)
    signs = SignsOfLife()
    with signs.given(a_message(0)):
        pass
    message = a_message(0)
    with signs.given(message), signs.given(a_message(0)):
        assert wait_until(lambda: len(message.told) >= 3, PATIENCE)
    assert not fails


def test_an_error_goes_on_to_whoever_is_concerned():
    message = a_message(0)
    with pytest.raises(ZeroDivisionError), SignsOfLife().given(message):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "patience", [None, [], {"a": 1}, float("inf"), "x", "\ud800", -5, 1, 1.5, True]
)
def test_a_period_that_nobody_can_wait_for(monkeypatch, patience):
    monkeypatch.setattr(signs_of_life, "SHORTEST", 1.0)
    assert signs_of_life._period(patience) is None


@pytest.mark.parametrize(("patience", "period"), [(2, 1), ("60", 30), (60.9, 30), (10**30, 5e29)])
def test_a_period(patience, period):
    assert signs_of_life._period(patience) == period
