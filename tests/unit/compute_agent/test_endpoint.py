# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What comes in over RPC is checked, and what goes out is known to callers."""

import json
import logging
from contextlib import suppress
from typing import Any

import oslo_messaging
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from compute_agent.endpoint import HostEndpoint
from compute_agent.host_operations import HostOperations
from compute_agent.virt.driver import Driver, DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database, DatabaseUnavailable
from inventory.refusals import InUse, NotReported
from scheduler.rpc import failures
from tests.databases import a_node, save, serve

CONTEXT = {"request_id": "req-1", "user_name": "root"}
METHODS = (
    "ping",
    "host_list",
    "host_describe",
    "set_host_enabled",
    "host_maintenance_mode",
    "host_power_action",
    "get_host_uptime",
    "service_list",
    "service_enable",
    "service_disable",
    "service_force_down",
    "service_delete",
    "hypervisor_list",
    "hypervisor_show",
    "hypervisor_stats",
    "hypervisor_servers",
)


@pytest.fixture
def endpoint(conf: cfg.ConfigOpts, database: Database) -> HostEndpoint:
    serve(database, "alpha", "beta")
    save(database, a_node("alpha", stats='{"booted": "1790000000"}'), a_node("beta"))
    return HostEndpoint(HostOperations(conf, database, FakeDriver(conf)))


class PowerlessDriver(FakeDriver):
    """A driver with no power over its hosts, as libvirt's is."""

    act_on_power = Driver.act_on_power


def call(endpoint: HostEndpoint, method: str, context: Any = CONTEXT, /, **arguments: Any) -> Any:
    """Call as oslo.messaging does; raise what would reach the caller."""
    try:
        return getattr(endpoint, method)(context, **arguments)
    except oslo_messaging.ExpectedException as error:
        raise error.exc_info[1] from None


