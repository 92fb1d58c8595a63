# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""No hosts, no tables, no database, no broker: a clear error within the deadline, and recovery."""

import json
import signal
import time
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import services
from inventory.engine import Database
from inventory.objects.instance_group import InstanceGroup
from inventory.tables import services as table
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost, ServiceUnavailable
from tests.backends import each_backend
from tests.builders import a_request
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, ProcessError, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log
from tests.unit.scheduler.wire import wire_samples

# Seconds: many times what request_timeout is here, and less than its default of 50.
SOON = 30.0


def place(client: SchedulerClient, timeout: float = PATIENCE, **asked: Any) -> str:
    spec, uuids = a_request(vcpus=1, **asked), ["00000000-0000-0000-0000-000000000001"]
    ((chosen,),) = client.select_destinations(RequestContext(), spec, uuids, timeout=timeout)
    return chosen.service_host


def test_without_any_compute_node_the_log_says_what_to_do(
    deployment: Deployment, client: SchedulerClient
) -> None:
    scheduler = deployment.scheduler()
    with pytest.raises(NoValidHost, match="There are not enough hosts available"):
        place(client)
    wait_for_log(scheduler, "no compute node has reported yet; check that berthmaster-agent runs")


def test_hosts_that_are_all_disabled_are_named_in_the_log_and_come_back(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["compute1", "compute2"])
    scheduler = deployment.scheduler()
    database.write(lambda c: services.disable_automatically(c, [1, 2], "maintenance"))
    with pytest.raises(NoValidHost):
        place(client)
    wait_for_log(scheduler, "ComputeFilter 2->0")
    database.write(lambda c: services.enable_automatically(c, [1, 2]))
    assert place(client) in ("compute1", "compute2")


def test_a_dead_host_is_not_chosen(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["alive", "dead"])
    database.write(_grow_old)
    deployment.scheduler()
    assert {place(client) for _ in range(4)} == {"alive"}


def _grow_old(connection: sa.Connection) -> None:
    """Let the last heartbeat of the host 'dead' be long ago."""
    connection.execute(
        sa.update(table)
        .where(table.c.host == "dead")
        .values(last_seen_up=sa.text("UTC_TIMESTAMP() - INTERVAL 1 DAY"))
    )


def test_a_database_without_tables_stops_the_start(
    deployment: Deployment, mariadb: MariaDB
) -> None:
    deployment.database_url = mariadb.create_database("without_tables")
    for start in (deployment.scheduler, deployment.agent):
        with pytest.raises(ProcessError, match="run 'berthmaster db sync' once"):
            start().wait_ready(lambda: False)


@each_backend
def test_requests_fail_clearly_while_the_database_is_away_and_work_again_after(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    mariadb: MariaDB,
    backend: str,
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend, {"scheduler": {"request_timeout": 3}})
    assert place(client) == "compute1"
    mariadb.kill()
    try:
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="database does not answer"):
            place(client)
        assert time.monotonic() - began < SOON
    finally:
        mariadb.start()
    assert wait_until(lambda: _works(client))
    assert scheduler.status is None
    assert "Traceback" not in scheduler.log.read_text()


def test_an_outage_longer_than_heartbeats_last_makes_no_host_dead(
    deployment: Deployment, database: Database, client: SchedulerClient, mariadb: MariaDB
) -> None:
    a_fleet(database, ["compute1"])
    # Hosts get two intervals for their heartbeats then, and this test has as long.
    options = {"DEFAULT": {"service_down_time": 300, "report_interval": 100}}
    deployment.write_config("berthmaster", options)
    scheduler = deployment.scheduler(options=options)
    assert place(client) == "compute1"
    mariadb.kill()
    try:
        with pytest.raises(ServiceUnavailable, match="database does not answer"):
            place(client)
        # It is to send its heartbeat when all are as old as they are after a long outage.
        scheduler.send(signal.SIGSTOP)
        assert wait_until(lambda: scheduler.is_stopped)
    finally:
        mariadb.start()
    earlier = "last_seen_up - INTERVAL 310 SECOND"
    database.write(
        lambda each: each.execute(sa.update(table).values(last_seen_up=sa.text(earlier)))
    )
    scheduler.send(signal.SIGCONT)
    assert place(client) == "compute1"
    # Nor does an operator see it down, or a scheduler that knows of no heartbeat from before.
    (found,) = deployment.cli_json("service", "list", "--binary", "nova-compute")
    assert found["State"] == "up"
    scheduler.stop()
    deployment.scheduler(options=options)
    assert place(client) == "compute1"


