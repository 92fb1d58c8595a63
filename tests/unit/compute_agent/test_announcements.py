# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What audits wrote is cast to schedulers; a broker that does not work costs no more than that."""

import logging
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from compute_agent import announcements
from compute_agent.announcements import Announcements
from compute_agent.storing import Stored
from inventory import compute_nodes, instances
from inventory.engine import Database
from scheduler.rpc import changes
from tests.databases import a_node, an_instance
from tests.fixtures.daemons.process import wait_until

SOON = 20.0
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
        assert self.answers.wait(60)
        assert options["retry"] == announcements.RETRIES
        self.fail()
        self.targets.append(target)
        self.messages.append(message)

    def fail(self) -> None:
        if self.failing:
            self.failing -= 1
            raise self.failure

    @property
    def told(self) -> list[tuple[str, int]]:
        """Which nodes in which generations have arrived."""
        rows = [row for message in self.messages for row in message["args"]["nodes"]]
        return [(row["host"], row["generation"]) for row in rows]


@pytest.fixture
def broker() -> Iterator[Broker]:
    cfg.CONF([], project="berthmaster")
    found = Broker()
    yield found
    found.answers.set()
    cfg.CONF.reset()


@pytest.fixture
def teller(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Announcements]:
    """Announcements that try again without a pause."""
    monkeypatch.setattr(announcements, "PAUSE", 0.01)
    transport = oslo_messaging.transport.RPCTransport(broker)
    found = Announcements(lambda: transport, "alpha")
    yield found
    broker.answers.set()
    found.stop()


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
        return stored

    return database.write(work)


def test_every_scheduler_is_told_what_was_written(
    teller: Announcements, broker: Broker, database: Database
) -> None:
    teller.start()
    teller.tell(store(database, "h1", "h2", guests=("a", "b")))
    assert wait_until(lambda: broker.messages, SOON)
    (message,), (target,) = broker.messages, broker.targets
    assert (message["method"], message["namespace"]) == ("nodes_changed", "berthmaster")
    assert (message["version"], message["args"]["agent"]) == ("1.0", "alpha")
    assert (target.topic, target.fanout) == ("berthmaster-scheduler", True)
    pushed = changes.decode(message["args"])
    assert [(row.host, row.generation) for row in pushed.nodes] == [("h1", 1), ("h2", 1)]
    assert sorted(row.uuid for row in pushed.instances) == ["h1 a", "h1 b", "h2 a", "h2 b"]


def test_nothing_is_cast_where_nothing_was_written(
    teller: Announcements, broker: Broker, database: Database
) -> None:
    teller.start()
    teller.tell(Stored())
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: broker.messages, SOON)
    assert broker.attempts == 1


def test_while_a_cast_hangs_the_newest_row_of_a_node_replaces_older_ones(
    teller: Announcements, broker: Broker, database: Database
) -> None:
    broker.answers.clear()
    teller.start()
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: broker.attempts, SOON)
    began = time.monotonic()
    for guests in (("a",), ("a", "b"), ("b", "c")):
        teller.tell(store(database, "h1", "h2", guests=guests))
    assert time.monotonic() - began < 5
    broker.answers.set()
    assert wait_until(lambda: len(broker.messages) == 2, SOON)
    assert broker.told == [("h1", 1), ("h1", 4), ("h2", 3)]
    # Of each guest the last row is told, also when it changed in an earlier audit, or has gone.
    pushed = changes.decode(broker.messages[1]["args"])
    assert sorted((row.uuid, bool(row.deleted)) for row in pushed.instances) == [
        (f"h{number} {guest}", guest == "a") for number in (1, 2) for guest in ("a", "b", "c")
    ]


def test_what_fails_is_tried_again_and_said_once(
    teller: Announcements, broker: Broker, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, announcements.__name__)
    broker.failing = ALWAYS
    teller.start()
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: broker.attempts >= 5, SOON)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "when they read the database: the broker is gone" in caplog.messages[0]
    broker.failing = 0
    assert wait_until(lambda: broker.told == [("h1", 1)], SOON)
    assert wait_until(lambda: len(caplog.messages) == 2, SOON)
    assert caplog.messages[1] == "Schedulers are told of changes at once again"
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: broker.told == [("h1", 1), ("h1", 2)], SOON)
    assert len(caplog.messages) == 2


