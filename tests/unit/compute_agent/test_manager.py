# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The timers go on through every outage, and the service row tells of it."""

import logging
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.manager import Manager
from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import Guest, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, services
from inventory.engine import Database
from tests.fixtures.daemons.process import wait_until

Start = Callable[[], Manager]


class Driver(FakeDriver):
    """A fake whose audits can be held up, and counted."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.audits = 0
        self.free = Event()
        self.free.set()

    def guests(self, node: NodeName) -> list[Guest]:
        self.free.wait()
        self.audits += 1
        return list(super().guests(node))

    def close(self) -> None:
        super().close()
        self.free.set()


def a_manager(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> Manager:
    tracker = ResourceTracker(conf, database, driver)
    return Manager(conf, database, driver, tracker, lambda: None)


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> Driver:
    conf.set_override("update_resources_interval", 1)
    conf.set_override("reconnect_interval", 1, group="libvirt")
    return Driver(conf)


@pytest.fixture
def start(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> Iterator[Start]:
    managers: list[Manager] = []

    def started() -> Manager:
        managers.append(a_manager(conf, database, driver))
        managers[-1].start()
        return managers[-1]

    yield started
    for manager in managers:
        manager.stop()


def service(database: Database) -> sa.Row[Any] | None:
    rows = database.read(services.all_live)
    return rows[0] if rows else None


def comes(condition: Callable[[], Any]) -> bool:
    return wait_until(condition, timeout=20)


def disabled(database: Database) -> str | None:
    row = service(database)
    return row.disabled_reason if row is not None and row.disabled else None


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_the_first_audit_is_made_at_once(start: Start, database: Database) -> None:
    start()
    assert comes(lambda: database.read(compute_nodes.all_live))
    (row,) = database.read(compute_nodes.all_live)
    found = service(database)
    assert found is not None
    assert (found.host, found.binary, found.disabled) == ("alpha", "nova-compute", False)
    assert row.service_id == found.id


def test_audits_and_heartbeats_repeat(start: Start, database: Database, driver: Driver) -> None:
    start()
    assert comes(lambda: driver.audits >= 2)
    assert comes(lambda: service(database).report_count >= 2)


def test_a_held_up_audit_does_not_hold_up_the_heart(
    start: Start, database: Database, driver: Driver
) -> None:
    driver.free.clear()
    start()
    assert comes(lambda: service(database) is not None and service(database).report_count >= 3)
    assert driver.audits == 0


def test_an_outage_takes_the_host_out_until_it_is_over(
    start: Start, database: Database, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fail("the daemon is gone")
    with caplog.at_level(logging.INFO, logger="compute_agent.manager"):
        start()
        assert comes(lambda: disabled(database) == "AUTO: the daemon is gone")
        assert database.read(compute_nodes.all_live) == []
        # Longer than two attempts: the same failure is not logged again.
        assert comes(lambda: service(database).report_count >= 4)
        driver.fail(None)
        assert comes(lambda: database.read(compute_nodes.all_live))
        assert comes(lambda: not service(database).disabled)
        # It is logged last.
        assert comes(lambda: "Audits succeed again" in messages(caplog))
    assert len([text for text in messages(caplog) if "the daemon is gone" in text]) == 1


def test_what_an_operator_disabled_stays_so(
    start: Start, database: Database, driver: Driver
) -> None:
    table = services.table
    ids = database.write(lambda each: services.register(each, ["alpha"], services.COMPUTE, 1))
    database.write(
        lambda each: each.execute(
            sa.update(table).values(disabled=True, disabled_reason="maintenance")
        )
    )
    driver.fail("gone")
    start()
    assert comes(lambda: service(database).report_count >= 3)
    assert disabled(database) == "maintenance"
    driver.fail(None)
    assert comes(lambda: driver.audits)
    assert comes(lambda: service(database).report_count >= 5)
    assert disabled(database) == "maintenance"
    assert service(database).id == ids[0]


def test_a_reason_that_an_earlier_run_left_is_taken_away(start: Start, database: Database) -> None:
    ids = database.write(lambda each: services.register(each, ["alpha"], services.COMPUTE, 1))
    database.write(lambda each: services.disable_automatically(each, ids, "libvirt was gone"))
    assert disabled(database)
    start()
    assert comes(lambda: not service(database).disabled)


def test_a_defect_is_logged_with_its_place_and_survived(
    start: Start, driver: Driver, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    facts = driver.facts
    driver.facts = lambda node: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    start()
    assert comes(lambda: disabled(database) == "AUTO: division by zero")
    assert [record for record in caplog.records if record.exc_info]
    driver.facts = facts  # type: ignore[method-assign]
    assert comes(lambda: driver.audits)


def test_pauses_grow_and_end(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
    conf.set_override("update_resources_interval", -1)
    conf.set_override("reconnect_interval", 5, group="libvirt")
    driver.fail("gone")
    manager = a_manager(conf, database, driver)
    try:
        assert [manager._attempt() for _ in range(6)] == [5, 10, 20, 40, 60, 60]
        driver.fail(None)
        assert manager._attempt() is None
        driver.fail("gone again")
        assert manager._attempt() == 5
    finally:
        manager.stop()


def test_stop_does_not_wait_for_a_driver_that_hangs(
    start: Start, driver: Driver, database: Database
) -> None:
    driver.free.clear()
    manager = start()
    assert comes(lambda: service(database) is not None)
    assert manager.alive()
    manager.stop()
    assert not manager.alive()
    assert not service(database).disabled
