# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Failures travel as Nova's own do, and are rebuilt from an allowed list."""

import copy
import json
import sys

import pytest
from oslo_messaging import RemoteError
from oslo_messaging._drivers.common import deserialize_remote_exception, serialize_remote_exception

from scheduler.wire.errors import (
    ComputeHostNotFound,
    ComputeServiceInUse,
    Forbidden,
    InvalidInput,
    MaxRetriesExceeded,
    NoValidHost,
    SchedulerFailure,
    ServiceUnavailable,
    Unsupported,
    from_remote,
)
from tests.unit.scheduler.wire import wire_samples

ALL = [
    NoValidHost,
    MaxRetriesExceeded,
    InvalidInput,
    ServiceUnavailable,
    ComputeHostNotFound,
    ComputeServiceInUse,
    Forbidden,
    Unsupported,
]
NOT_ENOUGH = "There are not enough hosts available."


def serialised(failure):
    try:
        raise failure
    except SchedulerFailure:
        return json.loads(serialize_remote_exception(sys.exc_info()))


@pytest.mark.parametrize("name", wire_samples.names("reply_*novalidhost"))
def test_no_valid_host_is_what_nova_sends(name):
    captured = json.loads(wire_samples.sample(name)["message"]["failure"])
    ours = serialised(NoValidHost(NOT_ENOUGH))
    assert "nova.exception.NoValidHost: No valid host was found." in ours.pop("tb")[-1]
    captured.pop("tb")
    assert ours == captured


def test_the_reason_may_be_empty():
    assert serialised(NoValidHost())["message"] == "No valid host was found. "


@pytest.mark.parametrize(
    ("failure", "message", "code"),
    [
        (InvalidInput("vcpus: x"), "Invalid input received: vcpus: x", 400),
        (ServiceUnavailable("No database."), None, 503),
        (ComputeHostNotFound("h1"), "Compute host could not be found: h1", 404),
        (ComputeServiceInUse("h1"), "Compute service is still in use: h1", 409),
        (Forbidden("no"), "Forbidden: no", 403),
    ],
)
def test_the_others_are_of_the_same_form(failure, message, code):
    sent = serialised(failure)
    assert (sent["module"], sent["kwargs"]["code"]) == ("nova.exception", code)
    assert message is None or sent["message"] == message


@pytest.mark.parametrize("failure", ALL)
def test_a_client_gets_the_class_and_the_reason_back(failure):
    sent = serialised(failure("because"))
    remote = deserialize_remote_exception(json.dumps(sent), [])
    rebuilt = from_remote(remote)
    assert (type(rebuilt), rebuilt.reason, str(rebuilt)) == (
        failure,
        "because",
        str(failure("because")),
    )


@pytest.mark.parametrize("kind", ["KeyError", "SchedulerFailure", None])
def test_any_other_class_stays_a_remote_error(kind):
    error = RemoteError(kind, "x", [])
    assert from_remote(error) is error


@pytest.mark.parametrize("failure", ALL)
def test_a_copy_says_the_same(failure):
    original = failure("because")
    assert str(copy.deepcopy(original)) == str(original)


def test_what_nova_has_no_class_for_is_ours():
    sent = serialised(Unsupported("no"))
    assert (sent["module"], sent["message"]) == ("scheduler.wire.errors", "Not supported: no")
    assert sent["kwargs"]["code"] == 501


def test_retries_that_ran_out_are_what_nova_raises():
    refused = wire_samples.sample("legacy_retry_progression")["steps"][-1]
    sent = serialised(MaxRetriesExceeded(refused["kwargs"]["reason"]))
    assert f"{sent['module']}.{sent['class']}" == refused["raises"]
    assert (sent["message"], sent["kwargs"]) == (refused["message"], refused["kwargs"])
    assert issubclass(MaxRetriesExceeded, NoValidHost)
