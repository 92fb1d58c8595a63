# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Both daemons with mysqlclient, a driver in C, in the place of PyMySQL."""

from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from tests.builders import a_request
from tests.fixtures import availability
from tests.fixtures.daemons.process import ProcessError, wait_until
from tests.fixtures.deployment import Deployment

pytestmark = pytest.mark.release


@pytest.fixture
def by_mysqldb(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Return the options that name the driver."""
    availability.require(availability.MYSQLCLIENT)
    url = deployment.database_url.replace("pymysql", "mysqldb")
    return {"database": {"connection": url}}


def test_an_audit_is_written_and_a_request_is_claimed(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    by_mysqldb: dict[str, dict[str, Any]],
) -> None:
    fake = {"DEFAULT": {"compute_driver": "fake", "update_resources_interval": 1}}
    deployment.agent("threading", fake | by_mysqldb, name="compute")
    assert wait_until(lambda: database.read(compute_nodes.all_live))
    deployment.scheduler("threading", by_mysqldb)
    uuids = [str(uuid4()) for _ in range(2)]
    spec = a_request(vcpus=1, memory_mb=128, root_gb=1)
    selections = client.select_destinations(RequestContext(), spec, uuids)
    assert len(selections) == 2
    query = sa.text("SELECT instance_uuid FROM allocations")
    claimed = database.read(lambda connection: connection.scalars(query).all())
    assert sorted(claimed) == sorted(uuids)


def test_green_threads_and_a_driver_that_stops_them_do_not_start(
    deployment: Deployment, by_mysqldb: dict[str, dict[str, Any]]
) -> None:
    said = "set [DEFAULT] concurrency_backend = threading"
    with pytest.raises(ProcessError, match="ended with status 1") as caught:
        deployment.scheduler("eventlet", by_mysqldb)
    agent = deployment.agent("eventlet", by_mysqldb)
    assert agent.wait() == 1
    for log in (caught.value.log.read_text(), agent.log.read_text()):
        assert said in log
        assert "Traceback" not in log
