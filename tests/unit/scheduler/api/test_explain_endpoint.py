# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The endpoint explain_destinations: who may ask, what is refused, and what is answered."""

import json
import math
import time

import oslo_messaging
import pytest

from inventory.database_errors import DatabaseUnavailable
from scheduler.analysis.explain import Explanation, Verdict
from scheduler.api import explain_endpoint
from scheduler.api.explain_endpoint import ExplainEndpoint
from scheduler.decision.types import Decision, Placement, WeighedHost
from scheduler.hosts.host_state import Candidate
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import Forbidden, InvalidInput, NoValidHost, ServiceUnavailable
from tests.builders import INSTANCE, a_request

ADMIN = RequestContext("req-1", user_id="me", is_admin=True).to_dict()
ASKED = encode_select_arguments(SelectArguments(a_request(user_id=None), [INSTANCE], True))
PLACED = Decision(
    (Placement(INSTANCE, Candidate(0, "h1", "n1", None, None, {"vcpu": math.inf}, 1.0), (), ()),)
)


class Rehearser:
    """Keeps what it is asked, and does what it is told meanwhile."""

    def __init__(self, meanwhile=lambda: None, hosts=1):
        self.asked = []
        self.meanwhile = meanwhile
        weighed = WeighedHost("h1", "n1", math.nan, {"W": -math.inf})
        verdicts = (Verdict("h1", "n1", rank=1, weighed=weighed, chosen=True),) * hosts
        self.explanation = Explanation(0, INSTANCE, (), "h1", "n1", hosts, hosts, 1, verdicts, {})

    def rehearse(self, asked, caller, extent):
        self.asked.append((asked, caller, extent))
        self.meanwhile()
        return PLACED, self.explanation


def explain(rehearser, context=ADMIN, **arguments):
    endpoint = ExplainEndpoint(rehearser)
    return called(endpoint, context, **arguments)


def called(endpoint, context=ADMIN, **arguments):
    """Return an answer, or raise what the caller would get."""
    try:
        return endpoint.explain_destinations(context, **(ASKED | arguments))
    except oslo_messaging.ExpectedException as expected:
        raise expected.exc_info[1] from None


def test_an_answer_is_json():
    rehearser = Rehearser(hosts=2)
    answer = explain(rehearser, most=7, hosts=["h1"], near=3)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["decision"]["placements"][0]["chosen"]["limits"] == {"vcpu": None}
    verdict, _ = answer["explanation"]["verdicts"]
    assert verdict["weighed"] == {
        "host": "h1",
        "nodename": "n1",
        "total": None,
        "shares": {"W": None},
    }
    assert answer["explanation"].keys() == set(Explanation.__slots__)
    ((asked, caller, extent),) = rehearser.asked
    assert (asked.instance_uuids, asked.spec.user_id) == ([INSTANCE], "me")
    assert caller.request_id == "req-1"
    assert (extent.most, extent.only, extent.near) == (7, ["h1"], 3)


def test_only_administrators_may_ask():
    rehearser = Rehearser()
    for context in ({}, ADMIN | {"is_admin": False}, ADMIN | {"is_admin": "yes"}):
        with pytest.raises(Forbidden, match="Only administrators"):
            explain(rehearser, context)
    assert rehearser.asked == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"most": -1}, "most: -1 is not a number from 0 to 10000"),
        ({"most": 10001}, "most: 10001 is not"),
        ({"most": True}, "most: True is not"),
        ({"near": "many"}, "near: 'many' is not a number from 0 to 100"),
        ({"hosts": "h1"}, "hosts: 'h1' is not a list of names"),
        ({"hosts": [1]}, "hosts: a list is not a list of names"),
        ({"filter_properties": {}}, "'filter_properties': no such argument"),
        ({"spec_obj": 1}, "spec_obj: 1"),
    ],
)
def test_what_cannot_be_read_is_refused(arguments, text):
    with pytest.raises(InvalidInput, match=text):
        explain(Rehearser(), **arguments)


def test_a_request_must_be_there():
    endpoint = ExplainEndpoint(Rehearser())
    with pytest.raises(oslo_messaging.ExpectedException) as expected:
        endpoint.explain_destinations(ADMIN)
    assert str(expected.value.exc_info[1]) == "Invalid input received: spec_obj: is missing"


def test_no_more_are_made_at_a_time_than_may_be():
    """Whoever comes then is refused, and served when there is a place again."""

    def again():
        if len(rehearser.asked) < explain_endpoint.MAX_CONCURRENT:
            called(endpoint)
        else:
            with pytest.raises(ServiceUnavailable, match="Too many explanations"):
                called(endpoint)

    rehearser = Rehearser(again)
    endpoint = ExplainEndpoint(rehearser)
    called(endpoint)
    assert len(rehearser.asked) == explain_endpoint.MAX_CONCURRENT
    rehearser.meanwhile = lambda: None
    assert called(endpoint)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DatabaseUnavailable("gone"), ServiceUnavailable),
        (NoValidHost("Not here."), NoValidHost),
        (InvalidInput("scheduler_hints.group: ..."), InvalidInput),
    ],
)
def test_failures_are_those_of_select(error, expected):
    def fail():
        raise error

    endpoint = ExplainEndpoint(Rehearser(fail))
    for _ in range(explain_endpoint.MAX_CONCURRENT + 1):
        with pytest.raises(expected):
            called(endpoint)


def test_nobody_is_kept_waiting_for_an_answer_that_nobody_wants():
    context = ADMIN | {"berthmaster.deadline": Deadline(time.monotonic() - 2, 1.0)}
    with pytest.raises(ServiceUnavailable, match="longer than its caller waits"):
        explain(Rehearser(), context)
