# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that come in over RPC are checked, and callers know the errors that go out."""

import logging
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from compute_agent.endpoint import HostEndpoint
from compute_agent.rpc_arguments import served
from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import InUse, NotReported
from scheduler.wire import errors
from tests.databases import a_node, save, serve
from tests.unit.compute_agent.rpc_calls import METHODS, call


@pytest.fixture
def endpoint(conf: cfg.ConfigOpts, database: Database, driver: FakeDriver) -> HostEndpoint:
    serve(database, "alpha", "beta")
    save(database, a_node("alpha"), a_node("beta"))
    return HostEndpoint(conf, database, driver)


class Failing:
    """An endpoint with a method that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @served
    def fail(self, caller: Any) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("method", "arguments", "reason"),
    [
        ("set_host_enabled", {}, "enabled: is missing"),
        ("set_host_enabled", {"enabled": "yes"}, "enabled: must be true or false"),
        ("set_host_enabled", {"enabled": 1}, "enabled: must be true or false"),
        ("set_host_enabled", {"enabled": None}, "enabled: must be true or false"),
        (
            "set_host_enabled",
            {"enabled": True, "reason": "x"},
            "reason: only a host that is being disabled can have a reason",
        ),
        (
            "host_maintenance_mode",
            {"mode": False, "reason": "x"},
            "reason: the end of maintenance has no reason",
        ),
        ("host_maintenance_mode", {"mode": True, "reason": 5}, "reason: must be a text"),
        (
            "service_disable",
            {"reason": "x" * 256},
            "reason: must be one line of at most 255 characters",
        ),
        (
            "service_disable",
            {"reason": "a\nb"},
            "reason: must be one line of at most 255 characters",
        ),
        ("service_enable", {"binary": None}, "binary: must be a text"),
        (
            "service_enable",
            {"binary": "nova-scheduler", "host": "controller"},
            "binary: nova-scheduler cannot be disabled or forced down",
        ),
        ("host_describe", {"host": ["alpha"]}, "host: must be a text"),
        ("host_describe", {"host": {}}, "host: must be a text"),
        ("hypervisor_stats", {"host": "alpha"}, "'host': there is no such argument"),
        ("ping", {"self": 1}, "'self': there is no such argument"),
        ("ping", {"context": 1}, "'context': there is no such argument"),
        ("ping", {"caller": 1}, "'caller': there is no such argument"),
        ("ping", {"x\n" * 500: 1}, "'x"),
        ("host_power_action", {"action": "explode"}, "action: 'explode' is not one of"),
    ],
)
def test_what_is_malformed_is_refused_by_name(
    endpoint: HostEndpoint,
    database: Database,
    method: str,
    arguments: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    database.write(
        lambda c: c.exec_driver_sql(
            "INSERT INTO services (uuid, host, binary, topic) VALUES"
            " ('s', 'controller', 'nova-scheduler', 'scheduler')"
        )
    )
    with caplog.at_level(logging.INFO), pytest.raises(errors.InvalidInput) as caught:
        call(endpoint, method, **arguments)
    assert caught.value.reason.startswith(reason)
    assert "\n" not in caught.value.reason
    (line,) = caplog.records
    assert line.getMessage().startswith(f"Refused {method} of req-1: ")
    assert line.exc_info is None


@pytest.mark.parametrize(
    ("method", "arguments", "failure"),
    [
        ("host_describe", {"host": "nowhere"}, errors.ComputeHostNotFound),
        ("service_enable", {"host": "nowhere"}, errors.ComputeHostNotFound),
        ("hypervisor_show", {"hypervisor": "nowhere"}, errors.ComputeHostNotFound),
        ("get_host_uptime", {"hypervisor": "beta"}, errors.ComputeHostNotFound),
        ("service_delete", {"host": "beta"}, errors.ComputeServiceInUse),
        ("host_power_action", {"action": "reboot"}, errors.Forbidden),
    ],
)
def test_refusals_have_names_that_callers_know(
    endpoint: HostEndpoint, method: str, arguments: dict[str, Any], failure: type[Exception]
) -> None:
    with pytest.raises(failure):
        call(endpoint, method, **arguments)


@pytest.mark.parametrize(
    ("error", "failure", "reason"),
    [
        (
            DatabaseUnavailable("no route to 192.0.2.1"),
            errors.ServiceUnavailable,
            "The agent's database does not answer.",
        ),
        (
            DriverUnavailable("the board is silent"),
            errors.ServiceUnavailable,
            "The hypervisor failed: the board is silent",
        ),
        (InUse("three guests"), errors.ComputeServiceInUse, "three guests"),
        (NotReported("no such figure"), errors.Unsupported, "no such figure"),
    ],
)
def test_errors_below_are_named(
    error: Exception,
    failure: type[errors.SchedulerFailure],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(failure) as caught:
        call(Failing(error), "fail")
    assert caught.value.reason == reason
    assert str(error) in caplog.text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["host", "reason", "enabled", "mode", "action", "binary", "hypervisor", "forced_down", "zone"]
)


# The endpoint is the same for all examples, which is as it is in an agent.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    method=st.sampled_from(METHODS),
    context=VALUES,
    arguments=st.dictionaries(NAMES | st.text(max_size=10), VALUES, max_size=4),
)
def test_nothing_that_is_sent_makes_another_error(
    endpoint: HostEndpoint, method: str, context: Any, arguments: dict[str, Any]
) -> None:
    with suppress(errors.SchedulerFailure):
        call(endpoint, method, context, **arguments)


@given(name=st.sampled_from(["text", "flag"]), value=VALUES)
def test_what_is_passed_on_has_the_type_of_its_parameter(name: str, value: Any) -> None:
    class Typed:
        @served
        def check(self, caller: Any, *, text: str | None = None, flag: bool = False) -> None:
            assert isinstance(flag, bool)
            assert text is None or (type(text) is str and len(text) <= 255 and text.isprintable())

    with suppress(errors.InvalidInput):
        call(Typed(), "check", {}, **{name: value})
