# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The methods that conductors and operators call on the topic 'scheduler'."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import oslo_messaging
from oslo_log import log

from inventory.database_errors import DatabaseUnavailable
from inventory.nova.placement_errors import PlacementError
from scheduler.api.notifications import Notifications
from scheduler.messaging.call import Call
from scheduler.messaging.dispatcher import find_method
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer, Selection
from scheduler.select_destinations.destinations import Destinations
from scheduler.select_destinations.pending_request import PendingRequest
from scheduler.wire.arguments import SelectArguments, check_size, decode_select_arguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost, SchedulerFailure, ServiceUnavailable
from scheduler.wire.replies import encode_destinations

LOG = log.getLogger(__name__)
TOPIC = "scheduler"
# Of select_destinations at 4.5.
SELECT_ARGUMENTS = ("spec_obj", "instance_uuids", "return_objects", "return_alternates")
EXPECTED = (NoValidHost, InvalidInput, ServiceUnavailable)
# Contexts come by position: what a caller may name "context" or "self" is a keyword as any other.


class SchedulerEndpoint:
    """select_destinations at RPC 4.0 to 4.5, as a call and as a cast."""

    target = oslo_messaging.Target(version="4.5")

    def __init__(self, destinations: Destinations, notifications: Notifications) -> None:
        self._destinations = destinations
        self._notifications = notifications

    @oslo_messaging.expected_exceptions(*EXPECTED)  # type: ignore[untyped-decorator]
    def select_destinations(self, context: Mapping[str, Any], /, **arguments: Any) -> list[Any]:
        """Return destinations of each instance, in the form that the caller's version knows."""
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        with errors_for(caller):
            request = _decode(context, arguments, caller)
        self._notifications.send("start", caller, request.spec)
        deadline = Deadline.of(context)
        return self._reply(
            request, caller, partial(self._destinations.select, request, caller, deadline)
        )

    def take(self, calls: Sequence[Call]) -> Sequence[Call]:
        """Begin the requests that can be decided at once; return the other calls, for threads.

        So the calls that have come together are one round, without a thread for each.
        """
        return [call for call in calls if not self._begin(call)]

    def _begin(self, call: Call) -> bool:
        """Begin a request if nothing has to be waited for; return whether that was done."""
        if call.method != "select_destinations":
            return False
        # What is wrong with a call is found again, and answered, in its thread.
        try:
            find_method([self], call)
            caller = RequestContext.from_dict(call.context)
            caller.for_logging()
            request = _decode(call.context, call.args, caller)
            pending = self._destinations.prepare_at_once(request, caller, call.deadline)
        except Exception:
            return False
        if pending is None:
            return False
        self._notifications.send("start", caller, request.spec)
        pending.future.add_done_callback(lambda _: self._answer(call, request, pending))
        self._destinations.loop.begin(pending)
        return True

    def _answer(self, call: Call, request: SelectArguments, pending: PendingRequest) -> None:
        """Answer a call whose request has its outcome."""
        caller = pending.trace.caller
        caller.for_logging()
        try:
            reply = self._reply(request, caller, partial(self._destinations.outcome, pending))
        except EXPECTED as error:
            call.fail(error, is_expected=True)
        except Exception as error:
            call.fail(error)
        else:
            call.reply(reply)

    def _reply(
        self, request: SelectArguments, caller: RequestContext, outcome: Callable[[], Answer]
    ) -> list[Any]:
        """Return the reply with the answer that outcome() returns; tell others of it."""
        try:
            with errors_for(caller):
                answer = outcome()
        except SchedulerFailure as failure:
            self._notifications.send("error", caller, request.spec, failure.reason)
            raise
        self._notifications.send("end", caller, _placed(request.spec, answer))
        return encode_destinations(answer, request)


class BaseEndpoint:
    """What every service of Nova answers, in the namespace 'baseapi'."""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def ping(self, context: Mapping[str, Any], /, **arguments: Any) -> dict[str, Any]:
        """Return the argument, and which service answers."""
        _refuse_unknown(arguments, "BaseRPCAPI.ping()", {"arg"})
        if "arg" not in arguments:
            _refuse("BaseRPCAPI.ping() missing 1 required positional argument: 'arg'")
        return {"service": TOPIC, "arg": arguments["arg"]}

    def get_backdoor_port(self, context: Mapping[str, Any], /, **arguments: Any) -> None:
        """Return None: there is no backdoor."""
        _refuse_unknown(arguments, "BaseRPCAPI.get_backdoor_port()", ())


def _decode(
    context: Mapping[str, Any], arguments: Mapping[str, Any], caller: RequestContext
) -> SelectArguments:
    """Return what is asked; raises InvalidInput, and ExpectedException for unknown arguments."""
    known = ("request_spec", "filter_properties", *SELECT_ARGUMENTS)
    _refuse_unknown(arguments, "SchedulerManager.select_destinations()", known)
    check_size(context)
    request = decode_select_arguments(arguments)
    # Callers before Rocky name the user only in the context.
    request.spec.user_id = request.spec.user_id or caller.user_id
    return request


def _refuse_unknown(arguments: Mapping[str, Any], method: str, known: Collection[str]) -> None:
    """Refuse as Python does in Nova, where callers may look for the text."""
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
    """Return the request with the hosts that its server group has now."""
    if spec.instance_group is None:
        return spec
    return spec.for_instance(spec.instance_uuid, [first.service_host for first, *_ in destinations])


@contextmanager
def errors_for(caller: RequestContext) -> Iterator[None]:
    """Turn errors that a caller does not know into those that it knows.

    A caller gets the errors that led to its own as well: those of the database name other requests.
    """
    try:
        yield
    except InvalidInput as error:
        LOG.info("Refused a malformed request of %s: %s", caller.request_id, error.reason)
        raise
    except DatabaseUnavailable as error:
        LOG.error("Request failed: %s", error)
        raise ServiceUnavailable(f"The scheduler's database {error.brief}.") from None
    except PlacementError as error:
        LOG.error("Request failed: %s", error)
        raise ServiceUnavailable("The scheduler cannot reach Placement.") from None
