# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which notifications are sent, where, in which format and with what of the caller's context."""

import json
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging._drivers.impl_fake import FakeDriver

from conf import opts
from conf.loading import ConfigError
from scheduler.api.notifications import Notifications
from scheduler.messaging.transport import UnusableTransport
from scheduler.wire.context import RequestContext
from scheduler.wire.legacy_requests import encode_legacy
from scheduler.wire.notification_payloads import encode_error_payload, encode_payload
from tests.builders import a_request
from tests.fixtures.daemons.process import PATIENCE
from tests.unit.scheduler.wire import wire_samples

GROUP = "oslo_messaging_notifications"
LEGACY, VERSIONED = "scheduler.alpha", "nova-scheduler:alpha"
SPEC = a_request()
START = "scheduler.select_destinations.start"
ERROR = "scheduler.select_destinations.error"
MakeNotifier = Callable[..., Notifications]


class Consumer:
    """An endpoint that hears of all priorities of a topic."""

    def __init__(self, topic: str) -> None:
        self._heard: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        transport = oslo_messaging.get_notification_transport(cfg.CONF)
        self._listener = oslo_messaging.get_notification_listener(
            transport, [oslo_messaging.Target(topic=topic)], [self], executor="threading"
        )
        self.contexts: list[dict[str, Any]] = []
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()

    def wait(self) -> None:
        self._listener.wait()

    def info(self, context: Any, publisher: str, event: str, payload: Any, _meta: Any) -> None:
        self._hear("info", context, publisher, event, payload)

    def error(self, context: Any, publisher: str, event: str, payload: Any, _meta: Any) -> None:
        self._hear("error", context, publisher, event, payload)

    def next(self, timeout: float = PATIENCE) -> tuple[Any, ...]:
        """Return priority, publisher, event and payload."""
        return self._heard.get(timeout=timeout)

    def heard_all(self) -> bool:
        try:
            self._heard.get_nowait()
        except Empty:
            return True
        return False

    def _hear(self, priority: str, context: Any, *received: Any) -> None:
        self.contexts.append(context)
        self._heard.put((priority, *received))


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    conf = cfg.CONF
    opts.register(conf)
    # As the sender does; who listens before it would be at another exchange.
    opts.set_transport_defaults()
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    conf.set_override("host", "alpha")
    # Registers the options, and sets the broker.
    oslo_messaging.get_notification_transport(conf, url="fake://")
    conf.set_override("transport_url", "fake://", GROUP)
    yield conf
    conf.clear()
    for name in ("driver", "transport_url", "topics"):
        conf.clear_override(name, GROUP)
    for name in ("notification_format", "versioned_notifications_topics"):
        conf.clear_override(name, "notifications")
    conf.clear_override("host")
    conf.reset()


@pytest.fixture
def listen(conf: cfg.ConfigOpts) -> Iterator[Callable[[str], Consumer]]:
    consumers: list[Consumer] = []

    def listen(topic: str) -> Consumer:
        consumers.append(Consumer(topic))
        return consumers[-1]

    yield listen
    for each in consumers:
        each.stop()
    for each in consumers:
        each.wait()


@pytest.fixture
def notifier(conf: cfg.ConfigOpts) -> Iterator[MakeNotifier]:
    """What returns notifications that have been started, with some options set."""
    started: list[Notifications] = []

    def make(drivers: list[str] | None = None, **options: Any) -> Notifications:
        conf.set_override("driver", ["messagingv2"] if drivers is None else drivers, GROUP)
        for name, value in options.items():
            conf.set_override(name, value, "notifications")
        started.append(Notifications(conf))
        started[-1].start()
        return started[-1]

    yield make
    for each in started:
        each.stop()


