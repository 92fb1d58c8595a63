# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications and casts: what consumers hear of a request, and whom it never holds up."""

import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import kombu
import pytest
import sqlalchemy as sa

from inventory import tables
from tests.backends import backends_alike
from tests.fixtures.amqp_caller import EXCHANGE
from tests.fixtures.captured_fleet import Replaying, replaying, with_cell
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, Process, ProcessError, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, wait_for_log
from tests.unit.scheduler.wire import notified, wire_samples

GROUP = "oslo_messaging_notifications"
TOPICS = ("notifications", "versioned_notifications")
EVENT = "scheduler.select_destinations."
TOLD = [f"{EVENT}start", f"{EVENT}end"]
BACKENDS = ("eventlet", "threading")
# Seconds. Without a thread for notifications a request took from 15 to for ever.
AT_ONCE = 12.0
# Where the full request has to go, and the hosts of its zone.
ZONES = {"simple": [], "full_spec": [notified.CHOSEN]}
# It asks for the resources of a port, which is refused.
REFUSED = "call_select_destinations_4.5_full_spec"
# It has the URLs of the cell's database and broker.
WITH_CELL = "call_select_destinations_4.5_cold_migrate"
SECRETS = ("token1", "10.0.0.9", "10.0.0.5", "pymysql", "rabbit://", "://")
# Entries of the context that Nova sends and we do not: they are not kept, most are secret or empty.
NOT_KEPT = {
    "auth_token",
    "is_admin_project",
    "quota_class",
    "read_deleted",
    "read_only",
    "remote_address",
    "resource_uuid",
    "service_catalog",
    "show_deleted",
    "system_scope",
    "timestamp",
    "user_identity",
}
# As conductors before Pike call the project; consumers may still look for it.
FORMER = {"tenant": "project1"}


def sending(form: str, **more: Any) -> dict[str, dict[str, Any]]:
    """Return the options for notifications of a format."""
    driver = {"driver": "messagingv2", **more}
    found = with_cell({GROUP: driver, "notifications": {"notification_format": form}})
    return {group: dict(options) for group, options in found.items()}


class Listener:
    """A consumer of all notifications of any priority."""

    def __init__(self, connection: kombu.Connection) -> None:
        self._connection = connection
        self._heard: SimpleQueue[kombu.Message] = SimpleQueue()
        channel = connection.channel()
        bindings = [kombu.binding(EXCHANGE, f"{topic}.*") for topic in TOPICS]
        queue = kombu.Queue("heard", bindings=bindings, auto_delete=True, durable=False)
        self._consumer = kombu.Consumer(
            channel, [queue], on_message=self._heard.put, no_ack=True, accept=["json"]
        )
        EXCHANGE(channel).declare()
        self._consumer.consume()

    def next(self) -> kombu.Message:
        """Return the next notification as it came."""
        while True:
            try:
                return self._heard.get_nowait()
            except Empty:
                self._connection.drain_events(timeout=PATIENCE)

    def by_format(self, count: int) -> list[kombu.Message]:
        """Return so many notifications of each format: each in order, the legacy ones first.

        One format does not wait for the other.
        """
        heard = [self.next() for _ in range(count * len(TOPICS))]
        return sorted(heard, key=lambda each: TOPICS.index(topic_of(each)))

    def next_contents(self, count: int) -> list[dict[str, Any]]:
        """Return the next notifications themselves."""
        return [content(self.next()) for _ in range(count)]


def topic_of(message: kombu.Message) -> str:
    """Return the topic that a notification was sent to."""
    return str(message.delivery_info["routing_key"]).partition(".")[0]


def content(message: kombu.Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.payload["oslo.message"])
    return found


def cast(replaying: Replaying, name: str, scheduler: str = "scheduler1") -> None:
    """Send a captured call so that nobody waits for an answer."""
    message = wire_samples.sample(name)["message"]
    del message["_msg_id"], message["_reply_q"]
    replaying.caller.send(message, f"scheduler.{scheduler}")


@pytest.fixture(scope="module")
def served(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replaying]:
    """A scheduler that notifies in both formats."""
    directory = tmp_path_factory.mktemp("notifications")
    isolating = {"scheduler": {"enable_isolated_aggregate_filtering": True}}
    with replaying(rabbitmq, mariadb, directory, sending("both") | isolating) as found:
        # The image of the full request requires it.
        trait = {"aggregate_id": 1, "key": "trait:HW_CPU_X86_AVX2", "value": "required"}
        insert = sa.insert(tables.aggregate_metadata).values(trait)
        found.fleet.database.write(lambda connection: connection.execute(insert))
        yield found


