# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services announce by casts counts in later decisions, or is a hint."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import kombu
import pytest

from inventory import aggregates, instances, revisions
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import INSTANCE, a_request
from tests.databases import an_instance, execute
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet
from tests.unit.scheduler.wire import wire_samples

SYNC = "cast_sync_instance_info"
HOSTS = ["compute1", "compute2", "compute3"]
NAME = "announced"
OPTIONS: dict[str, dict[str, Any]] = {
    "DEFAULT": {"debug": True},
    # So each decision reads what has changed.
    "claims": {"enabled": False},
    "filter_scheduler": {
        "enabled_filters": "ComputeFilter,AvailabilityZoneFilter,DifferentHostFilter"
    },
}


class CastSender:
    """Publishes captured casts as compute and API services do: to every scheduler."""

    def __init__(self, connection: kombu.Connection, scheduler: Process) -> None:
        self.scheduler = scheduler
        exchange = kombu.Exchange("scheduler_fanout", type="fanout")
        self._producer = kombu.Producer(connection.channel(), exchange, auto_declare=False)

    def send(self, name: str, **changes: Any) -> None:
        """Send a captured cast with some arguments changed."""
        message = wire_samples.sample(name)["message"]
        message |= {"_unique_id": uuid4().hex, "args": message["args"] | changes}
        body = {"oslo.version": "2.0", "oslo.message": json.dumps(message)}
        self._producer.publish(
            json.dumps(body), content_type="application/json", content_encoding="utf-8"
        )

    def send_and_wait(self, name: str, expected: str, **changes: Any) -> None:
        """Send a captured cast and return when the log says that it was taken in."""
        before = self.log().count(expected)
        self.send(name, **changes)
        assert wait_until(lambda: self.log().count(expected) > before), self.log()[-3000:]

    def log(self) -> str:
        return self.scheduler.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def deployment(
    rabbitmq: RabbitMQ, mariadb: MariaDB, schema: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """One deployment for all tests, so that one scheduler is enough."""
    directory = tmp_path_factory.mktemp("tracking")
    url = mariadb.copy_database(schema, directory.name)
    with Guard() as guard:
        yield Deployment(directory, guard, rabbitmq.transport_url, url)


@pytest.fixture(scope="module")
def database(deployment: Deployment) -> Iterator[Database]:
    opened = deployment.open_database()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def scheduler(deployment: Deployment, database: Database) -> Process:
    a_fleet(database, HOSTS)
    return deployment.scheduler(options=OPTIONS, name=NAME)


@pytest.fixture
def sender(deployment: Deployment, database: Database, scheduler: Process) -> Iterator[CastSender]:
    """Sends casts to the scheduler, which knows no instances and aggregates when a test begins."""
    execute(database, "DELETE FROM aggregates")
    database.write(lambda c: revisions.advance(c, revisions.AGGREGATES))
    with connected(deployment, scheduler) as found:
        unnoticed(database)
        found.send_and_wait(
            SYNC, "sync_instance_info of compute1: 1", instance_uuids=[str(uuid4())]
        )
        yield found


@contextmanager
def connected(deployment: Deployment, scheduler: Process) -> Iterator[CastSender]:
    """Yield what sends casts to a scheduler."""
    with kombu.Connection(deployment.transport_url.replace("rabbit://", "amqp://")) as connection:
        yield CastSender(connection, scheduler)


def place(
    client: SchedulerClient, *hosts: str, uuid: str | None = None, **changes: Any
) -> str | None:
    """Return the host of an instance that may go to these, None when none is valid."""
    uuid = uuid or str(uuid4())
    others = [each for each in HOSTS if each not in hosts]
    spec = a_request(instance_uuid=uuid, ignore_hosts=others, **changes)
    try:
        ((chosen,),) = client.select_destinations(RequestContext(), spec, [uuid])
    except NoValidHost:
        return None
    return chosen.service_host


@pytest.mark.parametrize("release", ["", "newton_"])
def test_aggregates_that_the_api_tells_of(
    sender: CastSender, client: SchedulerClient, release: str
) -> None:
    assert place(client, *HOSTS, availability_zone="az1") is None
    sender.send_and_wait(f"cast_{release}update_aggregates", "update_aggregates: 1")
    assert place(client, *HOSTS, availability_zone="az1") in ("compute1", "compute2")
    assert place(client, *HOSTS, availability_zone="nova") == "compute3"
    sender.send_and_wait(f"cast_{release}delete_aggregate", "Received delete_aggregate:")
    assert place(client, *HOSTS, availability_zone="az1") is None


def elsewhere(client: SchedulerClient, host: str) -> bool:
    """Tell whether INSTANCE is not on a host, for all that the scheduler knows."""
    hints = {"different_host": [INSTANCE]}
    # So small that claims for those who ask do not fill the host.
    small = {"vcpus": 1, "memory_mb": 1, "root_gb": 0}
    return place(client, host, scheduler_hints=hints, **small) is not None


def unnoticed(database: Database, *uuids: str) -> None:
    """Write these guests of compute1 with an old date, which a reading of changes leaves out."""
    execute(database, "DELETE FROM instances")
    seen = [an_instance(uuid) for uuid in uuids]
    database.write(lambda c: instances.replace(c, HOSTS[0], HOSTS[0], seen))
    execute(database, "UPDATE instances SET updated_at = '2001-01-01'")


def cast_and_read(
    sender: CastSender, client: SchedulerClient, database: Database, release: str = ""
) -> None:
    """Let compute1 send its instances, and see that its rows are read each time."""
    there = not elsewhere(client, "compute1")
    for verb, changes in (
        ("update_instance_info", {}),
        ("sync_instance_info", {"instance_uuids": []}),
        ("delete_instance_info", {"instance_uuid": str(uuid4())}),
    ):
        unnoticed(database, *([] if there else [INSTANCE]))
        assert elsewhere(client, "compute1") != there
        sender.send_and_wait(f"cast_{release}{verb}", f"Received {verb} of compute1", **changes)
        # With claims the host cache may be a second old. Nothing else would find it within minutes.
        assert wait_until(lambda was=there: elsewhere(client, "compute1") == was)
        there = not there


@pytest.mark.parametrize("release", ["", "newton_"])
def test_a_host_that_tells_of_its_instances_is_read_again(
    sender: CastSender, client: SchedulerClient, database: Database, release: str
) -> None:
    cast_and_read(sender, client, database, release)


@pytest.mark.parametrize("release", ["", "newton_"])
def test_an_instance_that_its_host_has_deleted_is_expected_no_longer(
    sender: CastSender, client: SchedulerClient, release: str
) -> None:
    assert elsewhere(client, "compute1")
    assert place(client, "compute1", uuid=INSTANCE) == "compute1"
    sender.send_and_wait(f"cast_{release}update_instance_info", "update_instance_info of compute1")
    assert not elsewhere(client, "compute1")
    deleted = f"delete_instance_info of compute1: instance {INSTANCE}"
    sender.send_and_wait(f"cast_{release}delete_instance_info", deleted)
    assert elsewhere(client, "compute1")


def test_an_aggregate_of_the_database_is_as_announced_until_the_database_changes_it(
    sender: CastSender, client: SchedulerClient, database: Database
) -> None:
    zone = {"availability_zone": "z"}
    database.write(lambda c: aggregates.create(c, "ours", ["compute3"], zone))
    uuid = database.read(aggregates.everything)[0].uuid
    assert place(client, *HOSTS, availability_zone="z") == "compute3"
    (aggregate,) = wire_samples.arguments("cast_update_aggregates")["aggregates"]
    aggregate["nova_object.data"]["uuid"] = uuid
    sender.send_and_wait("cast_update_aggregates", "update_aggregates: 1", aggregates=[aggregate])
    assert place(client, *HOSTS, availability_zone="z") is None
    assert place(client, "compute1", availability_zone="az1") == "compute1"
    sender.send_and_wait("cast_delete_aggregate", f"delete_aggregate: {uuid}", aggregate=aggregate)
    assert place(client, *HOSTS, availability_zone="az1") is None
    assert place(client, "compute3", availability_zone="z") is None
    execute(database, "INSERT INTO aggregate_hosts SELECT id, 'compute2' FROM aggregates")
    database.write(lambda c: revisions.advance(c, revisions.AGGREGATES))
    assert place(client, "compute2", availability_zone="z") == "compute2"


def test_what_cannot_be_read_is_one_line_of_the_log(
    sender: CastSender, client: SchedulerClient
) -> None:
    refused = "Refused a malformed sync_instance_info of req-"
    sender.send_and_wait("cast_sync_instance_info", refused, instance_uuids=7)
    assert ": instance_uuids: 7 is not a list" in sender.log()
    refused = "Refused a malformed update_aggregates of req-"
    sender.send_and_wait("cast_update_aggregates", refused, aggregates=[{"name": "a"}])
    assert ": aggregates[0].uuid: is missing" in sender.log()
    for verb in ("update_instance_info", "delete_instance_info", "sync_instance_info"):
        sender.send_and_wait(f"cast_{verb}", f"Received {verb} of unknown", host_name="unknown")
    assert "Traceback" not in sender.log()
    assert place(client, "compute1") == "compute1"