def test_legacy_ones_are_the_default(
    listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    legacy, versioned = listen("notifications"), listen("versioned_notifications")
    notifier().send("start", RequestContext(), SPEC)
    assert legacy.next() == ("info", LEGACY, START, {"request_spec": encode_legacy(SPEC)})
    assert versioned.heard_all()


def test_versioned_ones_instead(listen: Callable[[str], Consumer], notifier: MakeNotifier) -> None:
    legacy, versioned = listen("notifications"), listen("versioned_notifications")
    notifier(notification_format="versioned").send("start", RequestContext(), SPEC)
    assert versioned.next() == ("info", VERSIONED, START, encode_payload(SPEC))
    assert legacy.heard_all()


def test_both_with_an_error_and_its_reason(
    listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    legacy, versioned = listen("notifications"), listen("versioned_notifications")
    notifier(notification_format="both").send("error", RequestContext(), SPEC, "no room")
    payload = {"request_spec": encode_legacy(SPEC), "reason": "no room"}
    assert legacy.next() == ("error", LEGACY, ERROR, payload)
    assert versioned.next() == ("error", VERSIONED, ERROR, encode_error_payload(SPEC, "no room"))


def test_each_topic_gets_every_one(
    conf: cfg.ConfigOpts, listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    conf.set_override("topics", ["old1", "old2"], GROUP)
    consumers = [listen(topic) for topic in ("old1", "old2", "new1", "new2")]
    notifications = notifier(
        notification_format="both", versioned_notifications_topics=["new1", "new2"]
    )
    notifications.send("start", RequestContext(), SPEC)
    assert [each.next()[1] for each in consumers] == [LEGACY, LEGACY, VERSIONED, VERSIONED]


@pytest.mark.parametrize("drivers", [[], ["noop"], [""], ["", "noop"]])
def test_without_a_driver_nothing_is_sent(
    drivers: list[str], listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    legacy, versioned = listen("notifications"), listen("versioned_notifications")
    notifier(drivers, notification_format="both").send("start", RequestContext(), SPEC)
    # Heard after it, if it was.
    notifier(notification_format="both").send("end", RequestContext(), SPEC)
    assert legacy.next()[2] == versioned.next()[2] == "scheduler.select_destinations.end"


def test_no_secret_of_the_context_is_sent(
    listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    legacy, versioned = listen("notifications"), listen("versioned_notifications")
    given = wire_samples.context("call_select_destinations_4.5_full_spec")
    assert given["auth_token"]
    assert given["service_catalog"]
    assert given["remote_address"]
    notifier(notification_format="both").send("end", RequestContext.from_dict(given), SPEC)
    for consumer in (legacy, versioned):
        text = json.dumps(consumer.next())
        (context,) = consumer.contexts
        assert context["user_id"] == given["user_id"]
        assert context["request_id"] == given["request_id"]
        for secret in ("auth_token", "service_catalog", "remote_address"):
            assert not context.get(secret)
            assert json.dumps(given[secret]) not in text + json.dumps(context)


def test_a_driver_that_there_is_not(notifier: MakeNotifier) -> None:
    with pytest.raises(ConfigError, match=r"^option \[oslo_messaging_notifications\] driver") as no:
        notifier(["messagingv2", "messagingv3"])
    assert "= 'messagingv3' in " in str(no.value)
    assert "known are log, messaging, messagingv2, noop, routing, test" in str(no.value)


def test_a_url_of_no_use(conf: cfg.ConfigOpts, notifier: MakeNotifier) -> None:
    conf.set_override("transport_url", "rabit://u:secret@host/", GROUP)
    with pytest.raises(UnusableTransport, match=r"^option \[oslo_messaging_notifications\] tran"):
        notifier()


def test_a_format_that_cannot_be_sent_does_not_hold_up_the_other(
    monkeypatch: pytest.MonkeyPatch, listen: Callable[[str], Consumer], notifier: MakeNotifier
) -> None:
    send = FakeDriver.send_notification

    def refusing(
        driver: FakeDriver, target: oslo_messaging.Target, *letter: Any, **how: Any
    ) -> None:
        if target.topic.startswith("versioned"):
            raise oslo_messaging.MessageDeliveryFailure("the queue is of another kind")
        send(driver, target, *letter, **how)

    monkeypatch.setattr(FakeDriver, "send_notification", refusing)
    legacy = listen("notifications")
    notifications = notifier(notification_format="both")
    for _ in range(3):
        notifications.send("start", RequestContext(), SPEC)
    assert [legacy.next()[2] for _ in range(3)] == [START] * 3
