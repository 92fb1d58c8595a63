# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The methods that conductors, compute hosts and operators call on the topic 'scheduler'."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import oslo_messaging
from oslo_log import log

from inventory.engine import DatabaseUnavailable
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.rpc import codec
from scheduler.rpc.codec import SelectArguments, decode_select_arguments, encode_destinations
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.failures import InvalidInput, NoValidHost, SchedulerFailure, ServiceUnavailable
from scheduler.rpc.notifications import Notifications

LOG = log.getLogger(__name__)
TOPIC = "scheduler"
# Contexts come by position: what a caller may name "context" or "self" is a keyword as any other.


class Selector(Protocol):
    """What answers a request."""

    def select(
        self, asked: SelectArguments, caller: RequestContext, deadline: Deadline
    ) -> list[list[Selection]]:
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
    def select_destinations(self, context: Mapping[str, Any], /, **arguments: Any) -> list[Any]:
        """Return a destination for each instance, in the form that the caller's version knows."""
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        _refuse_unknown(arguments, _SELECT, _SELECT_ARGUMENTS)
        with failures_named(caller):
            asked = decode_select_arguments(arguments)
        # Callers before Rocky name the user only in the context.
        asked.spec.user_id = asked.spec.user_id or caller.user_id
        self._notifications.send("start", caller, asked.spec)
        try:
            with failures_named(caller):
                destinations = self._selector.select(asked, caller, Deadline.of(context))
        except SchedulerFailure as failure:
            self._notifications.send("error", caller, asked.spec, failure.reason)
            raise
        self._notifications.send("end", caller, _placed(asked.spec, destinations))
        return encode_destinations(destinations, asked)


