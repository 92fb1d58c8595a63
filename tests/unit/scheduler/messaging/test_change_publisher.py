# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What was written is cast to schedulers; a broker that does not work costs no more than that."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from inventory import compute_nodes, instances
from inventory.claims import claims, existing
from inventory.claims.types import Changes, Claim, ClaimRequest
from inventory.engine import Database
from scheduler.messaging import background_publisher, change_publisher
from scheduler.messaging.change_publisher import COLLECTING, ChangePublisher
from scheduler.wire import claim_messages, push_messages
from tests.databases import a_node, an_instance
from tests.fixtures.daemons.process import PATIENCE, wait_until

ALWAYS = float("inf")


class Broker:
    """A driver of oslo.messaging that writes down what it gets, and fails or hangs on demand."""

    conf = cfg.CONF

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.targets: list[oslo_messaging.Target] = []
        self.attempts = 0
        # How many of the next attempts fail, and how.
        self.failing = 0.0
        self.failure: Exception = oslo_messaging.MessageDeliveryFailure("the broker\nis gone")
        self.answers = Event()
        self.answers.set()

    def require_features(self, **_: Any) -> None:
        pass

    def send(
        self, target: oslo_messaging.Target, _context: Any, message: dict[str, Any], **options: Any
    ) -> None:
        self.attempts += 1
        assert self.answers.wait(PATIENCE)
        assert options["retry"] == change_publisher.RECONNECTIONS
        self.fail()
        self.targets.append(target)
        self.messages.append(message)

    def fail(self) -> None:
        if self.failing:
            self.failing -= 1
            raise self.failure

    @property
    def published(self) -> list[tuple[str, int]]:
        """Which nodes in which generations have arrived."""
        rows = [row for message in self.messages for row in message["args"]["nodes"]]
        return [(row["host"], row["generation"]) for row in rows]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(ChangePublisher, "stop_timeout", PATIENCE)
    cfg.CONF([], project="berthmaster")
    found = Broker()
    yield found
    found.answers.set()
    cfg.CONF.reset()


@pytest.fixture
def publisher(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangePublisher]:
    """Announcements that try again without a pause."""
    monkeypatch.setattr(ChangePublisher, "first_pause", 0.01)
    monkeypatch.setattr(ChangePublisher, "longest_pause", 0.01)
    transport = oslo_messaging.transport.RPCTransport(broker)
    found = ChangePublisher(lambda: transport, "alpha")
    yield found
    broker.answers.set()
    found.stop()


@dataclass(slots=True)
class Stored:
    """Rows that were written together."""

    nodes: list[Any] = field(default_factory=list)
    instances: list[Any] = field(default_factory=list)
    claims: Sequence[Any] = ()


@pytest.fixture
def scheduler(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangePublisher]:
    """Announcements of a scheduler that try again without a pause."""
    monkeypatch.setattr(ChangePublisher, "first_pause", 0.01)
    monkeypatch.setattr(ChangePublisher, "longest_pause", 0.01)
    transport = oslo_messaging.transport.RPCTransport(broker)
    found = ChangePublisher(lambda: transport, "beta", COLLECTING)
    yield found
    broker.answers.set()
    found.stop()


def claim(database: Database, *wanted: tuple[str, int]) -> Changes:
    """Claim for instances on nodes; return what has changed."""
    made = [Claim(uuid, node, f"h{node}", f"h{node}", 1, 1024, 0) for uuid, node in wanted]
    order = ClaimRequest(f"req of {wanted}", "d", made, 900)
    return database.write(lambda connection: claims.claim(connection, order)).changes


