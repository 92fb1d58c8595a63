# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.systemd with a real socket in systemd's place."""

import socket
from contextlib import suppress

import pytest

from conf.daemon.systemd import Notifier
from tests.fixtures.daemons.process import PATIENCE


class Systemd:
    """Receives what services send."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(PATIENCE)

    def received(self):
        return self.socket.recv(4096).decode()


@pytest.fixture
def systemd(tmp_path):
    manager = Systemd(str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


@pytest.fixture
def environ(tmp_path, systemd):
    return {"NOTIFY_SOCKET": str(tmp_path / "notify"), "HOME": "/"}


def test_states_are_sent_as_they_come(systemd, environ):
    notifier = Notifier(environ)
    notifier.ready("serving")
    with suppress(ZeroDivisionError), notifier.reloading("serving again"):
        raise ZeroDivisionError
    notifier.stopping()
    assert [systemd.received() for _ in range(4)] == [
        "READY=1\nSTATUS=serving",
        "RELOADING=1",
        "READY=1\nSTATUS=serving again",
        "STOPPING=1",
    ]


def test_the_variable_is_taken_away_from_libraries(environ):
    Notifier(environ)
    assert environ == {"HOME": "/"}


def test_the_abstract_namespace():
    name = "berthmaster-test-of-systemd"
    manager = Systemd("\0" + name)
    try:
        Notifier({"NOTIFY_SOCKET": "@" + name}).ready("here")
        assert manager.received() == "READY=1\nSTATUS=here"
    finally:
        manager.socket.close()


def test_without_systemd_nothing_happens():
    notifier = Notifier({"WATCHDOG_USEC": "1000"})
    notifier.ready("serving")
    notifier.watch(lambda: pytest.fail("asked"))
    notifier.stopping()


def test_a_manager_that_went_away_is_no_reason_to_stop(systemd, environ, tmp_path):
    notifier = Notifier(environ)
    systemd.socket.close()
    (tmp_path / "notify").unlink()
    notifier.ready("serving")


def test_the_watchdog_is_fed_while_there_is_progress(systemd, environ):
    answers = iter([True, False, True])
    notifier = Notifier(environ | {"WATCHDOG_USEC": "30000"})
    asked = []

    def progressing():
        asked.append(next(answers, False))
        return asked[-1]

    notifier.watch(progressing)
    assert [systemd.received() for _ in range(2)] == ["WATCHDOG=1"] * 2
    assert asked[:3] == [True, False, True]
    notifier.stopping()
    assert systemd.received() == "STOPPING=1"


@pytest.mark.parametrize("microseconds", ["", "0"])
def test_a_unit_without_watchdog(systemd, environ, microseconds):
    notifier = Notifier(environ | {"WATCHDOG_USEC": microseconds})
    notifier.watch(lambda: pytest.fail("asked"))
    notifier.ready("serving")
    assert systemd.received() == "READY=1\nSTATUS=serving"
