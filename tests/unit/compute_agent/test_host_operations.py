# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent does for operators, and what it refuses."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from oslo_config import cfg

from compute_agent.host_operations import HostOperations, NotAllowed, NotPossible
from compute_agent.virt.driver import Driver, DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory import instances, services
from inventory.engine import Database
from inventory.refusals import Malformed, NotReported, Unknown
from scheduler.rpc.context import RequestContext
from tests.databases import a_node, an_instance, save, serve
from tests.fixtures import agent

ROOT = RequestContext(request_id="req-1", user_name="root")


class PowerlessDriver(FakeDriver):
    """A driver with no power over its hosts, as libvirt's is."""

    act_on_power = Driver.act_on_power


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> FakeDriver:
    return FakeDriver(conf)


@pytest.fixture
def does(conf: cfg.ConfigOpts, database: Database, driver: FakeDriver) -> HostOperations:
    """The operations of the agent alpha, which has reported, as has beta's."""
    serve(database, "alpha", "beta")
    booted = json.dumps({"booted": str(int(time.time()) - 90)})
    save(database, a_node("alpha", stats=booted), a_node("beta"))
    database.write(lambda c: instances.replace(c, "alpha", "alpha", [an_instance("u1")]))
    return HostOperations(conf, database, driver)


def allow(conf: cfg.ConfigOpts) -> None:
    conf.set_override("allow_host_power_actions", True, group="compute_agent")


def test_questions_are_answered_of_all_hosts(does: HostOperations) -> None:
    assert [row["host"] for row in does.host_list(None)] == ["alpha", "beta"]
    assert does.host_list("north") == []
    assert [row["host"] for row in does.service_list("nova-compute")] == ["alpha", "beta"]
    assert [row["hypervisor_hostname"] for row in does.hypervisor_list("et")] == ["beta"]
    assert does.hypervisor_stats()["count"] == 2
    assert does.hypervisor("beta")["service"]["host"] == "beta"


def test_the_agent_s_own_host_is_meant_where_none_is_named(does: HostOperations) -> None:
    assert does.describe(None)[0]["host"] == "alpha"
    assert does.describe("beta")[0]["host"] == "beta"
    assert does.hypervisor(None)["hypervisor_hostname"] == "alpha"
    assert [row["uuid"] for row in does.servers(None)] == ["u1"]
    assert does.disable(ROOT, None, None, "nova-compute")["host"] == "alpha"


def test_uptime_goes_by_the_clock_of_this_machine(does: HostOperations) -> None:
    assert 90 <= does.uptime(None)["uptime_seconds"] < 120
    assert does.uptime("ALPHA")["hypervisor_hostname"] == "alpha"


def test_uptime_of_another_machine_is_not_known_here(does: HostOperations) -> None:
    with pytest.raises(Unknown, match="the agent alpha serves alpha, not 'beta'"):
        does.uptime("beta")


def test_uptime_that_the_driver_does_not_tell(does: HostOperations, database: Database) -> None:
    save(database, a_node("alpha"))
    with pytest.raises(NotReported):
        does.uptime(None)


def test_who_switches_is_in_the_log(does: HostOperations, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        does.disable(ROOT, None, "new lamp", "nova-compute")
        does.enable(RequestContext(request_id="req-2", user_id="u7"), None, "nova-compute")
        does.maintenance(ROOT, "beta", True, None)
        does.maintenance(ROOT, "beta", False, None)
        does.force_down(RequestContext(), "beta", True, "nova-compute")
        does.force_down(ROOT, "beta", False, "nova-compute")
    assert [record.getMessage() for record in caplog.records] == [
        "Service nova-compute on alpha was disabled by root (req-1): new lamp",
        "Service nova-compute on alpha was enabled by u7 (req-2)",
        "Service nova-compute on beta was put into maintenance by root (req-1): in maintenance",
        "Service nova-compute on beta was taken out of maintenance by root (req-1)",
        "Service nova-compute on beta was forced down by somebody (None)",
        "Service nova-compute on beta was no longer forced down by root (req-1)",
    ]


def test_a_dead_host_is_deleted_through_another_agent(
    does: HostOperations, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.write(lambda c: c.exec_driver_sql(OLD_BEATS))
    with caplog.at_level(logging.INFO):
        assert does.delete(ROOT, "beta", "nova-compute", False)["deleted_nodes"] == ["beta"]
    assert "Service nova-compute on beta was deleted by root (req-1)" in caplog.text
    rows = database.read(services.all_live)
    assert [row.host for row in rows] == ["alpha"]


OLD_BEATS = "UPDATE services SET last_seen_up = '2020-01-01 00:00:00.000000' WHERE host = 'beta'"


def test_power_is_refused_unless_an_option_says_otherwise(
    conf: cfg.ConfigOpts, does: HostOperations, driver: FakeDriver
) -> None:
    with pytest.raises(NotAllowed) as caught:
        does.act_on_power(ROOT, None, "reboot")
    assert str(caught.value) == (
        "power actions are not allowed on this agent: set [compute_agent] allow_host_power_actions"
    )
    before = driver.power("alpha")
    allow(conf)
    answer = does.act_on_power(ROOT, " Alpha", "shutdown")
    assert answer == {"host": "alpha", "power_action": driver.power("alpha")}
    assert driver.power("alpha") != before


def test_power_leaves_its_line_before_it_is_done(
    conf: cfg.ConfigOpts, does: HostOperations, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    allow(conf)
    driver.fail("the board does not answer")
    with caplog.at_level(logging.INFO), pytest.raises(DriverUnavailable):
        does.act_on_power(ROOT, None, "reboot")
    assert "Asked to reboot host alpha by root (req-1)" in caplog.text


@pytest.mark.parametrize("action", ["startup", "reboot", "shutdown"])
def test_a_driver_without_power_is_named(
    conf: cfg.ConfigOpts, database: Database, action: str
) -> None:
    allow(conf)
    does = HostOperations(conf, database, PowerlessDriver(conf))
    with pytest.raises(NotPossible, match=f"^the fake driver cannot {action} a host$"):
        does.act_on_power(ROOT, None, action)


Order = Callable[[HostOperations], object]


@pytest.mark.parametrize(
    ("order", "refusal", "text"),
    [
        (lambda each: each.act_on_power(ROOT, None, "explode"), Malformed, "action: 'explode' is"),
        (lambda each: each.act_on_power(ROOT, "beta", "reboot"), Unknown, "serves alpha, not"),
        (lambda each: each.describe("nowhere"), Unknown, "no compute node of a host 'nowhere'"),
    ],
)
def test_orders_that_make_no_sense(
    conf: cfg.ConfigOpts, does: HostOperations, order: Order, refusal: type[Exception], text: str
) -> None:
    allow(conf)
    with pytest.raises(refusal, match=text):
        order(does)


def test_one_agent_with_many_hosts(tmp_path: Path, database: Database) -> None:
    conf = agent.options(tmp_path, DEFAULT={"compute_driver": "fake"}, fake={"hosts": 3})
    allow(conf)
    does = HostOperations(conf, database, FakeDriver(conf))
    assert does.act_on_power(ROOT, "alpha-0002", "reboot")["host"] == "alpha-0002"
    with pytest.raises(Unknown, match="the agent alpha serves alpha-0001 and 2 more, not 'alpha'"):
        does.act_on_power(ROOT, None, "reboot")