def store(database: Database, *hosts: str, guests: tuple[str, ...] = ()) -> Stored:
    """Write the nodes of hosts with these guests on each, as an audit does."""

    def work(connection: Any) -> Stored:
        stored = Stored()
        for host in hosts:
            seen = [an_instance(f"{host} {guest}") for guest in guests]
            changed = instances.replace(connection, host, host, seen)
            stored.instances += instances.of_place(connection, host, host, changed)
        compute_nodes.save(connection, [a_node(host) for host in hosts])
        stored.nodes = compute_nodes.of_hosts(connection, hosts)
        stored.claims = existing.as_instances(connection, [row.id for row in stored.nodes])
        return stored

    return database.write(work)


def test_every_scheduler_gets_what_was_written(
    publisher: ChangePublisher, broker: Broker, database: Database
) -> None:
    publisher.start()
    publisher.publish(store(database, "h1", "h2", guests=("a", "b")))
    assert wait_until(lambda: broker.messages)
    (message,), (target,) = broker.messages, broker.targets
    assert (message["method"], message["namespace"]) == ("nodes_changed", "berthmaster")
    assert (message["version"], message["args"]["agent"]) == ("1.0", "alpha")
    assert (target.topic, target.fanout) == ("berthmaster-scheduler", True)
    pushed = push_messages.decode(message["args"])
    assert [(row.host, row.generation) for row in pushed.nodes] == [("h1", 1), ("h2", 1)]
    assert sorted(row.uuid for row in pushed.instances) == ["h1 a", "h1 b", "h2 a", "h2 b"]


def test_nothing_is_cast_where_nothing_was_written(
    publisher: ChangePublisher, broker: Broker, database: Database
) -> None:
    publisher.start()
    publisher.publish(Stored())
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.messages)
    assert broker.attempts == 1


def test_while_a_cast_hangs_the_newest_row_of_a_node_replaces_older_ones(
    publisher: ChangePublisher, broker: Broker, database: Database
) -> None:
    broker.answers.clear()
    publisher.start()
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.attempts)
    began = time.monotonic()
    for guests in (("a",), ("a", "b"), ("b", "c")):
        publisher.publish(store(database, "h1", "h2", guests=guests))
    assert time.monotonic() - began < PATIENCE / 2
    broker.answers.set()
    assert wait_until(lambda: len(broker.messages) == 2)
    assert broker.published == [("h1", 1), ("h1", 4), ("h2", 3)]
    # The last row of each guest is published, also if it changed in an earlier audit, or is gone.
    pushed = push_messages.decode(broker.messages[1]["args"])
    assert sorted((row.uuid, bool(row.deleted)) for row in pushed.instances) == [
        (f"h{number} {guest}", guest == "a") for number in (1, 2) for guest in ("a", "b", "c")
    ]


def test_what_fails_is_tried_again_and_said_once(
    publisher: ChangePublisher, broker: Broker, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, background_publisher.__name__)
    broker.failing = ALWAYS
    publisher.start()
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.attempts >= 5)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "they read them from the database: the broker is gone" in caplog.messages[0]
    broker.failing = 0
    assert wait_until(lambda: broker.published == [("h1", 1)])
    assert wait_until(lambda: len(caplog.messages) == 2)
    assert caplog.messages[1] == "Pushing changes to schedulers recovered"
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.published == [("h1", 1), ("h1", 2)])
    assert len(caplog.messages) == 2


def test_one_failure_is_not_worth_a_line(
    publisher: ChangePublisher, broker: Broker, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, background_publisher.__name__)
    broker.failing = 1
    publisher.start()
    for generation in (1, 2):
        publisher.publish(store(database, "h1"))
        assert wait_until(lambda number=generation: ("h1", number) in broker.published)
    assert (broker.attempts, caplog.messages) == (3, [])


def test_rows_that_cannot_be_published_soon_are_dropped(
    publisher: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_publisher, "MAX_AGE", 0.0)
    broker.failing, broker.failure = ALWAYS, ConnectionRefusedError("refused")
    publisher.start()
    for attempts in (1, 2):
        publisher.publish(store(database, "h1"))
        assert wait_until(lambda attempts=attempts: broker.attempts == attempts)
        assert wait_until(lambda: not publisher._waiting)
    broker.failing = 0
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.published == [("h1", 3)])


