# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Services of hosts that come, go, die and are switched as a driver says."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import Manager
from compute_agent.service_follower import ServiceFollower
from compute_agent.virt.driver import Guest, NodeName
from compute_agent.virt.fake import FakeDriver
from conf.service import liveness_limit
from inventory import audit_log, compute_nodes, services
from inventory.audit_log import EntryFilter
from inventory.engine import Database
from inventory.heartbeat import Heartbeat
from inventory.queries import host_queries
from inventory.services import ServiceState
from tests.fixtures.daemons.process import wait_until

UP = ServiceState()
DEAD = ServiceState(is_alive=False)


class Driver(FakeDriver):
    """A fake whose hosts, each with a node of its name, are those that have states."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.states = {"a": UP, "b": UP}

    def hosts(self) -> list[str]:
        return list(self.states)

    def service_states(self) -> dict[str, ServiceState]:
        return dict(self.states)

    def _named(self) -> dict[str, NodeName]:
        return {host: NodeName(host, host) for host in self.states}

    def put(self, host: str, state: ServiceState | None) -> None:
        """Give a host another state, or none, and send an event."""
        if state is None:
            del self.states[host]
        else:
            self.states[host] = state
        self.changes.note(NodeName(host, host))


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> Driver:
    return Driver(conf)


@pytest.fixture(autouse=True)
def manager(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> Iterator[Manager]:
    conf.set_override("update_resources_interval", 600)
    tracker = ResourceTracker(conf, database, driver)
    made = Manager(conf, database, driver, tracker, lambda: None)
    made.start()
    assert wait_until(lambda: nodes(database) == {"a", "b"})
    yield made
    made.stop()


def nodes(database: Database) -> set[str]:
    return {row.host for row in database.read(compute_nodes.all_live)}


def rows(database: Database) -> dict[str, sa.Row[Any]]:
    return {row.host: row for row in database.read(services.all_live)}


def comes(condition: Any) -> bool:
    return wait_until(condition)


def is_up(conf: cfg.ConfigOpts, database: Database, host: str) -> bool:
    return services.is_up(rows(database)[host], liveness_limit(conf))


def test_a_new_host_is_registered(driver: Driver, database: Database) -> None:
    driver.put("c", UP)
    assert comes(lambda: nodes(database) == {"a", "b", "c"})
    assert comes(lambda: rows(database)["c"].report_count > 0)


def test_a_host_that_is_gone_ends_with_its_nodes(driver: Driver, database: Database) -> None:
    driver.put("b", None)
    assert comes(lambda: rows(database).keys() == {"a"})
    assert nodes(database) == {"a"}
    driver.put("b", UP)
    assert comes(lambda: nodes(database) == {"a", "b"})
    assert rows(database).keys() == {"a", "b"}


def test_a_dead_host_is_down_at_once_until_it_is_alive(
    conf: cfg.ConfigOpts, driver: Driver, database: Database
) -> None:
    driver.put("b", DEAD)
    assert comes(lambda: not is_up(conf, database, "b"))
    beats = rows(database)["b"].report_count
    before = rows(database)["a"].report_count
    assert comes(lambda: rows(database)["a"].report_count > before + 1)
    assert rows(database)["b"].report_count == beats
    driver.put("b", UP)
    assert comes(lambda: is_up(conf, database, "b"))


def test_a_host_that_is_dead_at_first_is_down(
    conf: cfg.ConfigOpts, driver: Driver, database: Database
) -> None:
    driver.put("c", DEAD)
    assert comes(lambda: "c" in nodes(database))
    assert not is_up(conf, database, "c")


def test_switches_follow(driver: Driver, database: Database) -> None:
    driver.put("b", ServiceState("disk", forced_down=True))
    assert comes(lambda: rows(database)["b"].forced_down)
    row = rows(database)["b"]
    assert (row.disabled, row.disabled_reason) == (True, "AUTO: disk")
    assert not rows(database)["a"].disabled
    driver.put("b", UP)
    assert comes(lambda: not rows(database)["b"].disabled)
    assert not rows(database)["b"].forced_down


def test_what_an_operator_disabled_here_stays_so(driver: Driver, database: Database) -> None:
    values = {"disabled": True, "disabled_reason": "mine"}
    database.write(lambda each: each.execute(sa.update(services.table).values(**values)))
    driver.put("b", ServiceState("theirs"))
    driver.put("c", UP)
    assert comes(lambda: "c" in nodes(database))
    driver.put("b", UP)
    driver.put("d", UP)
    assert comes(lambda: "d" in nodes(database))
    assert {host: row.disabled_reason for host, row in rows(database).items()} == {
        **dict.fromkeys("ab", "mine"),
        **dict.fromkeys("cd"),
    }


def test_after_an_outage_the_states_hold_again(driver: Driver, database: Database) -> None:
    driver.put("b", ServiceState("disk"))
    assert comes(lambda: rows(database)["b"].disabled)
    driver.fail("gone")
    driver.add_guest("a", Guest("u", "vm", 1, 1))
    driver.put("a", ServiceState("fan"))
    driver.fail(None)
    assert comes(lambda: rows(database)["a"].disabled_reason == "AUTO: fan")
    assert rows(database)["b"].disabled_reason == "AUTO: disk"


def test_when_nova_has_switched_a_service_is_in_the_audit_log(
    conf: cfg.ConfigOpts, database: Database, driver: Driver
) -> None:
    at = datetime(2026, 11, 1, 12, 30)
    driver.put("a", ServiceState("disabled in Nova: disk", switched_at=at))
    # A heartbeat has hidden when, so it is when that was seen.
    driver.put("b", ServiceState(forced_down=True))
    assert comes(lambda: rows(database)["a"].disabled and rows(database)["b"].forced_down)

    def switched(host: str) -> dict[str, Any]:
        row = rows(database)[host]
        return database.read(lambda each: host_queries.switched_by(each, [row]))[host]

    found = switched("a")
    assert (found["disabled_by"], found["disabled_since"][:16]) == ("Nova", "2026-11-01 12:30")
    assert (found["forced_down_by"], found["forced_down_since"]) == (None, None)
    assert switched("b")["forced_down_by"] == "Nova"
    assert switched("b")["forced_down_since"][:16] > "2026-11-01 12:30"
    driver.put("a", UP)
    driver.put("b", UP)
    assert comes(lambda: not rows(database)["a"].disabled and not rows(database)["b"].forced_down)
    driver.put("a", ServiceState("disabled in Nova", switched_at=at + timedelta(days=1)))
    assert comes(lambda: rows(database)["a"].disabled)
    assert switched("a")["disabled_since"][:16] == "2026-11-02 12:30"


def test_what_was_switched_before_anybody_looked_has_no_time(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    heartbeat = Heartbeat(database, ["c", "d"], services.COMPUTE, 60.0)
    heartbeat.start()
    follower = ServiceFollower(database, heartbeat, liveness_limit(conf))
    at = datetime(2026, 11, 1, 12, 30)
    off = ServiceState("disabled in Nova")
    try:
        follower.switch({"c": off, "d": replace(off, switched_at=at)}, everything=True)
    finally:
        heartbeat.stop()
    entries = database.read(lambda each: audit_log.search(each, EntryFilter(), 10))
    assert [(each["name"], each["changed_at"][:16]) for each in entries] == [
        ("d", "2026-11-01 12:30")
    ]
