# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregates and server groups are changed by operators, and a scheduler that runs obeys."""

from typing import Any
from uuid import uuid4

from inventory import instances
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import an_instance
from tests.fixtures.command import Command
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, a_fleet

FILTERS = (
    "ComputeFilter,AvailabilityZoneFilter,AggregateCoreFilter,AggregateMultiTenancyIsolation,"
    "ServerGroupAntiAffinityFilter"
)
# Claims are on, so the host cache may be view_max_age old.
OPTIONS = {"filter_scheduler": {"enabled_filters": FILTERS}}


def place(client: SchedulerClient, **changes: Any) -> str | None:
    """Return the host of a new instance, None when none is valid."""
    uuid = str(uuid4())
    spec = a_request(instance_uuid=uuid, **{"vcpus": 1, "memory_mb": 64, "root_gb": 1, **changes})
    try:
        ((chosen, *_),) = client.select_destinations(RequestContext(), spec, [uuid])
    except NoValidHost:
        return None
    return chosen.service_host


def test_the_next_request_obeys(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["compute1", "compute2"])
    deployment.scheduler(options=OPTIONS)
    command = Command(deployment.config)

    def obeyed(host: str | None, **asked: Any) -> bool:
        return wait_until(lambda: place(client, **asked) == host)

    assert place(client, availability_zone="north") is None
    # Once as operators do: in a process of its own.
    deployment.cli_json("aggregate", "create", "cold", "--zone", "north")
    command.json("aggregate", "add", "host", "cold", "COMPUTE1")
    assert obeyed("compute1", availability_zone="north")
    assert place(client, availability_zone="nova") == "compute2"
    command.json("aggregate", "set", "cold", "--zone", "south", "--with-instances")
    assert obeyed(None, availability_zone="north")
    assert place(client, availability_zone="south") == "compute1"
    command.json("aggregate", "set", "cold", "--property=filter_tenant_id=p1, p2")
    assert obeyed(None, availability_zone="south", project_id="p3")
    assert place(client, availability_zone="south", project_id="p2") == "compute1"
    command.json("aggregate", "set", "cold", "--property=cpu_allocation_ratio=0.01")
    assert obeyed(None, availability_zone="south", project_id="p2")
    command.json("aggregate", "unset", "cold", "--property=cpu_allocation_ratio")
    assert obeyed("compute1", availability_zone="south", project_id="p2")
    command.json("aggregate", "remove", "host", "cold", "compute1", "--with-instances")
    assert obeyed(None, availability_zone="south")
    assert command.json("aggregate", "delete", "cold")


def test_server_groups_are_made_for_hints(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["compute1", "compute2"])
    guest = an_instance(str(uuid4()))
    database.write(lambda c: instances.replace(c, "compute1", "compute1", [guest]))
    deployment.scheduler(options=OPTIONS)
    command = Command(deployment.config)
    group = ("server", "group")
    command.json(*group, "create", "web", "--policy=anti-affinity")
    command.json(*group, "add", "instance", "web", guest["uuid"])
    hints = {"group": ["web"]}
    assert place(client, scheduler_hints=hints) == "compute2"
    assert place(client, scheduler_hints=hints) is None
    shown = command.json(*group, "show", "web")
    assert (len(shown["members"]), shown["hosts"]) == (2, ["compute1", "compute2"])
    command.json(*group, "remove", "instance", "web", guest["uuid"])
    assert place(client, scheduler_hints=hints) == "compute1"
    assert "has 2 members" in command.refused(*group, "delete", "web")
