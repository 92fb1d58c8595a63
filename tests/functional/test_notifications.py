# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications and casts: what consumers hear of a request that nobody waits for."""

import json
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import kombu
import pytest

from inventory import compute_nodes
from inventory.engine import Database
from scheduler.rpc.client import SchedulerClient
from scheduler.rpc.context import RequestContext
from tests.builders import a_request
from tests.fixtures.amqp_caller import EXCHANGE
from tests.fixtures.deployment import Deployment, a_fleet
from tests.unit.scheduler.rpc import wire

NOTIFY = {"oslo_messaging_notifications": {"driver": "messagingv2"}}


class Listener:
    """A consumer of notifications of any priority."""

    def __init__(self, connection: kombu.Connection) -> None:
        self._connection = connection
        self._heard: SimpleQueue[dict[str, Any]] = SimpleQueue()
        channel = connection.channel()
        queue = kombu.Queue("heard", EXCHANGE, routing_key="notifications.*", auto_delete=True)
        self._consumer = kombu.Consumer(channel, [queue], callbacks=[self._hear], no_ack=True)
        self._consumer.consume()

    def next(self) -> dict[str, Any]:
        """Return the next notification."""
        while True:
            try:
                return self._heard.get_nowait()
            except Empty:
                self._connection.drain_events(timeout=20)

    def _hear(self, body: Any, _message: kombu.Message) -> None:
        decoded = body if isinstance(body, dict) else json.loads(body)
        self._heard.put(json.loads(decoded["oslo.message"]))


@pytest.fixture
def listener(deployment: Deployment) -> Iterator[Listener]:
    with kombu.Connection(deployment.transport_url.replace("rabbit://", "amqp://")) as connection:
        yield Listener(connection)


def test_a_cast_that_is_placed_is_told_by_start_and_end(
    deployment: Deployment, database: Database, client: SchedulerClient, listener: Listener
) -> None:
    a_fleet(database, ["compute1"])
    deployment.scheduler(options=NOTIFY, name="told")
    spec = a_request(vcpus=3, instance_uuid="00000000-0000-0000-1111-000000000001")
    client.cast_select_destinations(RequestContext(user_id="u1"), spec, [spec.instance_uuid])
    start, end = listener.next(), listener.next()
    sample = wire.sample("notification_legacy_end_simple")["message"]
    for heard, phase in ((start, "start"), (end, "end")):
        assert heard["event_type"] == f"scheduler.select_destinations.{phase}"
        assert heard["publisher_id"] == "scheduler.told"
        assert heard["priority"] == "INFO"
        assert heard["_context_user_id"] == "u1"
        assert not heard.get("_context_auth_token")
        assert set(heard["payload"]) == set(sample["payload"])
        assert heard["payload"]["request_spec"]["instance_properties"]["vcpus"] == 3


def test_a_cast_that_finds_no_host_is_told_by_an_error(
    deployment: Deployment, client: SchedulerClient, listener: Listener
) -> None:
    deployment.scheduler(options=NOTIFY)
    client.cast_select_destinations(RequestContext(), a_request(vcpus=1), ["some-uuid"])
    assert listener.next()["event_type"] == "scheduler.select_destinations.start"
    error = listener.next()
    assert error["event_type"] == "scheduler.select_destinations.error"
    assert error["priority"] == "ERROR"
    assert error["payload"]["reason"] == "There are not enough hosts available."


def test_a_placed_cast_takes_its_share_of_the_host(
    deployment: Deployment, database: Database, client: SchedulerClient, listener: Listener
) -> None:
    a_fleet(database, ["compute1"], vcpus=1, cpu_allocation_ratio=1.0)
    deployment.scheduler(options=NOTIFY)
    for uuid, phase in (("first", "end"), ("second", "error")):
        client.cast_select_destinations(RequestContext(), a_request(vcpus=1), [uuid])
        listener.next()
        assert listener.next()["event_type"].endswith(phase)
    # Nobody was answered: the outcome is the claim in the database.
    (node,) = database.read(compute_nodes.all_live)
    assert (node.vcpus_used, node.claims) == (1, 1)
