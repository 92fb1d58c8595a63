# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The methods that conductors, compute hosts and operators call on the topic 'scheduler'."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log

from inventory.engine import DatabaseUnavailable
from scheduler.objects.selection import Selection
from scheduler.rpc.codec import SelectArguments, decode_select_arguments, encode_destinations
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, NoValidHost, SchedulerFailure, ServiceUnavailable
from scheduler.rpc.notifications import Notifications

LOG = log.getLogger(__name__)
TOPIC = "scheduler"


class Selector(Protocol):
    """What answers a request."""

    def select(self, asked: SelectArguments, caller: RequestContext) -> list[list[Selection]]:
        """Return the destinations of each instance or raise NoValidHost."""


class SchedulerEndpoint:
    """select_destinations at RPC 4.0 to 4.5, as a call and as a cast."""

    target = oslo_messaging.Target(version="4.5")

    def __init__(self, selector: Selector, notifications: Notifications) -> None:
        self._selector = selector
        self._notifications = notifications

    @oslo_messaging.expected_exceptions(  # type: ignore[untyped-decorator]
        NoValidHost, InvalidInput, ServiceUnavailable
    )
    def select_destinations(self, context: Mapping[str, Any], **arguments: Any) -> list[Any]:
        """Return a destination for each instance, in the form that the caller's version knows."""
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        _refuse_unknown(arguments)
        with _failures_named(caller):
            asked = decode_select_arguments(arguments)
        # Callers before Rocky name the user only in the context.
        asked.spec.user_id = asked.spec.user_id or caller.user_id
        self._notifications.send("start", caller, asked.spec)
        try:
            with _failures_named(caller):
                destinations = self._selector.select(asked, caller)
        except SchedulerFailure as failure:
            self._notifications.send("error", caller, asked.spec, failure.reason)
            raise
        self._notifications.send("end", caller, asked.spec)
        return encode_destinations(destinations, asked)


class TrackingEndpoint:
    """What compute hosts and the API of Nova tell schedulers about instances and aggregates.

    Berthmaster learns both from its own inventory; these casts are taken and need no answer.
    """

    target = oslo_messaging.Target(version="4.5")

    def update_aggregates(self, context: Mapping[str, Any], aggregates: Any) -> None:
        """Take a changed aggregate; the inventory has it."""

    def delete_aggregate(self, context: Mapping[str, Any], aggregate: Any) -> None:
        """Take the end of an aggregate; the inventory has it."""

    def update_instance_info(
        self, context: Mapping[str, Any], host_name: Any, instance_info: Any
    ) -> None:
        """Take new instances of a host; its agent reports them."""

    def delete_instance_info(
        self, context: Mapping[str, Any], host_name: Any, instance_uuid: Any
    ) -> None:
        """Take the end of an instance; its agent reports it."""

    def sync_instance_info(
        self, context: Mapping[str, Any], host_name: Any, instance_uuids: Any
    ) -> None:
        """Take the list of a host's instances; its agent reports them."""


class BaseEndpoint:
    """What every service of Nova answers, in the namespace 'baseapi'."""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def ping(self, context: Mapping[str, Any], arg: Any) -> dict[str, Any]:
        """Return what was sent, and by whom it was answered."""
        return {"service": TOPIC, "arg": arg}

    def get_backdoor_port(self, context: Mapping[str, Any]) -> None:
        """Return None: there is no backdoor."""


_KNOWN = frozenset(
    {
        "request_spec",
        "filter_properties",
        "spec_obj",
        "instance_uuids",
        "return_objects",
        "return_alternates",
    }
)


def _refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Answer an unknown keyword as Python does, without a traceback in our log."""
    for name in arguments.keys() - _KNOWN:
        try:
            raise TypeError(f"select_destinations() got an unexpected keyword argument '{name}'")
        except TypeError:
            raise oslo_messaging.ExpectedException() from None


@contextmanager
def _failures_named(caller: RequestContext) -> Iterator[None]:
    """Turn errors that a caller would not know into those that it does."""
    try:
        yield
    except InvalidInput as error:
        LOG.info("Refused a malformed request of %s: %s", caller.request_id, error.reason)
        raise
    except DatabaseUnavailable as error:
        LOG.error("Request failed: %s", error)
        raise ServiceUnavailable("The scheduler's database does not answer.") from error
