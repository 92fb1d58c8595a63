# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications about requests: scheduler.select_destinations.start, .end and .error.

Legacy ones go to [oslo_messaging_notifications] topics, versioned ones to [notifications]
versioned_notifications_topics; the drivers of [oslo_messaging_notifications] send both.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.transport import NotificationTransport

from conf.loading import ConfigError, source
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.shape import Fields
from scheduler.rpc import outbox
from scheduler.rpc.codec import encode_legacy
from scheduler.rpc.codec.payloads import encode_error_payload, encode_payload
from scheduler.rpc.context import RequestContext
from scheduler.rpc.outbox import Outbox
from scheduler.rpc.transport import NOTIFICATIONS, notification_transport

# The driver that does nothing, and what is written where nothing is to be chosen.
_NO_DRIVERS = {"noop", ""}

Encode = Callable[[RequestSpec, str | None], Fields]


class _ContextSerializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]  # no types
    def serialize_context(self, context: RequestContext) -> dict[str, Any]:
        return context.to_dict()


class Notifications:
    """Tells consumers of requests in the formats that the configuration asks for.

    Nothing is sent, nor connected, unless [oslo_messaging_notifications] names a driver. Raises
    ConfigError for one that there is not, and for a transport_url of no use.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._transport = notification_transport(conf)
        # One for each format: what keeps one of them from being sent is no matter of the other.
        self._outboxes: list[Outbox] = []
        _refuse_unknown_drivers(conf)
        self._formats: list[tuple[oslo_messaging.Notifier, Encode]] = []
        if not set(conf.oslo_messaging_notifications.driver) - _NO_DRIVERS:
            return
        wanted = conf.notifications.notification_format
        if wanted != "versioned":
            self._add("notifications", f"scheduler.{conf.host}", _legacy)
        if wanted != "unversioned":
            topics = conf.notifications.versioned_notifications_topics
            publisher = f"nova-scheduler:{conf.host}"
            self._add("versioned notifications", publisher, _versioned, topics)

    def start(self) -> None:
        """Begin to send; what is told before waits for that."""
        for each in self._outboxes:
            each.start()

    def stop(self) -> None:
        """Send what was told, unless that takes too long."""
        outbox.stop(self._outboxes, self._transport)

    def send(
        self, phase: str, caller: RequestContext, spec: RequestSpec, reason: str | None = None
    ) -> None:
        """Tell that a request has come to a phase: start, end, or error with its reason."""
        for notifier, encode in self._formats:
            emit = notifier.error if phase == "error" else notifier.info
            emit(caller, f"scheduler.select_destinations.{phase}", encode(spec, reason))

    def _add(
        self, what: str, publisher: str, encode: Encode, topics: list[str] | None = None
    ) -> None:
        self._outboxes.append(Outbox(self._transport, what))
        notifier = oslo_messaging.Notifier(
            NotificationTransport(self._outboxes[-1]),
            publisher,
            serializer=_ContextSerializer(),
            topics=topics,
        )
        self._formats.append((notifier, encode))


def _legacy(spec: RequestSpec, reason: str | None) -> Fields:
    payload = {"request_spec": encode_legacy(spec)}
    return payload if reason is None else payload | {"reason": reason}


def _versioned(spec: RequestSpec, reason: str | None) -> Fields:
    return encode_payload(spec) if reason is None else encode_error_payload(spec, reason)


def _refuse_unknown_drivers(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError for what oslo.messaging would leave out with a warning."""
    known = {each.name for each in entry_points(group="oslo.messaging.notify.drivers")}
    for driver in conf.oslo_messaging_notifications.driver:
        if driver and driver not in known:
            raise ConfigError(
                f"option [{NOTIFICATIONS}] driver = {driver!r} in"
                f" {source(conf, NOTIFICATIONS, 'driver')}: there is no such driver; there are"
                f" {', '.join(sorted(known))}"
            )