def test_a_hung_database_does_not_hang_a_request(
    deployment: Deployment, database: Database, client: SchedulerClient, mariadb: MariaDB
) -> None:
    a_fleet(database, ["compute1"])
    deployment.scheduler(options={"scheduler": {"request_timeout": 2}})
    assert place(client) == "compute1"
    for asked in (
        {},
        {"scheduler_hints": {"group": ["a group"]}},
        {"instance_group": InstanceGroup("u", "affinity")},
    ):
        mariadb.pause()
        try:
            began = time.monotonic()
            with pytest.raises(ServiceUnavailable, match="database does not answer"):
                place(client, **asked)
            assert time.monotonic() - began < SOON
        finally:
            mariadb.resume()
        assert wait_until(lambda: _works(client))


def test_what_hosts_tell_of_instances_holds_up_no_request_while_the_database_hangs(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
) -> None:
    a_fleet(database, ["compute1"])
    options = {"scheduler": {"request_timeout": 2, "max_requests_in_flight": 2}}
    scheduler = deployment.scheduler(options=options)
    assert place(client) == "compute1"
    mariadb.pause()
    try:
        with AmqpCaller(rabbitmq.transport_url) as caller:
            for _ in range(4):
                caller.send(wire_samples.sample("cast_delete_instance_info")["message"])
        with pytest.raises(ServiceUnavailable, match="database does not answer"):
            place(client, timeout=SOON)
    finally:
        mariadb.resume()
    assert wait_until(lambda: _works(client))
    assert scheduler.status is None


def test_what_the_database_refuses_reaches_the_log_and_no_caller(
    deployment: Deployment, database: Database, rabbitmq: RabbitMQ
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler()
    shorter = sa.text("ALTER TABLE allocations MODIFY digest VARCHAR(8)")
    database.write(lambda connection: connection.execute(shorter))
    with AmqpCaller(rabbitmq.transport_url) as caller:
        sample = wire_samples.sample("call_select_destinations_4.5_objects_no_alternates")
        failure = caller.call(sample["message"])["failure"]
    assert failure["class"] == "ServiceUnavailable"
    assert "The scheduler's database refused what the request needs." in failure["message"]
    # With the errors that led to it.
    text = json.dumps(failure)
    assert not any(each in text for each in ("Data too long", "INSERT", "compute1"))
    (line,) = [each for each in scheduler.log.read_text().splitlines() if "Data too long" in each]
    assert 'Request failed: the database refuses a value: (1406, "Data too long' in line
    assert "Traceback" not in scheduler.log.read_text()


@each_backend
def test_a_broker_that_restarts_is_found_again(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    rabbitmq: RabbitMQ,
    backend: str,
) -> None:
    a_fleet(database, ["compute1"])
    deployment.scheduler(backend)
    assert place(client) == "compute1"
    rabbitmq.restart()
    assert wait_until(lambda: _works(client))


def test_no_scheduler_at_all_is_said_to_the_caller(client: SchedulerClient) -> None:
    with pytest.raises(ServiceUnavailable, match="check that berthmaster-scheduler runs"):
        place(client, timeout=1.0)


def _works(client: SchedulerClient) -> bool:
    try:
        return place(client, timeout=5.0) == "compute1"
    except ServiceUnavailable:
        return False
