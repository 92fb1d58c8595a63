# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications about requests: scheduler.select_destinations.start, .end and .error."""

from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from scheduler.objects.request_spec import RequestSpec
from scheduler.rpc.codec import encode_legacy
from scheduler.rpc.context import RequestContext

LOG = log.getLogger(__name__)


class _ContextSerializer(oslo_messaging.NoOpSerializer):  # type: ignore[misc]  # no types
    def serialize_context(self, context: RequestContext) -> dict[str, Any]:
        return context.to_dict()


class Notifications:
    """Sends the unversioned notifications that consumers know since Newton.

    Nothing is sent, nor connected, unless [oslo_messaging_notifications] names a driver.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        transport = oslo_messaging.get_notification_transport(conf)
        self._notifier = oslo_messaging.Notifier(
            transport, f"scheduler.{conf.host}", serializer=_ContextSerializer()
        )
        drivers = set(conf.oslo_messaging_notifications.driver) - {"noop"}
        self._wanted = bool(drivers) and conf.notifications.notification_format != "versioned"

    def send(
        self, phase: str, caller: RequestContext, spec: RequestSpec, reason: str | None = None
    ) -> None:
        """Tell that a request has come to a phase: start, end, or error with its reason.

        A notification that cannot be sent is logged; the request goes on.
        """
        if not self._wanted:
            return
        payload: dict[str, Any] = {"request_spec": encode_legacy(spec)}
        if reason is not None:
            payload["reason"] = reason
        emit = self._notifier.error if phase == "error" else self._notifier.info
        try:
            emit(caller, f"scheduler.select_destinations.{phase}", payload)
        except oslo_messaging.MessagingException as error:
            LOG.warning("Notification %s could not be sent: %s", phase, error)
