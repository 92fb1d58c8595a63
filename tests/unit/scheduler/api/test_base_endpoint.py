# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every service of Nova answers, and how wrong arguments of it are refused."""

import oslo_messaging
import pytest

from scheduler.api.scheduler_endpoint import BaseEndpoint


def test_what_was_sent_comes_back():
    assert BaseEndpoint().ping({}, arg="x") == {"service": "scheduler", "arg": "x"}
    assert BaseEndpoint().get_backdoor_port({}) is None


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("ping", {}, "missing 1 required positional argument: 'arg'"),
        ("ping", {"other": 1}, "got an unexpected keyword argument 'other'"),
        ("ping", {"arg": 1, "self": 1}, "got an unexpected keyword argument 'self'"),
        ("get_backdoor_port", {"arg": 1}, "got an unexpected keyword argument 'arg'"),
        ("get_backdoor_port", {"context": 1}, "got an unexpected keyword argument 'context'"),
    ],
)
def test_wrong_arguments_are_expected(method, arguments, text):
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        getattr(BaseEndpoint(), method)({}, **arguments)
    error = refused.value.exc_info[1]
    assert isinstance(error, TypeError)
    assert str(error) == f"BaseRPCAPI.{method}() {text}"
