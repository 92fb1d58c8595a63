# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every driver in a scheduler of its own, asked over the real broker."""

from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import services, tables
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.fixtures.daemons.process import Process
from tests.fixtures.deployment import Deployment, a_fleet

NOTHING = {"vcpus": 0, "memory_mb": 0, "root_gb": 0}


@pytest.fixture
def cloud(database: Database) -> Database:
    """Three hosts, of which the second has the fewest vCPUs in use and the third the most."""
    for host, vcpus_used in {"compute1": 4, "compute2": 1, "compute3": 9}.items():
        a_fleet(database, [host], vcpus_used=vcpus_used)
    return database


def start(deployment: Deployment, driver: str, **options: Any) -> Process:
    return deployment.scheduler(options={"scheduler": {"driver": driver, **options}})


def ask(client: SchedulerClient, count: int = 1, **changes: Any) -> list[str]:
    """Return the hosts that are chosen."""
    uuids = [str(uuid4()) for _ in range(count)]
    answer = client.select_destinations(RequestContext(), a_request(**changes), uuids)
    return [chosen.service_host for (chosen,) in answer]


def disable(database: Database, number: int) -> None:
    """Disable the compute service of a host by its number."""
    database.write(lambda connection: services.disable_automatically(connection, [number], "test"))


def test_chance(deployment: Deployment, cloud: Database, client: SchedulerClient) -> None:
    disable(cloud, 2)
    scheduler = start(deployment, "nova.scheduler.chance.ChanceScheduler")
    assert {*ask(client, 2, memory_mb=10**6)} == {"compute1", "compute3"}
    assert ask(client, ignore_hosts=["compute1"]) == ["compute3"]
    with pytest.raises(NoValidHost, match="besides the hosts that are to be avoided"):
        ask(client, ignore_hosts=["compute1", "compute3"])
    assert "ComputeFilter 3->2 ignore_hosts 2->1" in scheduler.log.read_text()


def test_simple(deployment: Deployment, cloud: Database, client: SchedulerClient) -> None:
    start(deployment, "simple_scheduler", max_cores=10)
    assert ask(client, 3, vcpus=2) == ["compute2", "compute2", "compute1"]
    # What was taken counts for the next request as well.
    assert ask(client, vcpus=5) == ["compute2"]
    with pytest.raises(NoValidHost, match="too many vCPUs in use"):
        ask(client, vcpus=5)


def test_caching(deployment: Deployment, cloud: Database, client: SchedulerClient) -> None:
    start(deployment, "caching_scheduler", driver_task_period=600)
    assert len(ask(client)) == 1
    long_ago = sa.update(tables.services).values(last_seen_up=sa.text("'2000-01-01 00:00:00'"))
    cloud.write(lambda connection: connection.execute(long_ago))
    # Nobody has looked since.
    assert len(ask(client)) == 1
    # No claim is made against what operators say, whatever is known of it.
    for number in (1, 2, 3):
        disable(cloud, number)
    with pytest.raises(NoValidHost):
        ask(client)


def test_multi(deployment: Deployment, cloud: Database, client: SchedulerClient) -> None:
    start(deployment, "multi", volume_scheduler_driver="fake_scheduler")
    # Who filters refuses, who draws lots does not look at zones, and the fake answers nothing.
    with pytest.raises(NoValidHost):
        ask(client, availability_zone="nowhere")
    assert len(ask(client, **NOTHING, availability_zone="nowhere")) == 1
    assert ask(client, **NOTHING | {"root_gb": 1}) == []


def test_fake(deployment: Deployment, cloud: Database, client: SchedulerClient) -> None:
    scheduler = start(deployment, "fake_scheduler")
    assert ask(client, 2) == []
    assert "Selected no hosts for 2 instances" in scheduler.log.read_text()
