# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A service that cannot start ends its daemon, once and in words; a later worker is let try."""

import logging
import os
import signal

import pytest

from conf.daemon import guarded
from conf.daemon.guarded import GuardedService
from tests.fixtures.daemons.process import wait_until

PARENT = 4711


class Service:
    """Does as it is told, and remembers it."""

    def __init__(self, error=None):
        self.error = error
        self.asked = []

    def start(self):
        self.asked.append("start")
        if self.error is not None:
            raise self.error

    def __getattr__(self, name):
        return lambda: self.asked.append(name)


@pytest.fixture
def signals(monkeypatch):
    """What was sent to whom."""
    sent = []
    monkeypatch.setattr(os, "kill", lambda *signalled: sent.append(signalled))
    return sent


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, guarded.__name__)
    return lambda: [each.getMessage() for each in caplog.records]


def guarded_service(service, problem=""):
    """Return the service as a single process has it, without signals; reloads find a problem."""
    found = GuardedService(service, lambda: problem, ValueError)
    found.reloads.takes_signals = False
    return found


def in_a_child(service):
    """Return the service as a worker has it that was forked."""
    found = guarded_service(service)
    found._parent = PARENT
    return found


def test_it_does_what_the_service_does(signals, messages):
    service = Service()
    found = guarded_service(service)
    for ask in (found.start, found.stop, found.wait):
        ask()
    assert service.asked == ["start", "stop", "wait"]
    assert (found.lost, signals, messages()) == (False, [], [])


def test_a_rejected_reload_resets_nothing_and_is_logged(signals, messages):
    service = Service()
    found = guarded_service(service, "option [scheduler] workers = many")
    found.start()
    found.reloads.request()
    assert wait_until(messages)
    (logged,) = messages()
    assert logged.endswith("keeping the current configuration: option [scheduler] workers = many")
    assert service.asked == ["start"]


def test_the_parent_of_workers_is_not_reset(signals, messages):
    service = Service()
    found = guarded_service(service)
    found.reset()
    assert (service.asked, messages()) == ([], [])


def test_a_reload_that_comes_while_the_service_starts_is_done_after_it(signals, messages):
    class Starting(Service):
        def start(self):
            found.reloads.request()
            super().start()

    service = Starting()
    found = guarded_service(service)
    found.start()
    assert wait_until(lambda: service.asked == ["start", "reset"])


def test_in_one_process_the_end_is_an_exit(signals, messages):
    found = guarded_service(Service(ValueError("no\n  good")))
    with pytest.raises(SystemExit) as end:
        found.start()
    assert (end.value.code, found.lost, signals) == (1, True, [])
    assert messages() == ["Cannot start: no good"]


def test_a_worker_ends_its_parent_and_others_are_silent(signals, messages):
    service = Service(ValueError("no good"))
    found = in_a_child(service)
    for _ in range(3):
        with pytest.raises(SystemExit):
            found.start()
    assert signals == [(PARENT, signal.SIGTERM)]
    assert messages() == ["Cannot start: no good"]
    # The last ones have not tried.
    assert service.asked == ["start"]


def test_of_workers_that_fail_at_the_same_moment_one_signals(signals, messages):
    found = in_a_child(Service(ValueError("no good")))
    for _ in range(2):
        # The other one has looked before there was anything to see.
        found._shared[guarded._LOST] = 0
        with pytest.raises(SystemExit):
            found.start()
    assert signals == [(PARENT, signal.SIGTERM)]
    assert messages() == ["Cannot start: no good"]


def test_an_unexpected_error_is_logged_with_its_traceback(signals, messages, caplog):
    with pytest.raises(SystemExit):
        in_a_child(Service(KeyError("x"))).start()
    assert messages() == ["Cannot start: 'x'"]
    assert "Traceback (most recent call last):" in caplog.text
    assert "KeyError: 'x'" in caplog.text


def test_where_others_have_served_only_the_worker_ends(signals, messages):
    service = Service()
    found = in_a_child(service)
    found.start()
    service.error = ValueError("gone")
    with pytest.raises(SystemExit):
        found.start()
    assert (found.lost, signals, messages()) == (False, [], ["Cannot start: gone"])
    service.error = None
    found.start()


def test_processes_share_what_has_become_of_it(signals):
    found = guarded_service(Service())
    child = os.fork()
    if not child:
        found._shared[1] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert found.lost
