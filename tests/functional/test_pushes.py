# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent writes counts in the decisions of schedulers that do not look for themselves."""

import json
import signal
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import kombu
import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire import push_messages
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost, ServiceUnavailable
from tests.backends import backends_alike, each_backend
from tests.builders import a_request
from tests.databases import execute
from tests.fixtures.daemons.process import PATIENCE, Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log

HOST = "compute1"
# Of these 65536 MB the request below leaves room for 512 MB that are kept back, not for more.
FULL, FREE, MEMORY_MB = 65000, 512, 32768
AGENT = {"compute_driver": "fake", "report_interval": 1, "update_resources_interval": 1}
# A host cache that nobody refreshes has the hosts of the first request.
LAZY = {"view_max_age": 3600, "view_reload_interval": 3600}
OPTIONS = {
    "DEFAULT": {"debug": True},
    "scheduler": LAZY,
    "filter_scheduler": {"enabled_filters": "ComputeFilter,RamFilter"},
    # With claims a decision on an outdated host cache is made again after a refresh.
    "claims": {"enabled": False},
}


class Cloud:
    """A host, and schedulers that have looked at it once."""

    def __init__(self, deployment: Deployment, database: Database, client: SchedulerClient) -> None:
        self.deployment = deployment
        self.database = database
        self.client = client
        self.agent: Process
        self.schedulers: list[Process] = []

    def start(self, backend: str, schedulers: int = 1) -> None:
        self.agent = self.deployment.agent(backend, self.options(FULL), name=HOST)
        assert wait_until(lambda: self.rows), self.log(self.agent)
        for _ in range(schedulers):
            self.schedulers.append(self.deployment.scheduler(backend, OPTIONS))
        # Requests go round; each scheduler needs one to look.
        for _ in range(schedulers):
            assert not self.places()

    def options(self, reserved: int) -> dict[str, dict[str, Any]]:
        # A heartbeat as young as the first look has to do for all the test.
        alive = {"service_down_time": 3600, "reserved_host_memory_mb": reserved}
        return {"DEFAULT": AGENT | alive}

    def reserve(self, megabytes: int) -> None:
        """Change what the agent keeps back; return when it has written its row."""
        self.deployment.write_config(HOST, self.options(megabytes))
        self.agent.send(signal.SIGHUP)
        assert wait_until(lambda: self.rows[0].memory_mb_used == megabytes)

    @property
    def rows(self) -> list[sa.Row[Any]]:
        return self.database.read(compute_nodes.all_live)

    def places(self, timeout: float = PATIENCE) -> bool:
        """Ask for an instance; tell whether the host was found to have room."""
        uuid = str(uuid4())
        spec, caller = a_request(instance_uuid=uuid, memory_mb=MEMORY_MB), RequestContext()
        try:
            ((chosen,),) = self.client.select_destinations(caller, spec, [uuid], timeout=timeout)
        except NoValidHost:
            return False
        return chosen.service_host == HOST

    def works(self) -> bool:
        try:
            return self.places(timeout=3.0)
        except ServiceUnavailable:
            return False

    def log(self, process: Process) -> str:
        return process.log.read_text(errors="replace")


@pytest.fixture
def cloud(deployment: Deployment, database: Database, client: SchedulerClient) -> Cloud:
    return Cloud(deployment, database, client)


@backends_alike
def test_what_an_agent_writes_counts_at_once(cloud: Cloud, backend: str) -> None:
    cloud.start(backend)
    cloud.reserve(FREE)
    assert wait_until(cloud.places)
    cloud.reserve(FULL)
    assert wait_until(lambda: not cloud.places())
    for process in (cloud.agent, *cloud.schedulers):
        assert process.stop() == 0
        assert "Traceback" not in cloud.log(process)


def test_every_scheduler_hears_of_it(cloud: Cloud) -> None:
    cloud.start("eventlet", schedulers=2)
    before = [cloud.log(each).count(f"'{HOST}' pushed changes") for each in cloud.schedulers]
    cloud.reserve(FREE)
    for each, known in zip(cloud.schedulers, before, strict=True):
        pushed = lambda each=each: cloud.log(each).count(f"'{HOST}' pushed changes")  # noqa: E731
        assert wait_until(lambda pushed=pushed, known=known: pushed() > known)
    assert wait_until(cloud.places)


@pytest.mark.matrix
@each_backend
def test_a_broker_that_restarts_is_found_again(
    cloud: Cloud, rabbitmq: RabbitMQ, backend: str
) -> None:
    cloud.start(backend)
    rabbitmq.restart()
    numbers = count(1)

    def heard() -> bool:
        # What is pushed before the schedulers listen again is lost.
        cloud.reserve(FREE + next(numbers))
        return wait_until(cloud.works, 1.0)

    assert wait_until(heard), cloud.log(cloud.agent)
    cloud.reserve(FULL)
    assert wait_until(lambda: not cloud.places())
    assert "Traceback" not in cloud.log(cloud.agent)