@pytest.fixture
def cloud(served: Replaying) -> Replaying:
    served.fleet.release()
    served.fleet.set_zone([])
    return served


@pytest.fixture
def listener(rabbitmq: RabbitMQ) -> Iterator[Listener]:
    with kombu.Connection(rabbitmq.transport_url.replace("rabbit://", "amqp://")) as connection:
        yield Listener(connection)


@pytest.mark.parametrize("kind", notified.CALLS)
def test_notifications_are_those_of_nova(cloud: Replaying, listener: Listener, kind: str) -> None:
    cloud.fleet.set_zone(ZONES[kind])
    call = wire_samples.sample(notified.CALLS[kind])
    assert cloud.caller.call(call["message"], "scheduler.scheduler1")["failure"] is None
    messages = iter(listener.by_format(len(notified.PHASES)))
    for form, phase in product(notified.FORMATS, notified.PHASES):
        captured = wire_samples.sample(f"notification_{form}_{phase}_{kind}")
        message = next(messages)
        assert envelope(message) == captured["amqp"]
        found = content(message)
        assert found.pop("payload") == notified.payload(form, phase, kind)
        expected = captured["message"]
        for name in ("message_id", "_unique_id", "timestamp"):
            assert len(found.pop(name)) == len(expected.pop(name))
        del expected["payload"]
        for name in NOT_KEPT:
            # What is secret is emptied there as well.
            del expected[f"_context_{name}"]
        assert found == expected | {f"_context_{name}": each for name, each in FORMER.items()}


def envelope(message: kombu.Message) -> dict[str, Any]:
    """Return what AMQP says of a message."""
    properties = message.properties
    return {
        "exchange": message.delivery_info["exchange"],
        "routing_key": message.delivery_info["routing_key"],
        "properties": {
            "content_encoding": message.content_encoding,
            "content_type": message.content_type,
            "delivery_mode": properties["delivery_mode"],
            "headers": message.headers,
            "priority": properties["priority"],
        },
    }


def test_a_cast_is_notified_by_start_and_end_and_takes_its_share(
    cloud: Replaying, listener: Listener
) -> None:
    cast(cloud, notified.CALLS["simple"])
    assert [content(each)["event_type"] for each in listener.by_format(2)] == TOLD * 2
    # Nobody was answered: the outcome is the claim in the database.
    (claim,) = cloud.fleet.claims()
    assert claim.instance_uuid == "00000000-0000-0000-1111-000000000001"


def test_a_cast_that_finds_no_host_is_notified_by_an_error(
    cloud: Replaying, listener: Listener
) -> None:
    cast(cloud, REFUSED)
    started, legacy, _, versioned = listener.by_format(2)
    assert content(started)["event_type"] == f"{EVENT}start"
    for message, form in ((legacy, "notifications"), (versioned, "versioned_notifications")):
        assert message.delivery_info["routing_key"] == f"{form}.error"
        error = content(message)
        assert (error["event_type"], error["priority"]) == (f"{EVENT}error", "ERROR")
    reason = "Resources of ports or accelerators are requested, which only placement can allocate."
    payload = content(legacy)["payload"]
    assert payload == content(started)["payload"] | {"reason": reason}
    data = content(versioned)["payload"]["nova_object.data"]
    assert data["reason"] == reason
    assert data["request_spec"]["nova_object.name"] == "RequestSpecPayload"
    assert not cloud.fleet.claims()


@pytest.mark.parametrize("name", [REFUSED, WITH_CELL])
def test_no_notification_has_a_secret(cloud: Replaying, listener: Listener, name: str) -> None:
    sent = json.dumps(wire_samples.sample(name)["message"])
    assert {each for each in SECRETS if each in sent} == set(SECRETS)
    cast(cloud, name)
    for _ in range(4):
        heard = listener.next().body
        text = heard if isinstance(heard, str) else bytes(heard).decode()
        assert not [each for each in SECRETS if each in text]
    # Nor has the log, which may name addresses of its own.
    assert "token1" not in cloud.scheduler.log.read_text()