def test_one_failure_is_not_worth_a_line(
    teller: Announcements, broker: Broker, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, announcements.__name__)
    broker.failing = 1
    teller.start()
    for generation in (1, 2):
        teller.tell(store(database, "h1"))
        assert wait_until(lambda number=generation: ("h1", number) in broker.told, SOON)
    assert (broker.attempts, caplog.messages) == (3, [])


def test_rows_that_cannot_be_told_soon_are_dropped(
    teller: Announcements, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "KEPT", 0.0)
    broker.failing, broker.failure = ALWAYS, ConnectionRefusedError("refused")
    teller.start()
    for attempts in (1, 2):
        teller.tell(store(database, "h1"))
        assert wait_until(lambda attempts=attempts: broker.attempts == attempts, SOON)
        assert wait_until(lambda: not teller._waiting, SOON)
    broker.failing = 0
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: broker.told == [("h1", 3)], SOON)


def test_a_transport_that_cannot_be_made_is_a_failure_like_others(
    broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "PAUSE", 0.01)
    made = oslo_messaging.transport.RPCTransport(broker)

    def transport() -> Any:
        broker.fail()
        return made

    broker.failing, broker.failure = ALWAYS, RuntimeError("no transport")
    teller = Announcements(transport, "alpha")
    teller.start()
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: teller._failures > 1, SOON)
    broker.failing = 0
    assert wait_until(lambda: broker.told == [("h1", 1)], SOON)
    teller.stop()


def test_many_nodes_go_in_several_messages(
    teller: Announcements, broker: Broker, database: Database
) -> None:
    teller.tell(store(database, *(f"h{number}" for number in range(250))))
    teller.start()
    assert wait_until(lambda: len(broker.told) == 250, SOON)
    assert [len(each["args"]["nodes"]) for each in broker.messages] == [100, 100, 50]


def test_many_instances_go_in_several_messages_but_never_without_their_node(
    teller: Announcements, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "MANY_INSTANCES", 5)
    teller.tell(store(database, "h1", "h2", "h3", guests=("a", "b", "c")))
    teller.tell(store(database, "h4", guests=tuple("abcdef")))
    teller.tell(store(database, "h5"))
    teller.start()
    assert wait_until(lambda: len(broker.told) == 5, SOON)
    sizes = [
        (len(each["args"]["nodes"]), len(each["args"]["instances"])) for each in broker.messages
    ]
    assert sizes == [(1, 3), (1, 3), (1, 3), (1, 6), (1, 0)]


def test_no_more_nodes_wait_than_are_worth_it(
    teller: Announcements, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "MOST_WAITING", 2)
    teller.tell(store(database, "h1", "h2", "h3"))
    teller.tell(store(database, "h2", "h3"))
    teller.start()
    assert wait_until(lambda: broker.messages, SOON)
    assert broker.told == [("h1", 1), ("h2", 2)]
    teller.tell(store(database, "h3"))
    assert wait_until(lambda: ("h3", 3) in broker.told, SOON)


@pytest.mark.parametrize("started", [False, True])
def test_it_stops_quickly(teller: Announcements, database: Database, started: bool) -> None:
    if started:
        teller.start()
    began = time.monotonic()
    teller.stop()
    teller.stop()
    teller.tell(store(database, "h1"))
    assert time.monotonic() - began < 5
    assert not teller._thread.is_alive()


@pytest.mark.parametrize("pause", [0.01, 600.0])
def test_it_stops_quickly_while_the_broker_does_not_work(
    teller: Announcements,
    broker: Broker,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
) -> None:
    monkeypatch.setattr(announcements, "PAUSE", pause)
    monkeypatch.setattr(announcements, "PATIENCE", 0.2)
    broker.failing, broker.failure = ALWAYS, RuntimeError()
    teller.start()
    teller.tell(store(database, "h1"))
    assert wait_until(lambda: teller._failures, SOON)
    if pause < 1:
        broker.answers.clear()
    began = time.monotonic()
    teller.stop()
    assert time.monotonic() - began < 5