class Failing:
    """Operations that all fail in one way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: Any) -> None:
            raise self._error

        return fail


def test_all_methods_are_served_and_no_others() -> None:
    public = {name for name in vars(HostEndpoint) if not name.startswith("_")} - {"target"}
    assert public == set(METHODS)
    target = HostEndpoint.target
    assert (target.namespace, target.version) == ("berthmaster", "1.0")


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("ping", {}, {"service": "berthmaster-agent", "host": "alpha", "arg": None}),
        ("ping", {"arg": "x"}, {"service": "berthmaster-agent", "host": "alpha", "arg": "x"}),
    ],
)
def test_ping(
    endpoint: HostEndpoint, method: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert call(endpoint, method, **arguments) == expected


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("host_list", {}),
        ("host_list", {"zone": "nova"}),
        ("host_describe", {"host": "beta"}),
        ("get_host_uptime", {}),
        ("service_list", {"binary": None}),
        ("hypervisor_list", {"matching": "a"}),
        ("hypervisor_show", {}),
        ("hypervisor_stats", {}),
        ("hypervisor_servers", {"hypervisor": "alpha"}),
    ],
)
def test_answers_are_made_of_what_json_knows(
    endpoint: HostEndpoint, method: str, arguments: dict[str, Any]
) -> None:
    answer = call(endpoint, method, **arguments)
    assert json.loads(json.dumps(answer)) == answer


def test_a_host_is_switched(endpoint: HostEndpoint) -> None:
    done = call(endpoint, "set_host_enabled", enabled=False, reason="lamp")
    assert (done["host"], done["status"], done["disabled_reason"]) == ("alpha", "disabled", "lamp")
    assert call(endpoint, "set_host_enabled", enabled=True, host="alpha")["status"] == "enabled"
    done = call(endpoint, "host_maintenance_mode", mode=True, host="beta", reason="lamp")
    assert (done["host"], done["maintenance_mode"]) == ("beta", "on")
    assert call(endpoint, "host_maintenance_mode", mode=False, host="beta")["status"] == "enabled"


def test_a_service_is_switched(endpoint: HostEndpoint) -> None:
    assert call(endpoint, "service_disable", reason="lamp")["disabled_reason"] == "lamp"
    assert call(endpoint, "service_enable", binary="nova-compute")["status"] == "enabled"
    assert call(endpoint, "service_force_down", host="beta")["forced_down"] is True
    assert call(endpoint, "service_force_down", host="beta", forced_down=False) == {
        "host": "beta",
        "binary": "nova-compute",
        "status": "enabled",
        "disabled_reason": None,
        "maintenance_mode": "off",
        "forced_down": False,
        "note": "",
    }


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
            "reason: only a host that is being disabled has one",
        ),
        (
            "host_maintenance_mode",
            {"mode": False, "reason": "x"},
            "reason: the end of maintenance has none",
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
            "binary: nova-scheduler has no such switch",
        ),
        ("host_describe", {"host": ["alpha"]}, "host: must be a text"),
        ("host_describe", {"host": {}}, "host: must be a text"),
        ("hypervisor_stats", {"host": "alpha"}, "'host': there is no such argument"),
        ("ping", {"self": 1}, "'self': there is no such argument"),
        ("ping", {"context": 1}, "'context': there is no such argument"),
        ("ping", {"caller": 1}, "'caller': there is no such argument"),
        ("ping", {"x\n" * 500: 1}, "'x"),
        ("host_power_action", {"action": "explode"}, "action: 'explode' is none of"),
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
    with caplog.at_level(logging.INFO), pytest.raises(failures.InvalidInput) as caught:
        call(endpoint, method, **arguments)
    assert caught.value.reason.startswith(reason)
    assert "\n" not in caught.value.reason
    (line,) = caplog.records
    assert line.getMessage().startswith(f"Refused {method} of req-1: ")
    assert line.exc_info is None


@pytest.mark.parametrize(
    ("method", "arguments", "failure"),
    [
        ("host_describe", {"host": "nowhere"}, failures.ComputeHostNotFound),
        ("service_enable", {"host": "nowhere"}, failures.ComputeHostNotFound),
        ("hypervisor_show", {"hypervisor": "nowhere"}, failures.ComputeHostNotFound),
        ("get_host_uptime", {"hypervisor": "beta"}, failures.ComputeHostNotFound),
        ("service_delete", {"host": "beta"}, failures.ComputeServiceInUse),
        ("host_power_action", {"action": "reboot"}, failures.Forbidden),
    ],
)
def test_refusals_have_names_that_callers_know(
    endpoint: HostEndpoint, method: str, arguments: dict[str, Any], failure: type[Exception]
) -> None:
    with pytest.raises(failure):
        call(endpoint, method, **arguments)


def test_a_power_action_without_a_driver_that_can(conf: cfg.ConfigOpts, database: Database) -> None:
    conf.set_override("allow_host_power_actions", True, group="compute_agent")
    endpoint = HostEndpoint(HostOperations(conf, database, PowerlessDriver(conf)))
    with pytest.raises(failures.Unsupported, match="the fake driver cannot reboot a host"):
        call(endpoint, "host_power_action", action="reboot")


@pytest.mark.parametrize(
    ("error", "failure", "reason"),
    [
        (
            DatabaseUnavailable("no route to 192.0.2.1"),
            failures.ServiceUnavailable,
            "The agent's database does not answer.",
        ),
        (
            DriverUnavailable("the board is silent"),
            failures.ServiceUnavailable,
            "The hypervisor failed: the board is silent",
        ),
        (InUse("three guests"), failures.ComputeServiceInUse, "three guests"),
        (NotReported("nobody knows"), failures.Unsupported, "nobody knows"),
    ],
)
def test_errors_below_are_named(
    error: Exception,
    failure: type[failures.SchedulerFailure],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = HostEndpoint(Failing(error))
    with caplog.at_level(logging.INFO), pytest.raises(failure) as caught:
        call(endpoint, "service_list")
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


@given(
    method=st.sampled_from(METHODS),
    context=VALUES,
    arguments=st.dictionaries(NAMES | st.text(max_size=10), VALUES, max_size=4),
)
def test_nothing_that_is_sent_makes_another_error(
    method: str, context: Any, arguments: dict[str, Any]
) -> None:
    """Whatever passes the checks is of the right types for the database."""

    class Typed:
        agent = "alpha"

        def __getattr__(self, name: str) -> Any:
            def answer(*passed: Any) -> None:
                texts = [each for each in passed if isinstance(each, str)]
                assert all(len(each) <= 255 and each.isprintable() for each in texts)
                kinds = {type(each) for each in passed} - {type(None), bool, str}
                assert {kind.__name__ for kind in kinds} <= {"RequestContext"}

            return answer

    with suppress(failures.SchedulerFailure):
        call(HostEndpoint(Typed()), method, context, **arguments)
