# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The service can be stopped at any moment and tells systemd the truth."""

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from compute_agent.service import AgentService
from compute_agent.virt.fake import FakeDriver
from conf.daemon.systemd import Notifier
from inventory import services
from inventory.engine import Database
from tests.fixtures.daemons.process import PATIENCE, wait_until


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(os.fspath(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def service(conf: cfg.ConfigOpts, manager_socket: socket.socket) -> AgentService:
    notifier = Notifier({"NOTIFY_SOCKET": manager_socket.getsockname()})
    return AgentService(conf, FakeDriver(conf), notifier)


def test_a_service_that_never_started_can_be_stopped(service: AgentService) -> None:
    service.stop()
    service.stop()
    service.wait()


def test_ready_means_registered(
    service: AgentService,
    manager_socket: socket.socket,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    service.start()
    try:
        assert manager_socket.recv(100) == b"READY=1\nSTATUS=Host alpha"
        assert [row.host for row in database.read(services.all_live)] == ["alpha"]
        assert wait_until(lambda: "Made the first audit of alpha in " in caplog.text)
        service.reset()
    finally:
        service.stop()
    assert manager_socket.recv(100) == b"STOPPING=1"
    assert caplog.text.count("Made the first audit") == 1
    assert caplog.text.rstrip().endswith("Stopped")
    service.wait()


def test_making_a_service_connects_nothing(conf: cfg.ConfigOpts) -> None:
    conf.set_override("connection", "mysql+pymysql://nobody@127.0.0.1:1/none", group="database")
    AgentService(conf, FakeDriver(conf), Notifier({})).stop()