def test_a_transport_that_cannot_be_made_is_a_failure_like_others(
    broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangePublisher, "first_pause", 0.01)
    monkeypatch.setattr(ChangePublisher, "longest_pause", 0.01)
    made = oslo_messaging.transport.RPCTransport(broker)

    def transport() -> Any:
        broker.fail()
        return made

    broker.failing, broker.failure = ALWAYS, RuntimeError("no transport")
    publisher = ChangePublisher(transport, "alpha")
    publisher.start()
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: publisher._failures > 1)
    broker.failing = 0
    assert wait_until(lambda: broker.published == [("h1", 1)])
    publisher.stop()


def test_many_nodes_go_in_several_messages(
    publisher: ChangePublisher, broker: Broker, database: Database
) -> None:
    publisher.publish(store(database, *(f"h{number}" for number in range(250))))
    publisher.start()
    assert wait_until(lambda: len(broker.published) == 250)
    assert [len(each["args"]["nodes"]) for each in broker.messages] == [100, 100, 50]


def test_many_instances_go_in_several_messages_but_never_without_their_node(
    publisher: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_publisher, "MAX_INSTANCES", 5)
    publisher.publish(store(database, "h1", "h2", "h3", guests=("a", "b", "c")))
    publisher.publish(store(database, "h4", guests=tuple("abcdef")))
    publisher.publish(store(database, "h5"))
    publisher.start()
    assert wait_until(lambda: len(broker.published) == 5)
    sizes = [
        (len(each["args"]["nodes"]), len(each["args"]["instances"])) for each in broker.messages
    ]
    assert sizes == [(1, 3), (1, 3), (1, 3), (1, 6), (1, 0)]


def test_no_more_nodes_wait_than_are_worth_it(
    publisher: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangePublisher, "max_waiting", 2)
    publisher.publish(store(database, "h1", "h2", "h3"))
    publisher.publish(store(database, "h2", "h3"))
    publisher.start()
    assert wait_until(lambda: broker.messages)
    assert broker.published == [("h1", 1), ("h2", 2)]
    publisher.publish(store(database, "h3"))
    assert wait_until(lambda: ("h3", 3) in broker.published)


@pytest.mark.parametrize("started", [False, True])
def test_it_stops_quickly(publisher: ChangePublisher, database: Database, started: bool) -> None:
    if started:
        publisher.start()
    began = time.monotonic()
    publisher.stop()
    publisher.stop()
    publisher.publish(store(database, "h1"))
    assert time.monotonic() - began < PATIENCE / 2
    assert not publisher._thread.is_alive()


@pytest.mark.parametrize("pause", [0.01, 600.0])
def test_it_stops_quickly_while_the_broker_does_not_work(
    publisher: ChangePublisher,
    broker: Broker,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
) -> None:
    monkeypatch.setattr(ChangePublisher, "first_pause", pause)
    monkeypatch.setattr(ChangePublisher, "longest_pause", pause)
    monkeypatch.setattr(ChangePublisher, "stop_timeout", 0.2)
    broker.failing, broker.failure = ALWAYS, RuntimeError()
    publisher.start()
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: publisher._failures)
    if pause < 1:
        broker.answers.clear()
    began = time.monotonic()
    publisher.stop()
    assert time.monotonic() - began < PATIENCE / 2


def test_what_is_claimed_on_a_node_is_published_with_it(
    publisher: ChangePublisher, broker: Broker, database: Database
) -> None:
    store(database, "h1", "h2")
    claim(database, ("u1", 1), ("u2", 1), ("u3", 2))
    publisher.start()
    publisher.publish(store(database, "h1"))
    assert wait_until(lambda: broker.messages)
    pushed = push_messages.decode(broker.messages[0]["args"])
    assert [(row.uuid, row.compute_node_id) for row in pushed.claims] == [("u1", 1), ("u2", 1)]


