# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Copies of requests are decided, and compared with what Placement says."""

from collections.abc import Collection
from time import monotonic

import pytest

from inventory.engine import Database
from inventory.nova.placement_errors import PlacementMisconfigured
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.host_cache.cache import HostCache
from scheduler.operators.nova_shadow.comparison import Kind
from scheduler.operators.nova_shadow.request_copies import Notified, RequestCopy, decode
from scheduler.operators.nova_shadow.shadow import Shadow
from scheduler.select_destinations.destinations import Destinations
from scheduler.weighers.ram import RAMWeigher
from tests.fixtures.deployment import a_fleet
from tests.unit.scheduler.wire import wire_samples

CALL = "call_select_destinations_4.5_objects_alternates"
EVACUATION = "call_select_destinations_4.5_evacuate"
REBUILD = "call_select_destinations_4.5_rebuild"
END = "notification_legacy_end_simple"


class Sent:
    """Messages, and Ctrl-C after the last one where nothing else ends the run."""

    def __init__(self, *messages: RequestCopy | Notified, endless: bool = True) -> None:
        self._messages = [*messages]
        self._endless = endless

    def next(self, timeout: float) -> RequestCopy | Notified | None:
        if self._messages:
            return self._messages.pop(0)
        if self._endless:
            return None
        raise KeyboardInterrupt


class Chosen:
    """Placement, where each instance has what the test says."""

    def __init__(self, *nodes: str, error: PlacementMisconfigured | None = None) -> None:
        self._nodes, self._error = nodes, error

    def nodes(self, instance_uuid: str) -> Collection[str]:
        if self._error:
            raise self._error
        return self._nodes


def a_copy(name: str = CALL, **arguments: object) -> RequestCopy:
    message = wire_samples.sample(name)["message"]
    context = {"request_id": "req-1"}
    return RequestCopy(context, {**message["args"], **arguments}, monotonic())


def run(database: Database, outcomes: Chosen, *sent: RequestCopy | Notified, **more: bool):
    plan = Plan((RamFilter(),), (RAMWeigher(),))
    destinations = Destinations(database, HostCache(database), FilterScheduler(plan))
    shadow = Shadow(destinations, outcomes, wait=0.0)
    number = sum(isinstance(each, RequestCopy) for each in sent)
    shadow.run(Sent(*sent, **more), number)
    return shadow.requests


@pytest.fixture
def fleet(database: Database) -> Database:
    a_fleet(database, ["h1"])
    return database


def test_a_request_is_compared_with_its_allocation(fleet):
    (found,) = run(fleet, Chosen("h1"), a_copy())
    assert found.comparison.kind is Kind.SAME
    assert found.seconds is not None
    assert found.nova_seconds is not None
    assert not found.exact


def test_without_an_allocation_in_time_nova_has_refused(fleet):
    (found,) = run(fleet, Chosen(), a_copy())
    assert found.comparison.kind is Kind.NOVA_NO_HOST
    assert found.nova_seconds is None


def test_an_allocation_where_an_evacuated_instance_was_is_no_answer(database):
    copy = a_copy(EVACUATION)
    (left,) = copy.arguments["spec_obj"]["nova_object.data"]["ignore_hosts"]
    a_fleet(database, [left, "h2"])
    (found,) = run(database, Chosen(left, "h2"), copy)
    assert found.comparison.nova_host == "h2"
    (found,) = run(database, Chosen(left), a_copy(EVACUATION))
    assert found.comparison.kind is Kind.BOTH_REFUSED


@pytest.mark.parametrize(
    ("copy", "text"), [(a_copy(REBUILD), "rebuild"), (a_copy(spec_obj=3), "not decided here: ")]
)
def test_what_cannot_be_compared_says_why(fleet, copy, text):
    (found,) = run(fleet, Chosen("h1"), copy)
    assert found.comparison.kind is Kind.UNKNOWN
    assert text in found.comparison.text


def test_a_placement_that_does_not_answer_is_named(fleet):
    (found,) = run(fleet, Chosen(error=PlacementMisconfigured("down", "start it")), a_copy())
    assert "Placement cannot be asked: down" in found.comparison.text


def test_ctrl_c_ends_a_run_with_what_there_is(fleet):
    found = run(fleet, Chosen(), Notified("req-2", "end", 1.0), endless=False)
    assert found == []


def test_the_latency_is_that_of_the_notifications_if_there_are_two(fleet):
    notified = (Notified("req-1", "start", 5.0), Notified("req-1", "end", 5.5))
    (found,) = run(fleet, Chosen("h1"), *notified, a_copy())
    assert (found.nova_seconds, found.exact) == (0.5, True)
    (found,) = run(fleet, Chosen("h1"), *notified, *notified, a_copy())
    assert not found.exact


def test_captured_messages_are_read_without_their_secrets():
    copy = decode(wire_samples.json.dumps(wire_samples.sample(CALL)["body"]), 1.0)
    assert isinstance(copy, RequestCopy)
    assert copy.context["request_id"].startswith("req-")
    assert "auth_token" not in copy.context
    notification = decode(wire_samples.json.dumps(wire_samples.sample(END)["body"]), 1.0)
    assert isinstance(notification, Notified)
    assert notification.phase == "end"


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"oslo.message": "3"}', b"\xff"])
def test_messages_that_nobody_can_read_are_left_out(body):
    assert decode(body, 1.0) is None
