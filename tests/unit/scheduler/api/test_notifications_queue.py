# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests do not wait for the broker of notifications; what fails is tried again, or lost."""

import logging
import time
from collections.abc import Iterator
from threading import Event, get_ident
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging.transport import NotificationTransport

from scheduler.api.notifications import NotificationQueue, stop_all
from scheduler.messaging.transport import RECONNECTIONS
from tests.fixtures.daemons.process import PATIENCE, wait_until

ALWAYS = float("inf")
MAX_WAITING = NotificationQueue.max_waiting
TARGET = oslo_messaging.Target(topic="notifications.info")


class Broker:
    """A driver of oslo.messaging that writes down what it gets, and fails or hangs on demand."""

    conf = cfg.CONF

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.retries: list[int | None] = []
        self.threads: set[int] = set()
        # How many of the next attempts fail, and how.
        self.failing = 0.0
        self.failure: Exception = oslo_messaging.MessageDeliveryFailure("the broker\nis gone")
        self.answers = Event()
        self.answers.set()
        self.closures = 0

    def send_notification(
        self,
        target: oslo_messaging.Target,
        _context: dict[str, Any],
        message: dict[str, Any],
        version: float,
        retry: int | None,
    ) -> None:
        assert (target, version) == (TARGET, 2.0)
        self.threads.add(get_ident())
        self.retries.append(retry)
        # The real one adds to it as well.
        assert "_unique_id" not in message
        message["_unique_id"] = "c1"
        assert self.answers.wait(PATIENCE)
        if self.failing:
            self.failing -= 1
            raise self.failure
        self.taken.append(message["number"])

    def cleanup(self) -> None:
        self.closures += 1

    @property
    def closed(self) -> bool:
        return self.closures > 0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(NotificationQueue, "stop_timeout", PATIENCE)
    found = Broker()
    yield found
    found.answers.set()


@pytest.fixture
def queue(broker: Broker, caplog: pytest.LogCaptureFixture) -> Iterator[NotificationQueue]:
    caplog.set_level(logging.INFO)
    found = NotificationQueue(NotificationTransport(broker))
    found.first_pause = 0.01
    yield found
    broker.answers.set()
    stop(found)


def stop(queue: NotificationQueue) -> None:
    """Stop the only one that a transport has."""
    stop_all([queue], queue._transport)


def put(queue: NotificationQueue, *numbers: int, retry: int | None = -1) -> None:
    for number in numbers:
        queue.send_notification(TARGET, {}, {"number": number}, 2.0, retry)


def test_what_is_put_is_sent_in_order_by_another_thread(
    queue: NotificationQueue, broker: Broker
) -> None:
    put(queue, 1)
    queue.start()
    put(queue, 2, 3)
    assert wait_until(lambda: len(broker.taken) == 3)
    assert broker.taken == [1, 2, 3]
    assert broker.threads.isdisjoint({get_ident()})


