# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long a command waits for a scheduler, an agent and a broker, and what it says of that."""

import time
from collections.abc import Iterator

import pytest

from inventory.engine import Database
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log

SELECT = ["select", "--vcpus=1"]
POWER = ["host", "power", "compute1", "reboot"]
BROKEN = [
    SELECT,
    *(pytest.param(each, marks=pytest.mark.matrix) for each in ([*SELECT, "--dry-run"], POWER)),
]
NO_SCHEDULER = (
    "No scheduler answered within {} s: check that berthmaster-scheduler runs, with the same"
    " transport_url and control_exchange"
)
NO_AGENT = (
    "The agent 'compute1' {}: check that berthmaster-agent runs there, with the same"
    " transport_url and control_exchange"
)
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


def test_no_scheduler_answers(deployment: Deployment) -> None:
    lines, took = _refused(deployment, *SELECT, "--timeout=1.8")
    assert lines == ["waiting for a scheduler ...", FAILED + NO_SCHEDULER.format(1.8)]
    assert took < SOON


def test_an_agent_that_is_not_there_is_not_waited_for(
    deployment: Deployment, database: Database
) -> None:
    """The broker knows at once of an agent that it has never seen."""
    # Agents of other tests may have left their queues.
    host = "newcomer1"
    a_fleet(database, [host])
    (line,), took = _refused(deployment, "host", "power", host, "reboot", "--timeout=600")
    assert line.startswith(
        FAILED + NO_AGENT.format("is not connected to the message broker").replace("compute1", host)
    )
    assert took < SOON


def test_an_agent_hangs(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute1"])
    agent = deployment.agent(options={"DEFAULT": {"compute_driver": "fake"}}, name="compute1")
    wait_for_log(agent, "Listening as compute.berthmaster-agent")
    with agent.paused():
        lines, took = _refused(deployment, *POWER, "--timeout=1.8")
    assert lines[0] == "waiting for the agent of compute1 ..."
    assert lines[1].startswith(FAILED + NO_AGENT.format("has not answered within 1.8 s"))
    assert took < SOON


@pytest.mark.parametrize("command", BROKEN)
@pytest.mark.usefixtures("paused")
def test_the_broker_says_nothing(
    deployment: Deployment, database: Database, command: list[str]
) -> None:
    a_fleet(database, ["compute1"])
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
    "command", [SELECT, pytest.param([*SELECT, "--dry-run"], marks=pytest.mark.matrix)]
)
@pytest.mark.usefixtures("silent_database")
def test_the_database_says_nothing(deployment: Deployment, command: list[str]) -> None:
    """What was asked may wait for it."""
    lines, took = _refused(deployment, *command, "--timeout=1.8")
    silent = (
        " The database, which the daemon needs, does not answer either: no answer from 127.0.0.1:"
    )
    assert lines[-1].startswith(FAILED + NO_SCHEDULER.format(1.8) + silent)
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
def test_ten_seconds_are_enough(deployment: Deployment) -> None:
    lines, took = _refused(deployment, *SELECT)
    assert "answered within 10 s" in lines[-1]
    assert 10 <= took < 10 + SOON
