# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The caller's context, in the dialects of all releases."""

import pytest
from oslo_context import context as oslo

from scheduler.rpc.context import RequestContext
from tests.unit.scheduler.rpc import wire

REQUEST_ID = "req-00000000-0000-0000-0000-000000000001"


@pytest.fixture(autouse=True)
def _no_context_left_behind():
    yield
    if hasattr(oslo._request_store, "context"):
        del oslo._request_store.context


@pytest.mark.parametrize(
    ("name", "global_id", "timeout"),
    [
        (
            "call_select_destinations_4.5_full_spec",
            "req-00000000-0000-0000-0000-0000000000ff",
            60,
        ),
        ("call_newton_select_destinations_4.3", None, None),
    ],
)
def test_both_dialects(name, global_id, timeout):
    context = RequestContext.from_dict(wire.context(name))
    assert (context.request_id, context.global_request_id) == (REQUEST_ID, global_id)
    assert (context.user_id, context.project_id) == ("user1", "project1")
    assert (context.user_name, context.project_name) == ("alice", "demo")
    assert context.is_admin
    assert "member" in context.roles
    assert context.client_timeout == timeout


def test_secrets_are_not_kept():
    received = wire.context("call_select_destinations_4.5_full_spec")
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
    logged = RequestContext.from_dict(wire.context("call_newton_select_destinations_4.3"))
    values = logged.for_logging().get_logging_values()
    assert (values["request_id"], values["project_id"]) == (REQUEST_ID, "project1")
    assert oslo.get_current().request_id == REQUEST_ID
