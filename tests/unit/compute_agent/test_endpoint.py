# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent answers and does for operators, and what it refuses."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from compute_agent.endpoint import HostEndpoint
from compute_agent.virt.driver import Driver
from compute_agent.virt.fake import FakeDriver
from inventory import instances, services
from inventory.engine import Database
from scheduler.wire import errors
from tests.databases import a_node, a_uuid, an_instance, save, serve
from tests.fixtures import agent
from tests.unit.compute_agent.rpc_calls import METHODS, call


@pytest.fixture
def endpoint(conf: cfg.ConfigOpts, database: Database, driver: FakeDriver) -> HostEndpoint:
    """The endpoint of the agent alpha, which has reported, as has beta's."""
    serve(database, "alpha", "beta")
    booted = json.dumps({"booted": str(int(time.time()) - 90)})
    save(database, a_node("alpha", stats=booted), a_node("beta"))
    database.write(lambda c: instances.replace(c, "alpha", "alpha", [an_instance("u1")]))
    return HostEndpoint(conf, database, driver)


class PowerlessDriver(FakeDriver):
    """A driver with no power over its hosts, as libvirt's is."""

    act_on_power = Driver.act_on_power


def allow(conf: cfg.ConfigOpts) -> None:
    conf.set_override("allow_host_power_actions", True, group="compute_agent")


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


def test_the_configuration_is_for_administrators(endpoint: HostEndpoint) -> None:
    answer = call(endpoint, "config_show", {"request_id": "req-1", "is_admin": True})
    assert {"group", "option", "value", "set_by"} == answer["settings"][0].keys()
    with pytest.raises(errors.Forbidden, match="Only administrators may see the configuration"):
        call(endpoint, "config_show")


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


def test_questions_are_answered_of_all_hosts(endpoint: HostEndpoint) -> None:
    assert [row["host"] for row in call(endpoint, "host_list")] == ["alpha", "beta"]
    assert call(endpoint, "host_list", zone="north") == []
    assert [row["host"] for row in call(endpoint, "service_list", binary="nova-compute")] == [
        "alpha",
        "beta",
    ]
    assert [
        row["hypervisor_hostname"] for row in call(endpoint, "hypervisor_list", matching="et")
    ] == ["beta"]
    assert call(endpoint, "hypervisor_stats")["count"] == 2
    assert call(endpoint, "hypervisor_show", hypervisor="beta")["service"]["host"] == "beta"


def test_the_agent_s_own_host_is_meant_where_none_is_named(endpoint: HostEndpoint) -> None:
    assert call(endpoint, "host_describe")[0]["host"] == "alpha"
    assert call(endpoint, "host_describe", host="beta")[0]["host"] == "beta"
    assert call(endpoint, "hypervisor_show")["hypervisor_hostname"] == "alpha"
    assert [row["uuid"] for row in call(endpoint, "hypervisor_servers")] == ["u1"]
    assert call(endpoint, "service_disable")["host"] == "alpha"


def test_uptime_goes_by_the_clock_of_this_machine(endpoint: HostEndpoint) -> None:
    assert 90 <= call(endpoint, "get_host_uptime")["uptime_seconds"] < 120
    assert call(endpoint, "get_host_uptime", hypervisor="ALPHA")["hypervisor_hostname"] == "alpha"


def test_uptime_of_another_machine_is_not_known_here(endpoint: HostEndpoint) -> None:
    with pytest.raises(
        errors.ComputeHostNotFound, match="the agent alpha serves alpha, not 'beta'"
    ):
        call(endpoint, "get_host_uptime", hypervisor="beta")


def test_uptime_that_the_driver_does_not_report(endpoint: HostEndpoint, database: Database) -> None:
    save(database, a_node("alpha"))
    with pytest.raises(errors.Unsupported):
        call(endpoint, "get_host_uptime")


