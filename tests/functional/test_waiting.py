# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long a command waits for a scheduler, an agent and a broker, and what it says of that."""

import time
from collections.abc import Iterator

import pytest

from inventory.engine import Database
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet

SELECT = ["select", "--vcpus=1"]
POWER = ["host", "power", "compute1", "reboot"]
BROKEN = [
    SELECT,
    *(pytest.param(each, marks=pytest.mark.matrix) for each in ([*SELECT, "--dry-run"], POWER)),
]
NOBODY = {
    "a scheduler": "No scheduler answered within {} s: is berthmaster-scheduler running, on the"
    " same transport_url and control_exchange?",
    "the agent of compute1": "The agent 'compute1' has not answered within {} s: is"
    " berthmaster-agent running there, on the same transport_url and control_exchange?",
}
# Seconds in which a command has given up, also on a busy machine; rpc_response_timeout is 60.
SOON = 30.0
# How Nova's callers know the error.
FAILED = "Service is unavailable at this time. "
BROKER = (
    "The message broker of [DEFAULT] transport_url has not answered within {} s: check that it runs"
    " and can be reached from here, or wait longer with --timeout"
)


@pytest.fixture
def paused(rabbitmq: RabbitMQ, deployment: Deployment) -> Iterator[RabbitMQ]:
    """A broker that accepts connections and says nothing."""
    rabbitmq.pause()
    yield rabbitmq
    rabbitmq.resume()


def _refused(deployment: Deployment, *arguments: str) -> tuple[list[str], float]:
    """Return what a command that gives up says, and after how many seconds it has ended."""
    began = time.monotonic()
    done = deployment.cli(*arguments)
    assert (done.returncode, done.stdout) == (1, ""), done
    return done.stderr.splitlines(), time.monotonic() - began


@pytest.mark.parametrize(("command", "whom"), [*zip((SELECT, POWER), NOBODY, strict=True)])
def test_nobody_answers(
    deployment: Deployment, database: Database, command: list[str], whom: str
) -> None:
    a_fleet(database, ["compute1"])
    lines, took = _refused(deployment, *command, "--timeout=1.8")
    assert lines == [f"waiting for {whom} ...", FAILED + NOBODY[whom].format(1.8)]
    assert took < SOON


@pytest.mark.parametrize("command", BROKEN)
@pytest.mark.usefixtures("paused")
def test_the_broker_says_nothing(deployment: Deployment, command: list[str]) -> None:
    lines, took = _refused(deployment, *command, "--timeout=1.8")
    assert lines[0].startswith("waiting for ")
    assert lines[1:] == [FAILED + BROKER.format(1.8)]
    assert took < SOON


@pytest.fixture
def silent_database(mariadb: MariaDB, database: Database) -> Iterator[None]:
    """A database that accepts connections and says nothing, with the row of a host in it."""
    a_fleet(database, ["compute1"])
    mariadb.pause()
    yield
    mariadb.resume()


@pytest.mark.parametrize(
    ("command", "whom"),
    [
        (SELECT, "a scheduler"),
        pytest.param([*SELECT, "--dry-run"], "a scheduler", marks=pytest.mark.matrix),
        pytest.param(POWER, "the agent of compute1", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.usefixtures("silent_database")
def test_the_database_says_nothing(deployment: Deployment, command: list[str], whom: str) -> None:
    """What was asked may wait for it."""
    lines, took = _refused(deployment, *command, "--timeout=1.8")
    silent = " The database, which it needs, does not answer either: no answer from 127.0.0.1:"
    assert lines[-1].startswith(FAILED + NOBODY[whom].format(1.8) + silent)
    assert took < SOON


@pytest.mark.usefixtures("silent_database")
def test_a_scheduler_whose_database_hangs_is_not_what_is_blamed_alone(
    deployment: Deployment, mariadb: MariaDB
) -> None:
    mariadb.resume()
    deployment.scheduler()
    mariadb.pause()
    lines, _ = _refused(deployment, *SELECT, "--timeout=3")
    assert "atabase" in lines[-1], lines


@pytest.mark.matrix
@pytest.mark.parametrize("command", [SELECT, POWER], ids=" ".join)
def test_ten_seconds_are_enough(
    deployment: Deployment, database: Database, command: list[str]
) -> None:
    a_fleet(database, ["compute1"])
    lines, took = _refused(deployment, *command)
    assert "answered within 10 s" in lines[-1]
    assert 10 <= took < 10 + SOON