class Tracker(Protocol):
    """What remembers what hosts and the API told."""

    def update_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        """Take aggregates, in the place of those that are the same."""

    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Forget an aggregate."""

    def update_instances(self, host: str, instances: Sequence[Instance]) -> None:
        """Take instances that a host has besides others."""

    def delete_instance(self, host: str, uuid: str) -> None:
        """Take it that a host has an instance no longer."""

    def sync_instances(self, host: str, uuids: Sequence[str]) -> None:
        """Take the uuids of all instances that a host has."""


class TrackingEndpoint:
    """What compute hosts and the API of Nova tell schedulers about instances and aggregates.

    tracks_instances says whether what hosts tell of their instances counts. Nobody waits for an
    answer: what is malformed is refused with a line in the log.
    """

    target = oslo_messaging.Target(version="4.5")

    def __init__(self, tracker: Tracker, tracks_instances: Callable[[], bool]) -> None:
        self._tracker = tracker
        self._tracks_instances = tracks_instances

    def update_aggregates(
        self, context: Mapping[str, Any], /, aggregates: Any = None, **_unknown: Any
    ) -> None:
        """Take aggregates that were made or changed."""
        with _refusals_logged("update_aggregates", context):
            found = codec.decode_aggregates(aggregates)
            self._tracker.update_aggregates(found)
            LOG.debug("Told of %s aggregates", len(found))

    def delete_aggregate(
        self, context: Mapping[str, Any], /, aggregate: Any = None, **_unknown: Any
    ) -> None:
        """Take the end of an aggregate."""
        with _refusals_logged("delete_aggregate", context):
            found = codec.decode_aggregate(aggregate)
            self._tracker.delete_aggregate(found)
            LOG.debug("Told of the end of aggregate %s", found.uuid or found.id)

    def update_instance_info(
        self,
        context: Mapping[str, Any],
        /,
        host_name: Any = None,
        instance_info: Any = None,
        **_unknown: Any,
    ) -> None:
        """Take instances that a host has now, or knows more about."""
        if not self._tracks_instances():
            return
        with _refusals_logged("update_instance_info", context):
            host = codec.decode_host_name(host_name)
            found = codec.decode_instances(instance_info)
            self._tracker.update_instances(host, found)
            LOG.debug("Host %s told of %s instances", host, len(found))

    def delete_instance_info(
        self,
        context: Mapping[str, Any],
        /,
        host_name: Any = None,
        instance_uuid: Any = None,
        **_unknown: Any,
    ) -> None:
        """Take the end of an instance on a host."""
        if not self._tracks_instances():
            return
        with _refusals_logged("delete_instance_info", context):
            host = codec.decode_host_name(host_name)
            uuid = codec.decode_instance_uuid(instance_uuid)
            self._tracker.delete_instance(host, uuid)
            LOG.debug("Host %s told of the end of instance %s", host, uuid)

    def sync_instance_info(
        self,
        context: Mapping[str, Any],
        /,
        host_name: Any = None,
        instance_uuids: Any = None,
        **_unknown: Any,
    ) -> None:
        """Take the list of all instances of a host."""
        if not self._tracks_instances():
            return
        with _refusals_logged("sync_instance_info", context):
            host = codec.decode_host_name(host_name)
            uuids = codec.decode_instance_uuids(instance_uuids)
            self._tracker.sync_instances(host, uuids)
            LOG.debug("Host %s told that it has %s instances", host, len(uuids))


class BaseEndpoint:
    """What every service of Nova answers, in the namespace 'baseapi'."""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def ping(self, context: Mapping[str, Any], /, **arguments: Any) -> dict[str, Any]:
        """Return what was sent, and by whom it was answered."""
        _refuse_unknown(arguments, _PING, {"arg"})
        if "arg" not in arguments:
            _refuse(f"{_PING} missing 1 required positional argument: 'arg'")
        return {"service": TOPIC, "arg": arguments["arg"]}

    def get_backdoor_port(self, context: Mapping[str, Any], /, **arguments: Any) -> None:
        """Return None: there is no backdoor."""
        _refuse_unknown(arguments, _BACKDOOR_PORT, ())


# As Python calls the methods in Nova, where callers may look for the text.
_SELECT = "SchedulerManager.select_destinations()"
_PING = "BaseRPCAPI.ping()"
_BACKDOOR_PORT = "BaseRPCAPI.get_backdoor_port()"
_SELECT_ARGUMENTS = frozenset(
    {
        "request_spec",
        "filter_properties",
        "spec_obj",
        "instance_uuids",
        "return_objects",
        "return_alternates",
    }
)


def _refuse_unknown(arguments: Mapping[str, Any], method: str, known: Collection[str]) -> None:
    for name in arguments:
        if name not in known:
            _refuse(f"{method} got an unexpected keyword argument '{name}'")


def _refuse(text: str) -> NoReturn:
    """Answer wrong keywords as Nova's server does, without a traceback in our log."""
    try:
        raise TypeError(text)
    except TypeError:
        raise oslo_messaging.ExpectedException() from None


def _placed(spec: RequestSpec, destinations: list[list[Selection]]) -> RequestSpec:
    """Return the request with the hosts that its group has by now."""
    if spec.instance_group is None:
        return spec
    return spec.for_instance(spec.instance_uuid, [first.service_host for first, *_ in destinations])


@contextmanager
def failures_named(caller: RequestContext) -> Iterator[None]:
    """Turn errors that a caller would not know into those that it does."""
    try:
        yield
    except InvalidInput as error:
        LOG.info("Refused a malformed request of %s: %s", caller.request_id, error.reason)
        raise
    except DatabaseUnavailable as error:
        LOG.error("Request failed: %s", error)
        raise ServiceUnavailable(f"The scheduler's database {error.brief}.") from error


@contextmanager
def _refusals_logged(cast: str, context: Mapping[str, Any]) -> Iterator[None]:
    """Drop a cast that cannot be read; there is nobody to answer."""
    caller = RequestContext.from_dict(context)
    caller.for_logging()
    try:
        yield
    except InvalidInput as error:
        LOG.info("Refused a malformed %s of %s: %s", cast, caller.request_id, error.reason)