def claimed(broker: Broker) -> list[list[tuple[int, int]]]:
    """Return which nodes to which generations have changed, by message."""
    messages = (each["args"]["changes"]["nodes"] for each in broker.messages)
    return [[*zip(each["node_id"], each["after"], strict=True)] for each in messages]


def test_what_a_scheduler_claims_within_a_moment_is_one_message(
    scheduler: ChangePublisher, broker: Broker, database: Database
) -> None:
    store(database, "h1", "h2")
    scheduler.start()
    # The same node twice: each change counts.
    for wanted in ((("u1", 1), ("u2", 2)), (("u3", 1),)):
        scheduler.publish_claims(claim(database, *wanted))
    scheduler.publish_claims({})
    assert wait_until(lambda: broker.messages)
    (message,), (target,) = broker.messages, broker.targets
    assert (message["method"], message["args"]["agent"]) == ("nodes_changed", "beta")
    assert (target.topic, target.fanout) == ("berthmaster-scheduler", True)
    assert claimed(broker) == [[(1, 2), (2, 2), (1, 3)]]
    found = claim_messages.decode(message["args"])
    assert [[claim.uuid for claim in each.added] for each in found] == [["u1"], ["u2"], ["u3"]]


def test_claims_that_cannot_be_published_soon_are_dropped(
    scheduler: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_publisher, "MAX_AGE", 0.0)
    broker.failing = ALWAYS
    store(database, "h1")
    scheduler.start()
    scheduler.publish_claims(claim(database, ("u1", 1)))
    assert wait_until(lambda: broker.attempts and not scheduler._waiting)
    broker.failing = 0
    scheduler.publish_claims(claim(database, ("u2", 1)))
    assert wait_until(lambda: claimed(broker) == [[(1, 3)]])


def test_no_more_claims_wait_than_are_worth_it(
    scheduler: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangePublisher, "max_waiting", 2)
    store(database, "h1", "h2", "h3")
    scheduler.publish_claims(claim(database, ("u1", 1), ("u2", 2), ("u3", 3)))
    scheduler.start()
    assert wait_until(lambda: broker.messages)
    assert claimed(broker) == [[(1, 2), (2, 2)]]


def test_many_claims_go_in_several_messages_but_never_without_their_node(
    scheduler: ChangePublisher, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_publisher, "MAX_INSTANCES", 3)
    store(database, "h1", "h2", "h3")
    wanted = [(f"u{node}{each}", node) for node in (1, 2, 3) for each in range((2, 4, 1)[node - 1])]
    scheduler.publish_claims(claim(database, *wanted))
    scheduler.start()
    assert wait_until(lambda: len(broker.messages) == 3)
    assert [len(each["args"]["changes"]["added"]["uuid"]) for each in broker.messages] == [2, 4, 1]


def test_rows_and_claims_go_in_messages_of_their_own(
    scheduler: ChangePublisher, broker: Broker, database: Database
) -> None:
    scheduler.publish(store(database, "h1"))
    scheduler.publish_claims(claim(database, ("u1", 1)))
    scheduler.start()
    assert wait_until(lambda: len(broker.messages) == 2)
    assert [{"nodes", "changes"} & each["args"].keys() for each in broker.messages] == [
        {"nodes"},
        {"changes"},
    ]


def test_it_stops_quickly_while_it_collects(
    scheduler: ChangePublisher, database: Database, broker: Broker
) -> None:
    store(database, "h1")
    scheduler.collect_seconds = 600.0
    scheduler.start()
    scheduler.publish_claims(claim(database, ("u1", 1)))
    began = time.monotonic()
    scheduler.stop()
    assert time.monotonic() - began < PATIENCE / 2
    assert not scheduler._thread.is_alive()
    assert claimed(broker) == [[(1, 2)]]
