# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nobody waits for the broker of notifications; what it does not take is tried again, or lost."""

import logging
import time
from collections.abc import Iterator
from threading import Event, get_ident
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging.transport import NotificationTransport

from scheduler.rpc import outbox
from scheduler.rpc.outbox import MOST_WAITING, RECONNECTIONS, Outbox
from tests.fixtures.daemons.process import wait_until

SOON = 20.0
ALWAYS = float("inf")
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
        assert self.answers.wait(60)
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
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.answers.set()


@pytest.fixture
def box(broker: Broker, caplog: pytest.LogCaptureFixture) -> Iterator[Outbox]:
    caplog.set_level(logging.INFO)
    found = Outbox(NotificationTransport(broker), first_pause=0.01)
    yield found
    broker.answers.set()
    stop(found)


def stop(box: Outbox) -> None:
    """Stop the only one that a transport has."""
    outbox.stop([box], box._transport)


def put(box: Outbox, *numbers: int, retry: int | None = -1) -> None:
    for number in numbers:
        box.send_notification(TARGET, {}, {"number": number}, 2.0, retry)


def test_what_is_put_is_sent_in_order_by_another_thread(box: Outbox, broker: Broker) -> None:
    put(box, 1)
    box.start()
    put(box, 2, 3)
    assert wait_until(lambda: len(broker.taken) == 3, SOON)
    assert broker.taken == [1, 2, 3]
    assert broker.threads.isdisjoint({get_ident()})


def test_a_broker_that_hangs_holds_up_nobody(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.answers.clear()
    box.start()
    began = time.monotonic()
    put(box, *range(MOST_WAITING + 3))
    assert time.monotonic() - began < SOON
    assert caplog.messages == [
        f"Notifications are being lost: {MOST_WAITING} others wait to be sent"
    ]
    broker.answers.set()
    assert wait_until(lambda: len(caplog.messages) == 2, SOON)
    assert caplog.messages[1] == "Notifications are sent again; 3 were lost"
    assert broker.taken == [*range(MOST_WAITING)]


def test_what_fails_is_tried_until_it_does_not(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = 3
    box.start()
    put(box, 1, 2)
    assert wait_until(lambda: len(broker.taken) == 2, SOON)
    assert broker.taken == [1, 2]
    # Not for ever by oslo.messaging: the end of the process could not be told to wait no longer.
    assert set(broker.retries) == {RECONNECTIONS}
    assert wait_until(lambda: len(caplog.messages) == 2, SOON)
    assert caplog.messages == [
        "Notifications cannot be sent: the broker is gone",
        "Notifications are sent again; 0 were lost",
    ]
    caplog.clear()
    # Said again when it happens again.
    broker.failing, broker.failure = 1, OSError()
    put(box, 3)
    assert wait_until(lambda: len(caplog.messages) == 2, SOON)
    assert caplog.messages[0] == "Notifications cannot be sent: OSError()"


def test_the_operator_says_how_often_to_retry(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = 2
    box.start()
    put(box, 1, retry=0)
    put(box, 2, retry=2)
    put(box, 3, retry=None)
    assert wait_until(lambda: len(caplog.messages) == 3, SOON)
    assert broker.taken == [3]
    assert broker.retries == [0, 2, RECONNECTIONS]
    assert caplog.messages[1:] == [
        "Notifications are being lost: more attempts are not allowed",
        "Notifications are sent again; 2 were lost",
    ]


def test_what_can_never_be_sent_keeps_nothing_else_waiting(box: Outbox, broker: Broker) -> None:
    broker.failing, broker.failure = 1, TypeError("not JSON serializable")
    box.start()
    put(box, 1, 2)
    assert wait_until(lambda: broker.taken == [2], SOON)


def test_pauses_grow_up_to_a_bound(
    box: Outbox, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LONGEST_PAUSE", 0.02)
    broker.failing = ALWAYS
    box.start()
    put(box, 1)
    assert wait_until(lambda: len(broker.retries) > 5, SOON)


def test_stop_sends_the_rest(box: Outbox, broker: Broker) -> None:
    put(box, *range(100))
    box.start()
    stop(box)
    assert broker.taken == [*range(100)]
    assert broker.closed


def test_stop_does_not_wait_for_a_broker_that_is_gone(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = ALWAYS
    box = Outbox(NotificationTransport(broker), first_pause=SOON)
    box.start()
    put(box, 1, 2)
    assert wait_until(lambda: broker.retries, SOON)
    began = time.monotonic()
    stop(box)
    assert time.monotonic() - began < SOON / 2
    assert caplog.messages[-1] == "Leaving with 2 notifications that could not be sent"
    assert broker.closed


def test_stop_tries_once_more(broker: Broker) -> None:
    broker.failing = 1
    box = Outbox(NotificationTransport(broker), first_pause=60)
    box.start()
    put(box, 1, 2)
    assert wait_until(lambda: not broker.failing, SOON)
    stop(box)
    assert broker.taken == [1, 2]


def test_stop_waits_only_so_long_for_a_broker_that_hangs(
    box: Outbox, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "PATIENCE", 0.05)
    broker.answers.clear()
    box.start()
    put(box, 1)
    assert wait_until(lambda: broker.retries, SOON)
    stop(box)
    # What is in use is not closed.
    assert not broker.closed
    assert not broker.taken


def test_stop_of_what_was_never_started(box: Outbox, broker: Broker) -> None:
    stop(box)
    assert broker.closed


def test_stop_waits_for_all_at_the_same_time_and_closes_the_transport_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "PATIENCE", 0.2)
    transport = NotificationTransport(broker)
    boxes = [Outbox(transport, what) for what in ("notifications", "versioned notifications")]
    broker.answers.clear()
    for each in boxes:
        each.start()
        put(each, 1)
    assert wait_until(lambda: len(broker.retries) == 2, SOON)
    outbox.stop(boxes, transport)
    assert broker.closures == 0
    assert caplog.messages == [
        "Leaving with 1 notifications that could not be sent",
        "Leaving with 1 versioned notifications that could not be sent",
    ]
    broker.answers.set()
    assert wait_until(lambda: broker.taken == [1, 1], SOON)
    outbox.stop(boxes, transport)
    assert broker.closures == 1