def test_who_switches_is_in_the_log(
    endpoint: HostEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        call(endpoint, "service_disable", reason="new lamp")
        call(endpoint, "service_enable", {"request_id": "req-2", "user_id": "u7"})
        call(endpoint, "host_maintenance_mode", mode=True, host="beta")
        call(endpoint, "host_maintenance_mode", mode=False, host="beta")
        call(endpoint, "service_force_down", {}, host="beta")
        call(endpoint, "service_force_down", host="beta", forced_down=False)
    assert [record.getMessage() for record in caplog.records] == [
        "Service nova-compute on alpha was disabled by root (req-1): new lamp",
        "Service nova-compute on alpha was enabled by u7 (req-2)",
        "Service nova-compute on beta was put into maintenance by root (req-1): in maintenance",
        "Service nova-compute on beta was taken out of maintenance by root (req-1)",
        "Service nova-compute on beta was forced down by an unnamed user (None)",
        "Service nova-compute on beta was no longer forced down by root (req-1)",
    ]


def test_a_dead_host_is_deleted_through_another_agent(
    endpoint: HostEndpoint, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.write(lambda c: c.exec_driver_sql(OLD_BEATS))
    with caplog.at_level(logging.INFO):
        assert call(endpoint, "service_delete", host="beta")["deleted_nodes"] == ["beta"]
    assert "Service nova-compute on beta was deleted by root (req-1)" in caplog.text
    rows = database.read(services.all_live)
    assert [row.host for row in rows] == ["alpha"]


OLD_BEATS = "UPDATE services SET last_seen_up = '2020-01-01 00:00:00.000000' WHERE host = 'beta'"


def test_power_is_refused_unless_an_option_says_otherwise(
    conf: cfg.ConfigOpts, endpoint: HostEndpoint, driver: FakeDriver
) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        call(endpoint, "host_power_action", action="reboot")
    assert caught.value.reason == (
        "power actions are not allowed on this agent: set [compute_agent] allow_host_power_actions"
    )
    before = driver.power("alpha")
    allow(conf)
    answer = call(endpoint, "host_power_action", action="shutdown", host=" Alpha")
    assert answer == {"host": "alpha", "power_action": driver.power("alpha")}
    assert driver.power("alpha") != before


@pytest.mark.parametrize(
    ("method", "arguments", "command"),
    [
        ("set_host_enabled", {"enabled": True}, "set --enable beta"),
        ("service_enable", {}, "set --enable beta"),
        ("service_force_down", {}, "set --down beta"),
        ("service_delete", {}, "service delete ID"),
    ],
)
def test_what_is_nova_s_is_refused_with_its_command(
    endpoint: HostEndpoint, database: Database, method: str, arguments: dict[str, Any], command: str
) -> None:
    row = database.read(lambda c: services.find(c, "beta", services.COMPUTE[0]))
    assert row is not None
    off = services.ServiceState("disabled in Nova", cell_uuid=a_uuid("cell"))
    database.write(lambda c: services.follow(c, {row.id: off}))
    with pytest.raises(errors.Forbidden, match=command):
        call(endpoint, method, host="beta", **arguments)


def test_power_leaves_its_line_before_it_is_done(
    conf: cfg.ConfigOpts,
    endpoint: HostEndpoint,
    driver: FakeDriver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    allow(conf)
    driver.fail("the board does not answer")
    with caplog.at_level(logging.INFO), pytest.raises(errors.ServiceUnavailable):
        call(endpoint, "host_power_action", action="reboot")
    assert "Asked to reboot host alpha by root (req-1)" in caplog.text


@pytest.mark.parametrize("action", ["startup", "reboot", "shutdown"])
def test_a_driver_without_power_is_named(
    conf: cfg.ConfigOpts, database: Database, action: str
) -> None:
    allow(conf)
    endpoint = HostEndpoint(conf, database, PowerlessDriver(conf))
    with pytest.raises(errors.Unsupported, match=f"the fake driver cannot {action} a host$"):
        call(endpoint, "host_power_action", action=action)


@pytest.mark.parametrize(
    ("method", "arguments", "refusal", "text"),
    [
        ("host_power_action", {"action": "explode"}, errors.InvalidInput, "action: 'explode' is"),
        (
            "host_power_action",
            {"action": "reboot", "host": "beta"},
            errors.ComputeHostNotFound,
            "serves alpha, not",
        ),
        (
            "host_describe",
            {"host": "nowhere"},
            errors.ComputeHostNotFound,
            "host 'nowhere' has no compute node",
        ),
    ],
)
def test_operations_that_make_no_sense(
    conf: cfg.ConfigOpts,
    endpoint: HostEndpoint,
    method: str,
    arguments: dict[str, Any],
    refusal: type[Exception],
    text: str,
) -> None:
    allow(conf)
    with pytest.raises(refusal, match=text):
        call(endpoint, method, **arguments)


def test_one_agent_with_many_hosts(tmp_path: Path, database: Database) -> None:
    conf = agent.options(tmp_path, DEFAULT={"compute_driver": "fake"}, fake={"hosts": 3})
    allow(conf)
    endpoint = HostEndpoint(conf, database, FakeDriver(conf))
    assert (
        call(endpoint, "host_power_action", action="reboot", host="alpha-0002")["host"]
        == "alpha-0002"
    )
    with pytest.raises(
        errors.ComputeHostNotFound,
        match="the agent alpha serves alpha-0001 and 2 more, not 'alpha'",
    ):
        call(endpoint, "host_power_action", action="reboot")
