# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A service that cannot start ends its daemon, once and in words; a later worker is let try."""

import logging
import os
import signal

import pytest

from conf.daemon import guarded
from conf.daemon.guarded import GuardedService

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


def in_a_child(service, *refusals):
    """Return the service as a worker has it that was forked."""
    found = GuardedService(service, *refusals)
    found._parent = PARENT
    return found


def test_it_does_what_the_service_does(signals, messages):
    service = Service()
    found = GuardedService(service, ValueError)
    for ask in (found.start, found.reset, found.stop, found.wait):
        ask()
    assert service.asked == ["start", "reset", "stop", "wait"]
    assert (found.lost, signals, messages()) == (False, [], [])


def test_a_rejected_reload_resets_nothing_and_is_logged_where_the_service_runs(signals, messages):
    service = Service()
    found = GuardedService(service, ValueError)
    found.rejection = lambda: "option [scheduler] workers = many"
    found.reset()
    assert messages() == []
    found.start()
    found.reset()
    (logged,) = messages()
    assert logged.endswith("keeping the current configuration: option [scheduler] workers = many")
    assert service.asked == ["start"]


def test_a_reload_that_comes_while_the_service_starts_is_not_lost(signals, messages):
    class Starting(Service):
        def start(self):
            super().start()
            found.reset()

    service = Starting()
    found = GuardedService(service, ValueError)
    found.start()
    assert service.asked == ["start", "reset"]


def test_in_one_process_the_end_is_an_exit(signals, messages):
    found = GuardedService(Service(ValueError("no\n  good")), ValueError)
    with pytest.raises(SystemExit) as end:
        found.start()
    assert (end.value.code, found.lost, signals) == (1, True, [])
    assert messages() == ["Cannot start: no good"]


def test_a_worker_ends_its_parent_and_others_are_silent(signals, messages):
    service = Service(ValueError("no good"))
    found = in_a_child(service, ValueError)
    for _ in range(3):
        with pytest.raises(SystemExit):
            found.start()
    assert signals == [(PARENT, signal.SIGTERM)]
    assert messages() == ["Cannot start: no good"]
    # The last ones have not tried.
    assert service.asked == ["start"]


def test_of_workers_that_fail_at_the_same_moment_one_signals(signals, messages):
    found = in_a_child(Service(ValueError("no good")), ValueError)
    for _ in range(2):
        # The other one has looked before there was anything to see.
        found._shared[guarded._LOST] = 0
        with pytest.raises(SystemExit):
            found.start()
    assert signals == [(PARENT, signal.SIGTERM)]
    assert messages() == ["Cannot start: no good"]


def test_an_unexpected_error_is_logged_with_its_traceback(signals, messages, caplog):
    with pytest.raises(SystemExit):
        in_a_child(Service(KeyError("x")), ValueError).start()
    assert messages() == ["Cannot start: 'x'"]
    assert "Traceback (most recent call last):" in caplog.text
    assert "KeyError: 'x'" in caplog.text


def test_where_others_have_served_only_the_worker_ends(signals, messages):
    service = Service()
    found = in_a_child(service, ValueError)
    found.start()
    service.error = ValueError("gone")
    with pytest.raises(SystemExit):
        found.start()
    assert (found.lost, signals, messages()) == (False, [], ["Cannot start: gone"])
    service.error = None
    found.start()


def test_processes_share_what_has_become_of_it(signals):
    found = GuardedService(Service(), ValueError)
    child = os.fork()
    if not child:
        found._shared[1] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert found.lost