@pytest.mark.matrix
@backends_alike
def test_an_agent_without_a_broker_audits_and_says_so_once(
    cloud: Cloud, rabbitmq: RabbitMQ, backend: str
) -> None:
    rabbitmq.stop()
    try:
        cloud.agent = cloud.deployment.agent(backend, cloud.options(FULL), name=HOST)
        assert wait_until(lambda: cloud.rows)
        unable = "Pushing changes to schedulers failed"
        wait_for_log(cloud.agent, unable)
        for _ in range(3):
            generation = cloud.rows[0].generation
            execute(
                cloud.database, "UPDATE compute_nodes SET vcpus = 1, generation = generation + 1"
            )
            assert wait_until(lambda known=generation: cloud.rows[0].generation > known + 1)
        assert cloud.log(cloud.agent).count(unable) == 1
    finally:
        rabbitmq.start()
    # Whatever is written next shows that it works again.
    execute(cloud.database, "UPDATE compute_nodes SET vcpus = 1, generation = generation + 1")
    wait_for_log(cloud.agent, "Pushing changes to schedulers recovered")
    assert cloud.agent.stop() == 0
    assert "Traceback" not in cloud.log(cloud.agent)


ROOMY = [f"host{number}" for number in range(6)]


@backends_alike
def test_what_one_scheduler_claims_the_other_knows_at_once(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    # Of each of them there is room for one instance, and all are equally good.
    a_fleet(database, ROOMY)
    options = {**OPTIONS, "DEFAULT": {"debug": True, "service_down_time": 3600}}
    options["claims"] = {"enabled": True}
    schedulers = [deployment.scheduler(backend, options) for _ in range(2)]
    logs = [lambda each=each: each.log.read_text(errors="replace") for each in schedulers]
    # Requests go round; each scheduler looks at the database at its first one.
    spec, placed, answered = a_request(memory_mb=40_000), [], []
    for _ in ROOMY:
        uuid, known = (
            str(uuid4()),
            [log().count("pushed what it claimed (nodes: 1)") for log in logs],
        )
        ((chosen,),) = client.select_destinations(RequestContext(), spec, [uuid], timeout=PATIENCE)
        placed.append(chosen.service_host)
        for log, before in zip(logs, known, strict=True):
            pushed = lambda log=log: log().count("pushed what it claimed (nodes: 1)")  # noqa: E731
            assert wait_until(lambda pushed=pushed, before=before: pushed() > before)
        answered.append([f"for instance {uuid}" in log() for log in logs])
    assert sorted(placed) == ROOMY
    assert {*map(tuple, answered)} == {(True, False), (False, True)}
    for log in logs:
        assert "conflicts" not in log()
        assert "Traceback" not in log()


@pytest.fixture
def exchange(deployment: Deployment) -> Iterator[kombu.Producer]:
    with kombu.Connection(deployment.transport_url.replace("rabbit://", "amqp://")) as connection:
        fanout = kombu.Exchange(f"{push_messages.TOPIC}_fanout", type="fanout")
        yield kombu.Producer(connection.channel(), fanout, auto_declare=False)


@pytest.mark.parametrize(
    ("method", "arguments", "line"),
    [
        (
            "nodes_changed",
            {"agent": "x", "nodes": 7, "claims": []},
            "'x' pushed: nodes: 7 is not a list",
        ),
        ("nodes_changed", {"claims": []}, "Refused malformed changes that null pushed"),
        ("nodes_changed", {}, "null pushed no claims; its changes are read from the database"),
        ("nodes_eaten", {}, "Refused a call: Endpoint does not support RPC method nodes_eaten"),
    ],
)
def test_what_cannot_be_read_is_one_line_of_the_log(
    cloud: Cloud, exchange: kombu.Producer, method: str, arguments: dict[str, Any], line: str
) -> None:
    cloud.start("threading")
    (scheduler,) = cloud.schedulers
    message = {"method": method, "args": arguments, "namespace": push_messages.NAMESPACE}
    message |= {"version": push_messages.VERSION, "_unique_id": uuid4().hex}
    exchange.publish(
        json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}),
        content_type="application/json",
        content_encoding="utf-8",
    )
    wait_for_log(scheduler, line)
    assert "Traceback" not in cloud.log(scheduler)
    cloud.reserve(FREE)
    assert wait_until(cloud.places)
