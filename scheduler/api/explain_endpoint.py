# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The method that returns what would be decided, and why, to operators."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Semaphore
from typing import Any

import oslo_messaging
from oslo_log import log

from inventory.errors import counted
from inventory.objects.field_types import shown
from scheduler.analysis.explain import Explanation, Extent
from scheduler.api.scheduler_endpoint import SELECT_ARGUMENTS, errors_for
from scheduler.client.agent_client import NAMESPACE, VERSION
from scheduler.client.scheduler_client import MAX_EXPLAINED
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.arguments import check_size, decode_select_arguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import Forbidden, InvalidInput, NoValidHost, ServiceUnavailable
from scheduler.wire.to_json import json_value

LOG = log.getLogger(__name__)
# Near misses in an answer.
MAX_NEAR = 100
# Explanations made at the same time: requests are to have most of the processor.
MAX_CONCURRENT = 2
HOSTS_PER_PAUSE = 64


class ExplainEndpoint:
    """explain_destinations: the decision that a request would get, and why.

    For operators only, as it shows hosts and the instances of others. Any client that may publish
    on the broker can claim to be one.
    """

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._slots = Semaphore(MAX_CONCURRENT)

    @oslo_messaging.expected_exceptions(  # type: ignore[untyped-decorator]
        Forbidden, InvalidInput, NoValidHost, ServiceUnavailable
    )
    def explain_destinations(
        self, context: Mapping[str, Any], /, **arguments: Any
    ) -> dict[str, Any]:
        """Return {decision, explanation} for the arguments of select_destinations at 4.5.

        most, hosts and near limit what is explained; see Extent.
        """
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        if not caller.is_admin:
            raise Forbidden("Only administrators may see why hosts are chosen.")
        deadline = Deadline.of(context)
        with errors_for(caller), self._slot():
            check_size(context)
            extent = _extent(arguments, deadline)
            request = decode_select_arguments(_for_select(arguments))
            request.spec.user_id = request.spec.user_id or caller.user_id
            decision, explanation = self._destinations.rehearse(request, caller, extent)
            many = counted(len(request.instance_uuids), "instance")
            LOG.debug("Explained a request for %s", many)
            return {"decision": json_value(decision), "explanation": _document(explanation, extent)}

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Refuse a call above the limit: one that waits would take the place of a request."""
        if not self._slots.acquire(blocking=False):
            raise ServiceUnavailable("Too many explanations at the same time. Try again later.")
        try:
            yield
        finally:
            self._slots.release()


def _document(explanation: Explanation, extent: Extent) -> dict[str, Any]:
    """Return an explanation as JSON, with pauses."""
    verdicts = []
    for place, each in enumerate(explanation.verdicts):
        if place % HOSTS_PER_PAUSE == 0:
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
    """Return the requested extent; raises InvalidInput."""

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
    if hosts is not None and len(hosts) > MAX_EXPLAINED:
        raise InvalidInput(f"hosts: {len(hosts)} names are more than {MAX_EXPLAINED}")
    most = _count(arguments, "most", 100, MAX_EXPLAINED)
    return Extent(hosts, most, _count(arguments, "near", 0, MAX_NEAR), pause)


def _count(arguments: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = arguments.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise InvalidInput(f"{name}: {shown(value)} is not a number from 0 to {most}")
    return value
