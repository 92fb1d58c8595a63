# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications about requests: scheduler.select_destinations.start, .end and .error.

Legacy ones go to [oslo_messaging_notifications] topics, versioned ones to [notifications]
versioned_notifications_topics; the drivers of [oslo_messaging_notifications] send both.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.transport import NotificationTransport

from conf import private_apis
from conf.loading import ConfigError, source
from inventory.objects.object_schema import Fields
from scheduler.messaging.background_publisher import BackgroundPublisher
from scheduler.messaging.transport import NOTIFICATIONS, RECONNECTIONS, notification_transport
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.context import RequestContext
from scheduler.wire.legacy_requests import encode_legacy
from scheduler.wire.notification_payloads import encode_error_payload, encode_payload

# The driver that does nothing, and an empty option.
_NO_DRIVERS = {"noop", ""}

Encode = Callable[[RequestSpec, str | None], Fields]


class _ContextSerializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]  # no types
    def serialize_context(self, context: RequestContext) -> dict[str, Any]:
        return context.to_dict()


class Notifications:
    """Sends notifications in the configured formats.

    Without a driver in [oslo_messaging_notifications] nothing is sent, nor connected. Raises
    ConfigError for an unknown driver, and for a transport_url that cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._transport = notification_transport(conf)
        # One for each format, so that they do not wait for each other.
        self._queues: list[NotificationQueue] = []
        _refuse_unknown_drivers(conf)
        self._formats: list[tuple[oslo_messaging.Notifier, Encode]] = []
        if not set(conf.oslo_messaging_notifications.driver) - _NO_DRIVERS:
            return
        formats = conf.notifications.notification_format
        if formats != "versioned":
            self._add("notifications", f"scheduler.{conf.host}", _legacy)
        if formats != "unversioned":
            topics = conf.notifications.versioned_notifications_topics
            publisher = f"nova-scheduler:{conf.host}"
            self._add("versioned notifications", publisher, _versioned, topics)

    def start(self) -> None:
        """Begin to send; earlier notifications are sent then."""
        for each in self._queues:
            each.start()

    def stop(self) -> None:
        """Send what waits, within a timeout."""
        stop_all(self._queues, self._transport)

    @property
    def dropped(self) -> int:
        """How many were lost since the start of the process."""
        return sum(each.dropped for each in self._queues)

    def send(
        self, phase: str, caller: RequestContext, spec: RequestSpec, reason: str | None = None
    ) -> None:
        """Notify of a phase of a request: start, end, or error with its reason."""
        for notifier, encode in self._formats:
            emit = notifier.error if phase == "error" else notifier.info
            emit(caller, f"scheduler.select_destinations.{phase}", encode(spec, reason))

    def _add(
        self, what: str, publisher: str, encode: Encode, topics: list[str] | None = None
    ) -> None:
        self._queues.append(NotificationQueue(self._transport, what))
        notifier = oslo_messaging.Notifier(
            NotificationTransport(self._queues[-1]),
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
    """Raise ConfigError for a driver that oslo.messaging would ignore with a warning."""
    known = {each.name for each in entry_points(group="oslo.messaging.notify.drivers")}
    for driver in conf.oslo_messaging_notifications.driver:
        if driver and driver not in known:
            raise ConfigError(
                f"option [{NOTIFICATIONS}] driver = {driver!r} in"
                f" {source(conf, NOTIFICATIONS, 'driver')}: there is no such driver; known are"
                f" {', '.join(sorted(known))}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Notification:
    """The arguments of send_notification() of a driver of oslo.messaging."""

    target: oslo_messaging.Target
    context: dict[str, Any]
    message: dict[str, Any]
    version: float
    retry: int | None

    @property
    def retries_forever(self) -> bool:
        """Whether it is sent however long that takes, which is the default."""
        return self.retry is None or self.retry < 0


class NotificationQueue(BackgroundPublisher[_Notification]):
    """Stands in for the driver of a transport: queues notifications, and sends from its thread.

    oslo.messaging sends in the thread that notifies. With a broker that is gone, or that hangs, a
    request would take a quarter of a minute longer, or never be answered.

    Notifications beyond max_waiting are lost. [oslo_messaging_notifications] retry counts as ever,
    but "forever" ends with the process. Several queues may share a transport; what names the
    notifications in the log.
    """

    def __init__(self, transport: oslo_messaging.Transport, what: str = "notifications") -> None:
        super().__init__(f"Sending {what}")
        self.conf = transport.conf
        self._transport = transport

    def send_notification(
        self,
        target: oslo_messaging.Target,
        context: dict[str, Any],
        message: dict[str, Any],
        version: float,
        retry: int | None = None,
    ) -> None:
        """Queue a notification, without waiting or failing. Called by oslo.messaging."""
        if not self.put(_Notification(target, context, message, version, retry)):
            self.drop(1, f"{self.max_waiting} others are waiting")

    def send(self, batch: list[_Notification]) -> None:
        """Send one notification."""
        for each in batch:
            retry = RECONNECTIONS if each.retries_forever else each.retry
            # A copy: the driver adds to it, while another one of the notifier's may be reading.
            message = dict(each.message)
            private_apis.send_notification(
                self._transport, each.target, each.context, message, each.version, retry=retry
            )

    def gives_up(self, item: _Notification, error: Exception) -> bool:
        """Give up after the allowed retries, and what can never be written as JSON."""
        return not item.retries_forever or isinstance(error, (TypeError, ValueError))


def stop_all(queues: Collection[NotificationQueue], transport: oslo_messaging.Transport) -> None:
    """Stop all queues at the same time, and close their transport after that."""
    for each in queues:
        each.begin_stop()
    until = time.monotonic() + NotificationQueue.stop_timeout
    ended = [each.stop(max(0.0, until - time.monotonic())) for each in queues]
    # An attempt that takes too long is left to end with the process.
    if all(ended):
        transport.cleanup()
