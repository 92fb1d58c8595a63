# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The caller's context, in the dialects of all releases, and the deadline in it."""

import math
from time import monotonic
from typing import Any

import pytest
from oslo_context import context as oslo

from scheduler.wire.context import Deadline, RequestContext
from tests.unit.scheduler.wire import wire_samples

REQUEST_ID = "req-00000000-0000-0000-0000-000000000001"


@pytest.fixture(autouse=True)
def _no_context_left_behind():
    yield
    if hasattr(oslo._request_store, "context"):
        del oslo._request_store.context


@pytest.mark.parametrize(
    ("name", "global_id", "timeout"),
    [
        ("call_select_destinations_4.5_full_spec", "req-00000000-0000-0000-0000-0000000000ff", 60),
        ("call_newton_select_destinations_4.3", None, None),
    ],
)
def test_both_dialects(name, global_id, timeout):
    context = RequestContext.from_dict(wire_samples.context(name))
    assert (context.request_id, context.global_request_id) == (REQUEST_ID, global_id)
    assert (context.user_id, context.project_id) == ("user1", "project1")
    assert (context.user_name, context.project_name) == ("alice", "demo")
    assert context.is_admin
    assert "member" in context.roles
    assert context.client_timeout == timeout


def test_secrets_are_not_kept():
    received = wire_samples.context("call_select_destinations_4.5_full_spec")
    assert received["auth_token"] == "token1"
    context = RequestContext.from_dict(received)
    everything = repr(context) + repr(context.to_dict()) + repr(context.for_logging().to_dict())
    assert "token1" not in everything
    assert "RegionOne" not in everything


@pytest.mark.parametrize("name", ["project_id", "project", "tenant"])
def test_the_project_has_three_names(name):
    assert RequestContext.from_dict({name: "p"}).project_id == "p"


def test_what_we_send_we_read_back():
    context = RequestContext(
        REQUEST_ID, "g", "u", "p", "alice", "demo", "d", "ud", "pd", True, ("admin",)
    )
    sent = context.to_dict()
    assert RequestContext.from_dict(sent) == context
    assert sent["tenant"] == sent["project"] == sent["project_id"] == "p"


@pytest.mark.parametrize("received", [None, [], "x", {}, {"colour": "blue", 5: 6}])
def test_nothing_to_read_is_an_anonymous_context(received):
    assert RequestContext.from_dict(received) == RequestContext()


@pytest.mark.parametrize("value", ["", "x" * 256, "a\nb", 7, [], {}, None, True])
def test_what_has_the_wrong_type_counts_as_unset(value):
    received = dict.fromkeys(
        ("request_id", "user_id", "user", "project_id", "tenant", "client_timeout"), value
    )
    context = RequestContext.from_dict(received | {"roles": [value, "reader"], "is_admin": "yes"})
    expected = RequestContext(roles=("reader",), client_timeout=7 if value == 7 else None)
    assert context == expected


def test_roles_that_are_no_list():
    assert RequestContext.from_dict({"roles": "admin"}).roles == ()


def test_log_lines_carry_the_request():
    logged = RequestContext.from_dict(wire_samples.context("call_newton_select_destinations_4.3"))
    values = logged.for_logging().get_logging_values()
    assert (values["request_id"], values["project_id"]) == (REQUEST_ID, "project1")
    assert oslo.get_current().request_id == REQUEST_ID


def test_the_endpoint_finds_the_deadline_in_the_context() -> None:
    context: dict[str, Any] = {}
    before = monotonic()
    stamped = Deadline.stamp(context, 1.0)
    assert Deadline.of(context) is stamped
    assert before <= stamped.received <= monotonic()


def test_a_context_without_a_deadline_has_an_infinite_one() -> None:
    assert Deadline.of({}).left() == math.inf
    assert not Deadline.of({}).passed()


def test_a_deadline_that_a_caller_invents_counts_for_nothing() -> None:
    context: dict[str, Any] = {"berthmaster.deadline": {"received": 0, "seconds": 0}}
    assert Deadline.of(context).left() == math.inf
    assert Deadline.stamp(context, 1.0) is Deadline.of(context)


def test_a_deadline_passes() -> None:
    gone, there = Deadline(monotonic() - 3, 2.0), Deadline(monotonic() - 3, 60.0)
    assert gone.passed()
    assert gone.left() < 0
    assert gone.waited() >= 3
    assert not there.passed()
    assert 50 < there.left() <= 57
