# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The method by which operators ask what would be decided, and why, in a namespace of our own."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Semaphore
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log

from scheduler.decision.explaining import Explanation, Extent
from scheduler.decision.outcome import Decision
from scheduler.objects.kinds import shown
from scheduler.rpc.codec import SelectArguments, decode_select_arguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.endpoint import failures_named
from scheduler.rpc.failures import Forbidden, InvalidInput, NoValidHost, ServiceUnavailable
from scheduler.rpc.host_client import NAMESPACE, VERSION
from scheduler.rpc.json_values import json_value

LOG = log.getLogger(__name__)
# Of so many hosts and near misses an answer may tell.
MOST_HOSTS = 10_000
MOST_NEAR = 100
# How many explanations are made at a time: requests are to have most of the processor.
AT_A_TIME = 2
# So many hosts are encoded between two pauses.
ENCODED_AT_A_TIME = 64
SELECT_ARGUMENTS = ("spec_obj", "instance_uuids", "return_objects", "return_alternates")


class Rehearser(Protocol):
    """What decides without taking anything."""

    def rehearse(
        self, asked: SelectArguments, caller: RequestContext, extent: Extent
    ) -> tuple[Decision, Explanation]:
        """Return what would be decided, and why."""


class ExplanationsEndpoint:
    """explain_destinations: the decision that a request would get, and why.

    For operators only, as it tells of hosts and of what others have there. Who may publish on the
    broker can claim to be one.
    """

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, rehearser: Rehearser) -> None:
        self._rehearser = rehearser
        self._places = Semaphore(AT_A_TIME)

    @oslo_messaging.expected_exceptions(  # type: ignore[untyped-decorator]
        Forbidden, InvalidInput, NoValidHost, ServiceUnavailable
    )
    def explain_destinations(
        self, context: Mapping[str, Any], /, **arguments: Any
    ) -> dict[str, Any]:
        """Return {decision, explanation} for what select_destinations is asked at 4.5.

        most, hosts and near say how much is to be explained; see Extent.
        """
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        if not caller.is_admin:
            raise Forbidden("Only administrators may see why hosts are chosen.")
        deadline = Deadline.of(context)
        with failures_named(caller), self._place():
            extent = _extent(arguments, deadline)
            asked = decode_select_arguments(_for_select(arguments))
            asked.spec.user_id = asked.spec.user_id or caller.user_id
            decision, explanation = self._rehearser.rehearse(asked, caller, extent)
            LOG.debug("Explained what would become of %s instances", len(asked.instance_uuids))
            return {
                "decision": json_value(decision),
                "explanation": _document(explanation, extent),
            }

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Refuse who comes while enough are served: waiting would keep a place of requests."""
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable("Other explanations are being made. Try again.")
        try:
            yield
        finally:
            self._places.release()


def _document(explanation: Explanation, extent: Extent) -> dict[str, Any]:
    """Return an explanation as JSON has it, made with pauses."""
    verdicts = []
    for place, each in enumerate(explanation.verdicts):
        if place % ENCODED_AT_A_TIME == 0:
            extent.pause()
        verdicts.append(json_value(each))
    document: dict[str, Any] = json_value(replace(explanation, verdicts=()))
    return document | {"verdicts": verdicts}


def _for_select(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of select_destinations; raises InvalidInput for unknown ones."""
    known = {*SELECT_ARGUMENTS, "most", "hosts", "near"}
    for name in arguments:
        if name not in known:
            raise InvalidInput(f"{shown(name)}: no such argument")
    if "spec_obj" not in arguments:
        raise InvalidInput("spec_obj: is missing")
    return {name: arguments[name] for name in SELECT_ARGUMENTS if name in arguments}


def _extent(arguments: Mapping[str, Any], deadline: Deadline) -> Extent:
    """Return how much is to be explained; raises InvalidInput."""

    def pause() -> None:
        # For requests that wait for the processor.
        time.sleep(0)
        if deadline.passed():
            raise ServiceUnavailable("The explanation took longer than its caller waits.")

    hosts = arguments.get("hosts")
    if hosts is not None and not (
        isinstance(hosts, list) and all(isinstance(each, str) for each in hosts)
    ):
        raise InvalidInput(f"hosts: {shown(hosts)} is not a list of names")
    if hosts is not None and len(hosts) > MOST_HOSTS:
        raise InvalidInput(f"hosts: {len(hosts)} names are more than {MOST_HOSTS}")
    most = _count(arguments, "most", 100, MOST_HOSTS)
    return Extent(hosts, most, _count(arguments, "near", 0, MOST_NEAR), pause)


def _count(arguments: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = arguments.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise InvalidInput(f"{name}: {shown(value)} is not a number from 0 to {most}")
    return value
