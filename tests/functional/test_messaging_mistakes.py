# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of messaging with which nothing can be sent end a program with one line; TLS works."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inventory.engine import Database
from tests.backends import backends_alike
from tests.fixtures.daemons.process import Process
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.daemons.tls_rabbitmq import TlsRabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log

FAKE = {"compute_driver": "fake"}
RABBIT = "oslo_messaging_rabbit"
URLS = [
    ("rabbits://guest:secret@127.0.0.1:5672/", "'rabbits'"),
    ("rabbit://guest:secret@127.0.0.1:port/", "cannot be read as a URL"),
    (
        "rabbit://guest:secret@127.0.0.1:99999/",
        "port 99999 of host '127.0.0.1' is not a number from 1 to",
    ),
    ("", "does not begin with a scheme"),
    ("rabbit://guest:Top@secret@127.0.0.1:5672/", "@ as %40"),
]
# One of a kind is enough to see how a program ends: unit tests read all of them.
matrix = partial(pytest.param, marks=pytest.mark.matrix)
# They share what refuses a password and an account.
PROGRAMS = ["berthmaster-scheduler", matrix("berthmaster-agent")]
DATABASE = "mysql+pymysql://nova:Top@secret99@127.0.0.1/nova"


def _refused(process: Process, program: str) -> str:
    """Return the one line with which a daemon has ended."""
    assert process.wait() == 1
    log = process.log.read_text()
    assert "Traceback" not in log
    assert "secret" not in log
    (line,) = [each for each in log.splitlines() if each.startswith(f"{program}: ")]
    assert "Starting as host" not in log
    return line


def _start(deployment: Deployment, program: str, options: dict[str, Any], backend: str) -> Process:
    """Start a daemon that is not expected to get far."""
    return deployment._start(program, "refused", backend, options, None)


@pytest.mark.parametrize(
    ("program", "backend", "url", "expected"),
    [
        ("berthmaster-scheduler", "threading", *URLS[0]),
        matrix("berthmaster-scheduler", "eventlet", *URLS[1]),
        matrix("berthmaster-scheduler", "threading", *URLS[2]),
        matrix("berthmaster-scheduler", "eventlet", *URLS[3]),
        matrix("berthmaster-scheduler", "eventlet", *URLS[4]),
        ("berthmaster-agent", "eventlet", *URLS[0]),
        matrix("berthmaster-agent", "threading", *URLS[4]),
        matrix("berthmaster-agent", "threading", *URLS[2]),
    ],
)
def test_a_daemon_ends_over_a_transport_url_of_no_use(
    deployment: Deployment, backend: str, program: str, url: str, expected: str
) -> None:
    process = _start(deployment, program, {"DEFAULT": FAKE | {"transport_url": url}}, backend)
    line = _refused(process, program)
    assert "option [DEFAULT] transport_url in " in line
    assert expected in line


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_daemon_ends_over_a_password_that_is_not_encoded(
    deployment: Deployment, program: str
) -> None:
    options = {"DEFAULT": FAKE, "database": {"connection": DATABASE}}
    line = _refused(_start(deployment, program, options, "threading"), program)
    assert "option [database] connection in " in line
    assert "@ as %40" in line


def test_the_command_ends_over_a_password_that_is_not_encoded(deployment: Deployment) -> None:
    options = {"database": {"connection": DATABASE}}
    deployment.config = deployment.write_config("command", options)
    for command in (["host", "list"], ["db", "version"], ["db", "sync"]):
        done = deployment.cli(*command)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("berthmaster: option [database] connection in ")
        assert "secret" not in line


@pytest.mark.parametrize(("url", "expected"), [*URLS[1:3], URLS[4]])
def test_the_command_names_a_transport_url_of_no_use(
    deployment: Deployment, database: Database, url: str, expected: str
) -> None:
    a_fleet(database, ["compute1"])
    options = {"DEFAULT": {"transport_url": url}}
    deployment.config = deployment.write_config("command", options)
    for command in (["select"], ["host", "power", "compute1", "reboot"]):
        done = deployment.cli(*command)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("option [DEFAULT] transport_url in ")
        assert expected in line
        assert "secret" not in line