def test_a_broker_that_hangs_holds_up_nobody(
    queue: NotificationQueue, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.answers.clear()
    queue.start()
    began = time.monotonic()
    put(queue, *range(MAX_WAITING + 3))
    assert time.monotonic() - began < PATIENCE / 2
    assert caplog.messages == [
        f"Sending notifications drops items: {MAX_WAITING} others are waiting"
    ]
    broker.answers.set()
    assert wait_until(lambda: len(caplog.messages) == 2)
    assert caplog.messages[1] == "Sending notifications recovered; 3 items were dropped"
    assert queue.dropped == 3
    assert broker.taken == [*range(MAX_WAITING)]


def test_what_fails_is_tried_until_it_does_not(
    queue: NotificationQueue, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = 3
    queue.start()
    put(queue, 1, 2)
    assert wait_until(lambda: len(broker.taken) == 2)
    assert broker.taken == [1, 2]
    # Not for ever by oslo.messaging: the end of the process could not be told to wait no longer.
    assert set(broker.retries) == {RECONNECTIONS}
    assert wait_until(lambda: len(caplog.messages) == 2)
    assert caplog.messages == [
        "Sending notifications failed, trying again: the broker is gone",
        "Sending notifications recovered",
    ]
    caplog.clear()
    # Said again when it happens again.
    broker.failing, broker.failure = 1, OSError()
    put(queue, 3)
    assert wait_until(lambda: len(caplog.messages) == 2)
    assert caplog.messages[0] == "Sending notifications failed, trying again: OSError()"


def test_the_operator_says_how_often_to_retry(
    queue: NotificationQueue, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = 2
    queue.start()
    put(queue, 1, retry=0)
    put(queue, 2, retry=2)
    put(queue, 3, retry=None)
    assert wait_until(lambda: len(caplog.messages) == 3)
    assert broker.taken == [3]
    assert broker.retries == [0, 2, RECONNECTIONS]
    assert caplog.messages[1:] == [
        "Sending notifications drops items: they cannot be sent",
        "Sending notifications recovered; 2 items were dropped",
    ]


def test_what_can_never_be_sent_keeps_nothing_else_waiting(
    queue: NotificationQueue, broker: Broker
) -> None:
    broker.failing, broker.failure = 1, TypeError("not JSON serializable")
    queue.start()
    put(queue, 1, 2)
    assert wait_until(lambda: broker.taken == [2])


def test_pauses_grow_up_to_a_bound(
    queue: NotificationQueue, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NotificationQueue, "longest_pause", 0.02)
    broker.failing = ALWAYS
    queue.start()
    put(queue, 1)
    assert wait_until(lambda: len(broker.retries) > 5)


def test_stop_sends_the_rest(queue: NotificationQueue, broker: Broker) -> None:
    put(queue, *range(100))
    queue.start()
    stop(queue)
    assert broker.taken == [*range(100)]
    assert broker.closed


def test_stop_does_not_wait_for_a_broker_that_is_gone(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = ALWAYS
    queue = NotificationQueue(NotificationTransport(broker))
    queue.first_pause = PATIENCE
    queue.start()
    put(queue, 1, 2)
    assert wait_until(lambda: broker.retries)
    began = time.monotonic()
    stop(queue)
    assert time.monotonic() - began < PATIENCE / 2
    assert caplog.messages[-1] == "Sending notifications stopped with 2 items not sent"
    assert broker.closed


def test_stop_tries_once_more(broker: Broker) -> None:
    broker.failing = 1
    queue = NotificationQueue(NotificationTransport(broker))
    queue.first_pause = 60
    queue.start()
    put(queue, 1, 2)
    assert wait_until(lambda: not broker.failing)
    stop(queue)
    assert broker.taken == [1, 2]


def test_stop_waits_only_so_long_for_a_broker_that_hangs(
    queue: NotificationQueue, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NotificationQueue, "stop_timeout", 0.05)
    broker.answers.clear()
    queue.start()
    put(queue, 1)
    assert wait_until(lambda: broker.retries)
    stop(queue)
    # What is in use is not closed.
    assert not broker.closed
    assert not broker.taken


def test_stop_of_what_was_never_started(queue: NotificationQueue, broker: Broker) -> None:
    stop(queue)
    assert broker.closed


def test_stop_waits_for_all_at_the_same_time_and_closes_the_transport_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(NotificationQueue, "stop_timeout", 0.2)
    transport = NotificationTransport(broker)
    queues = [
        NotificationQueue(transport, what) for what in ("notifications", "versioned notifications")
    ]
    broker.answers.clear()
    for each in queues:
        each.start()
        put(each, 1)
    assert wait_until(lambda: len(broker.retries) == 2)
    stop_all(queues, transport)
    assert broker.closures == 0
    assert caplog.messages == [
        "Sending notifications stopped with 1 item not sent",
        "Sending versioned notifications stopped with 1 item not sent",
    ]
    broker.answers.set()
    assert wait_until(lambda: broker.taken == [1, 1])
    monkeypatch.setattr(NotificationQueue, "stop_timeout", PATIENCE)
    stop_all(queues, transport)
    assert broker.closures == 1
