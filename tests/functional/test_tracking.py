# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services tell by fanout casts counts in the decisions that follow."""

import json
import signal
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import kombu
import pytest

from inventory.engine import Database
from scheduler.rpc.client import SchedulerClient
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import NoValidHost
from tests.builders import INSTANCE, a_group, a_request
from tests.fixtures.daemons.process import Process, wait_until
from tests.fixtures.deployment import Deployment, a_fleet
from tests.unit.scheduler.rpc import wire

HOSTS = ["compute1", "compute2", "compute3"]
NAME = "told"
OPTIONS = {
    "DEFAULT": {"debug": True},
    # Claims would count as members of the group, too.
    "claims": {"enabled": False},
    "filter_scheduler": {
        "enabled_filters": "ComputeFilter,AvailabilityZoneFilter,ServerGroupAntiAffinityFilter"
    },
}


class Teller:
    """Publishes captured casts as compute and API services do: to every scheduler."""

    def __init__(self, connection: kombu.Connection, scheduler: Process) -> None:
        self.scheduler = scheduler
        exchange = kombu.Exchange("scheduler_fanout", type="fanout")
        self._producer = kombu.Producer(connection.channel(), exchange, auto_declare=False)

    def send(self, name: str, **changes: Any) -> None:
        """Send a captured cast with some arguments changed."""
        message = wire.sample(name)["message"]
        message |= {"_unique_id": uuid4().hex, "args": message["args"] | changes}
        body = {"oslo.version": "2.0", "oslo.message": json.dumps(message)}
        self._producer.publish(
            json.dumps(body), content_type="application/json", content_encoding="utf-8"
        )

    def tell(self, name: str, expected: str, **changes: Any) -> None:
        """Send a captured cast and return when the log says that it was taken in."""
        before = self.log().count(expected)
        self.send(name, **changes)
        assert wait_until(lambda: self.log().count(expected) > before, 20), self.log()[-3000:]

    def log(self) -> str:
        return self.scheduler.log.read_text(errors="replace")


@pytest.fixture
def teller(deployment: Deployment, database: Database) -> Iterator[Teller]:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler(options=OPTIONS, name=NAME)
    with kombu.Connection(deployment.transport_url.replace("rabbit://", "amqp://")) as connection:
        yield Teller(connection, scheduler)


def place(client: SchedulerClient, *hosts: str, **changes: Any) -> str | None:
    """Return the host of a new instance that may go to these, None when none is valid."""
    uuid = str(uuid4())
    others = [each for each in HOSTS if each not in hosts]
    spec = a_request(instance_uuid=uuid, ignore_hosts=others, **changes)
    try:
        ((chosen,),) = client.select_destinations(RequestContext(), spec, [uuid])
    except NoValidHost:
        return None
    return chosen.service_host


@pytest.mark.parametrize("release", ["", "newton_"])
def test_instances_that_hosts_tell_of(
    teller: Teller, client: SchedulerClient, release: str
) -> None:
    group = a_group("anti-affinity", members=[INSTANCE])
    assert place(client, "compute1", instance_group=group) == "compute1"
    teller.tell(f"cast_{release}update_instance_info", "compute1 told of 1 instances")
    assert place(client, "compute1", instance_group=group) is None
    assert place(client, "compute1", "compute2", instance_group=group) == "compute2"
    teller.tell(f"cast_{release}delete_instance_info", f"the end of instance {INSTANCE}")
    assert place(client, "compute1", instance_group=group) == "compute1"
    count = len(wire.arguments(f"cast_{release}sync_instance_info")["instance_uuids"])
    teller.tell(f"cast_{release}sync_instance_info", f"compute1 told that it has {count}")
    assert place(client, "compute1", instance_group=group) is None
    teller.tell("cast_sync_instance_info", "told that it has 0 instances", instance_uuids=[])
    assert place(client, "compute1", instance_group=group) == "compute1"


def test_instances_are_forgotten_and_ignored_when_they_are_no_longer_tracked(
    deployment: Deployment, teller: Teller, client: SchedulerClient
) -> None:
    group = a_group("anti-affinity", members=[INSTANCE])
    teller.tell("cast_update_instance_info", "compute1 told of 1 instances")
    assert place(client, "compute1", instance_group=group) is None
    off = {**OPTIONS["filter_scheduler"], "track_instance_changes": False}
    deployment.write_config(NAME, OPTIONS | {"filter_scheduler": off})
    teller.scheduler.send(signal.SIGHUP)
    assert wait_until(lambda: place(client, "compute1", instance_group=group), 20)
    teller.send("cast_update_instance_info")
    # Sent later, and so as a rule taken in later.
    teller.tell("cast_update_aggregates", "Told of 1 aggregates")
    assert place(client, "compute1", instance_group=group) == "compute1"
    assert teller.log().count("compute1 told of 1 instances") == 1


@pytest.mark.parametrize("release", ["", "newton_"])
def test_aggregates_that_the_api_tells_of(
    teller: Teller, client: SchedulerClient, release: str
) -> None:
    assert place(client, *HOSTS, availability_zone="az1") is None
    teller.tell(f"cast_{release}update_aggregates", "Told of 1 aggregates")
    assert place(client, *HOSTS, availability_zone="az1") in ("compute1", "compute2")
    assert place(client, *HOSTS, availability_zone="nova") == "compute3"
    teller.tell(f"cast_{release}delete_aggregate", "Told of the end of aggregate")
    assert place(client, *HOSTS, availability_zone="az1") is None


def test_what_cannot_be_read_is_one_line_of_the_log(
    teller: Teller, client: SchedulerClient
) -> None:
    refused = "Refused a malformed sync_instance_info of req-"
    teller.tell("cast_sync_instance_info", refused, instance_uuids=7)
    assert ": instance_uuids: 7 is not a list" in teller.log()
    refused = "Refused a malformed update_aggregates of req-"
    teller.tell("cast_update_aggregates", refused, aggregates=[{"name": "a"}])
    assert ": aggregates[0].uuid: is missing" in teller.log()
    teller.tell("cast_update_instance_info", "unknown told of 1 instances", host_name="unknown")
    assert "Traceback" not in teller.log()
    assert place(client, "compute1") == "compute1"