@pytest.mark.parametrize(
    ("group", "option", "value"),
    [
        (RABBIT, "heartbeat_timeout_threshold", "soon"),
        matrix(RABBIT, "heartbeat_rate", "0"),
        matrix("DEFAULT", "executor_thread_pool_size", "0"),
        matrix("oslo_messaging_notifications", "transport_url", "rabbits://u:secret@127.0.0.1/"),
    ],
)
def test_a_value_of_no_use_ends_a_scheduler(
    deployment: Deployment, group: str, option: str, value: str
) -> None:
    program = "berthmaster-scheduler"
    line = _refused(_start(deployment, program, {group: {option: value}}, "threading"), program)
    assert f"option [{group}] {option}" in line


@backends_alike
def test_what_only_the_driver_notices_ends_a_scheduler_as_well(
    deployment: Deployment, backend: str
) -> None:
    options = {RABBIT: {"rabbit_stream_fanout": "true", "rabbit_transient_quorum_queue": "false"}}
    process = _start(deployment, "berthmaster-scheduler", options, backend)
    assert process.wait() == 1
    (line,) = [each for each in process.log.read_text().splitlines() if " ERROR " in each]
    assert (
        "Cannot start: options of [oslo_messaging_rabbit]: Configuration Error: rabbit_str" in line
    )


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsRabbitMQ]:
    with TlsRabbitMQ(tmp_path_factory.mktemp("tls")) as broker:
        yield broker


@backends_alike
def test_all_programs_speak_tls(
    deployment: Deployment, database: Database, tls_broker: TlsRabbitMQ, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    secured: dict[str, dict[str, Any]] = {
        "DEFAULT": FAKE | {"transport_url": tls_broker.tls_url},
        RABBIT: {"ssl": True, "ssl_ca_file": tls_broker.authority.ca_file},
    }
    deployment.scheduler(backend, secured)
    wait_for_log(deployment.agent(backend, secured), "Listening as compute")
    deployment.config = deployment.write_config("command", secured)
    assert deployment.cli_json("select")


@backends_alike
def test_a_file_for_tls_that_is_not_there_is_named(
    deployment: Deployment, tmp_path: Path, backend: str
) -> None:
    absent = tmp_path / "absent.pem"
    options = {RABBIT: {"ssl": "true", "ssl_ca_file": absent}, "DEFAULT": FAKE}
    line = _refused(_start(deployment, "berthmaster-agent", options, backend), "berthmaster-agent")
    assert f"option [{RABBIT}] ssl_ca_file = {absent} in " in line
    assert line.endswith(": cannot be read: No such file or directory")


@pytest.mark.parametrize("program", PROGRAMS)
@backends_alike
def test_a_wrong_account_is_logged_with_its_address_and_without_its_password(
    deployment: Deployment, rabbitmq: RabbitMQ, program: str, backend: str
) -> None:
    url = f"rabbit://stranger:secret@127.0.0.1:{rabbitmq.port}/"
    process = _start(deployment, program, {"DEFAULT": FAKE | {"transport_url": url}}, backend)
    expected = f"refuses the account 'stranger' at 127.0.0.1:{rabbitmq.port}"
    wait_for_log(process, expected)
    log = process.log.read_text()
    assert "Traceback" not in log
    assert "secret" not in log
    refused = [each for each in log.splitlines() if "Login was refused" in each]
    assert all(expected in each and "[DEFAULT] transport_url in " in each for each in refused)


def test_the_command_tells_so_of_a_wrong_account(
    deployment: Deployment, database: Database, rabbitmq: RabbitMQ
) -> None:
    a_fleet(database, ["compute1"])
    url = f"rabbit://stranger:secret@127.0.0.1:{rabbitmq.port}/nowhere"
    deployment.config = deployment.write_config("command", {"DEFAULT": {"transport_url": url}})
    for command in (["select"], ["host", "power", "compute1", "reboot"]):
        done = deployment.cli(*command)
        assert done.returncode == 1
        assert f"refuses the account 'stranger' at 127.0.0.1:{rabbitmq.port}" in done.stderr
        assert "secret" not in done.stderr