def test_the_format_is_chosen(cloud: Replaying, listener: Listener) -> None:
    options = {
        "silent": with_cell({"notifications": {"notification_format": "both"}}),
        "unversioned": sending("unversioned"),
        "versioned": sending("versioned", topics="unused"),
    }
    started: list[Process] = []
    try:
        for name, each in options.items():
            started.append(cloud.deployment.scheduler("threading", each, name=name))
            cast(cloud, notified.CALLS["simple"], name)
        # What the silent one had sent would have come before.
        heard = [each["publisher_id"] for each in listener.next_contents(4)]
        assert sorted(heard) == ["nova-scheduler:versioned"] * 2 + ["scheduler.unversioned"] * 2
    finally:
        for process in started:
            process.kill()


@pytest.mark.matrix
def test_a_broker_of_notifications_that_is_gone_holds_up_no_request(
    cloud: Replaying, tmp_path: Path
) -> None:
    with RabbitMQ(tmp_path) as broker:
        apart = sending("unversioned", transport_url=broker.transport_url)
        schedulers = [cloud.deployment.scheduler(name, apart, name=name) for name in BACKENDS]
        try:
            ask_both(cloud)
            assert waiting(broker, 4) == dict.fromkeys(BACKENDS, TOLD)
            broker.pause()
            ask_both(cloud)
            broker.resume()
            assert waiting(broker, 4) == dict.fromkeys(BACKENDS, TOLD)
            broker.kill()
            ask_both(cloud)
            for each in schedulers:
                wait_for_log(each, "Sending notifications failed")
            ask_both(cloud)
            broker.start()
            assert waiting(broker, 8) == dict.fromkeys(BACKENDS, TOLD * 2)
            for each in schedulers:
                wait_for_log(each, "Sending notifications recovered\n")
                log = each.log.read_text()
                assert log.count("Sending notifications failed") == 1
                assert "Traceback" not in log
            broker.kill()
            ask_both(cloud)
            assert [each.stop() for each in schedulers] == [0, 0]
        finally:
            for each in schedulers:
                each.kill()


@backends_alike
def test_a_topic_that_the_broker_refuses_holds_up_no_other_format(
    cloud: Replaying, rabbitmq: RabbitMQ, listener: Listener, backend: str
) -> None:
    topic = f"refused-{backend}"
    both = sending("both")
    both["notifications"]["versioned_notifications_topics"] = topic
    # Schedulers declare it as one that is not durable.
    url = rabbitmq.transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection, connection.channel() as channel:
        durable = kombu.Queue(f"{topic}.info", durable=True)(channel)
        durable.declare()
        process = cloud.deployment.scheduler(backend, both, name=topic)
        try:
            for _ in range(3):
                cast(cloud, notified.CALLS["simple"], topic)
            heard = listener.next_contents(6)
            assert sorted(each["event_type"] for each in heard) == sorted(TOLD * 3)
            assert {each["publisher_id"] for each in heard} == {f"scheduler.{topic}"}
            wait_for_log(process, "Sending versioned notifications failed")
            assert "Sending notifications failed" not in process.log.read_text()
            assert process.stop() == 0
        finally:
            process.kill()
            durable.delete()


def ask_both(cloud: Replaying) -> None:
    """Call both schedulers, which answer at once."""
    for name in BACKENDS:
        began = time.monotonic()
        message = wire_samples.sample(notified.CALLS["simple"])["message"]
        assert cloud.caller.call(message, f"scheduler.{name}")["failure"] is None
        assert time.monotonic() - began < AT_ONCE


def waiting(broker: RabbitMQ, count: int) -> dict[str, list[str]]:
    """Return by backend the events in the queue that is made for consumers to come."""
    found: list[dict[str, Any]] = []
    url = broker.transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection, connection.channel() as channel:
        bare = kombu.Queue("notifications.info", EXCHANGE, "notifications.info", durable=False)
        queue = bare(channel)
        queue.declare()

        def heard_all() -> bool:
            while message := queue.get(no_ack=True):
                found.append(content(message))
            return len(found) >= count

        assert wait_until(heard_all), found
    return {
        name: [each["event_type"] for each in found if each["publisher_id"].endswith(f".{name}")]
        for name in BACKENDS
    }


def test_a_url_of_no_use_stops_the_start(deployment: Deployment) -> None:
    options = {GROUP: {"driver": "messagingv2", "transport_url": "rabbit://u:secret#@127.0.0.1/"}}
    with pytest.raises(ProcessError, match="ended with status 1") as stopped:
        deployment.scheduler(options=options)
    log = stopped.value.log.read_text()
    refusal = log.splitlines()[-1]
    assert refusal.startswith(f"berthmaster-scheduler: option [{GROUP}] transport_url in /")
    assert "Traceback" not in log
    assert "secret" not in log
