# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The timers go on through every outage, which the service row shows."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import NEVER, Manager
from compute_agent.virt.driver import Guest, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import audit_log, compute_nodes, services
from inventory.audit_log import EntryFilter
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.services import ServiceState
from tests.databases import a_uuid
from tests.fixtures.agent import a_guest
from tests.fixtures.daemons.process import wait_until

Start = Callable[[], Manager]


class Driver(FakeDriver):
    """A fake whose audits can be held up, and counted."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.audits = 0
        self.seen: Counter[str] = Counter()
        self.free = Event()
        self.free.set()

    def guests(self, node: NodeName) -> list[Guest]:
        self.free.wait()
        self.audits += 1
        self.seen[node.node] += 1
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
    return wait_until(condition)


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
        assert comes(lambda: "Audits recovered" in messages(caplog))
    enabled, off = database.read(lambda c: audit_log.search(c, EntryFilter(host="alpha"), 9))
    assert off["after"] == {"disabled": True, "disabled_reason": "AUTO: the daemon is gone"}
    assert enabled["after"] == {"disabled": False, "disabled_reason": None}
    assert {each["command"] for each in (enabled, off)} == {"berthmaster-agent"}
    assert len([text for text in messages(caplog) if "the daemon is gone" in text]) == 1


def test_a_host_that_cannot_be_disabled_is_named_in_the_log(
    start: Start,
    database: Database,
    driver: Driver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The account of the agent may lack the right to write to the audit log."""

    def denied(connection: sa.Connection, changes: Any) -> None:
        raise DatabaseUnavailable("the account of [database] connection lacks a right")

    with monkeypatch.context() as denying:
        denying.setattr(audit_log, "record", denied)
        driver.fail("the daemon is gone")
        start()
        # Longer than two attempts: the same failure is not logged again.
        assert comes(lambda: service(database) and service(database).report_count >= 4)
        assert disabled(database) is None
    found = [text for text in messages(caplog) if "lacks a right" in text]
    assert [text.partition(": ")[0] for text in found] == [
        "Schedulers may still choose failed hosts, whose services cannot be disabled"
    ]
    assert comes(lambda: disabled(database) == "AUTO: the daemon is gone")


def test_an_outage_changes_no_service_of_which_the_driver_knows_the_state(
    start: Start, database: Database, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {host: ServiceState() for host in driver.hosts()}
    monkeypatch.setattr(driver, "service_states", lambda: states)
    manager = start()
    assert comes(lambda: database.read(compute_nodes.all_live))
    failures: list[Exception] = []
    manager.observer = lambda _, error: failures.append(error) if error else None
    driver.fail("the cell is away")
    assert comes(lambda: len(failures) >= 2)
    assert disabled(database) is None
    states = {host: ServiceState("switched off") for host in driver.hosts()}
    driver.fail(None)
    assert comes(lambda: disabled(database) == "AUTO: switched off")


def test_what_an_operator_enables_is_again_as_the_driver_says(
    start: Start, database: Database, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the driver says the same as before; the audit of all nodes finds it."""
    states = {host: ServiceState("switched off", forced_down=True) for host in driver.hosts()}
    monkeypatch.setattr(driver, "service_states", lambda: states)
    manager = start()
    assert comes(lambda: disabled(database) == "AUTO: switched off")
    own = {"disabled": False, "disabled_reason": None, "forced_down": False}
    database.write(lambda each: each.execute(sa.update(services.table).values(**own)))
    manager.audit_now()
    assert comes(lambda: disabled(database) == "AUTO: switched off")
    assert comes(lambda: service(database).forced_down)


def test_what_a_mirror_said_of_a_host_ends_with_an_agent_of_its_own(
    start: Start, database: Database
) -> None:
    (own,) = database.write(lambda each: services.register(each, ["alpha"], services.COMPUTE, 1))
    said = ServiceState("disabled in Nova", cell_uuid=a_uuid("cell"))
    database.write(lambda each: services.follow(each, {own: said}))
    assert service(database).cell_uuid
    start()
    assert comes(lambda: service(database).cell_uuid is None and not disabled(database))


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
        assert manager._attempt() == NEVER
        driver.fail("gone again")
        assert manager._attempt() == 5
    finally:
        manager.stop()


FIRST, SECOND = (NodeName("alpha", f"alpha-node-000{number}") for number in (1, 2))


@pytest.fixture
def two_nodes(conf: cfg.ConfigOpts, driver: Driver) -> Driver:
    """A host with two nodes that is audited every ten minutes."""
    conf.set_override("nodes", 2, group="fake")
    conf.set_override("update_resources_interval", 600)
    return driver


def vms(database: Database) -> list[int]:
    rows = database.read(compute_nodes.all_live)
    return [row.running_vms for row in sorted(rows, key=lambda row: row.hypervisor_hostname)]


def first_audit(start: Start, database: Database) -> Manager:
    manager = start()
    assert comes(lambda: disabled(database) is None and vms(database))
    return manager


@contextmanager
def a_stream_of_events(driver: Driver) -> Iterator[None]:
    """Note the first node again and again."""
    ended = Event()

    def note() -> None:
        while not ended.wait(0.005):
            driver.changes.note(FIRST)

    thread = Thread(target=note)
    thread.start()
    yield
    ended.set()
    thread.join()


def test_an_event_has_its_node_audited_at_once_and_no_other(
    start: Start, database: Database, two_nodes: Driver
) -> None:
    first_audit(start, database)
    two_nodes.add_guest(FIRST.node, a_guest(1))
    assert comes(lambda: vms(database) == [1, 0])
    two_nodes.remove_guest(FIRST.node, a_guest(1).uuid)
    assert comes(lambda: vms(database) == [0, 0])
    # A guest without a claim has to be seen twice.
    assert (two_nodes.seen[FIRST.node], two_nodes.seen[SECOND.node]) == (4, 1)


def test_events_of_a_burst_share_an_audit(
    start: Start, database: Database, two_nodes: Driver
) -> None:
    first_audit(start, database)
    for number in range(100):
        two_nodes.add_guest(FIRST.node, a_guest(number))
    assert comes(lambda: vms(database) == [100, 0])
    # A slow machine may need more than one of the 50 ms in which events are collected.
    assert two_nodes.seen[FIRST.node] < 20
    assert two_nodes.seen[SECOND.node] == 1


def test_audits_of_all_nodes_keep_their_time_under_a_stream_of_events(
    conf: cfg.ConfigOpts, start: Start, database: Database, two_nodes: Driver
) -> None:
    conf.set_override("update_resources_interval", 1)
    began = time.monotonic()
    first_audit(start, database)
    with a_stream_of_events(two_nodes):
        assert comes(lambda: two_nodes.seen[SECOND.node] >= 4)
        seconds = time.monotonic() - began
        assert two_nodes.seen[SECOND.node] <= seconds + 2
        assert two_nodes.seen[FIRST.node] > two_nodes.seen[SECOND.node]


def test_without_an_interval_events_are_all_there_is(
    conf: cfg.ConfigOpts, start: Start, database: Database, two_nodes: Driver
) -> None:
    conf.set_override("update_resources_interval", -1)
    manager = first_audit(start, database)
    two_nodes.add_guest(SECOND.node, a_guest(1))
    assert comes(lambda: vms(database) == [0, 1])
    # A guest without a claim has to be seen twice.
    assert (two_nodes.seen[FIRST.node], two_nodes.seen[SECOND.node]) == (1, 3)
    manager.stop()
    assert not manager.alive()


def test_after_a_failure_all_nodes_are_audited(
    start: Start, database: Database, two_nodes: Driver
) -> None:
    first_audit(start, database)
    two_nodes.fail("gone for a while")
    two_nodes.add_guest(FIRST.node, a_guest(1))
    assert comes(lambda: disabled(database))
    # Nobody notes this one.
    two_nodes._added[SECOND.node] = {a_guest(2).uuid: a_guest(2)}
    two_nodes.fail(None)
    assert comes(lambda: vms(database) == [1, 1])
    assert comes(lambda: not disabled(database))


def test_a_stream_of_events_does_not_hurry_what_fails(
    conf: cfg.ConfigOpts,
    start: Start,
    database: Database,
    two_nodes: Driver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.set_override("reconnect_interval", 2, group="libvirt")
    first_audit(start, database)
    attempts = []
    nodes = two_nodes.nodes
    two_nodes.nodes = lambda: attempts.append(time.monotonic()) or nodes()  # type: ignore[method-assign,func-returns-value]
    two_nodes.fail("gone")
    began = time.monotonic()
    with a_stream_of_events(two_nodes):
        assert comes(lambda: len(attempts) >= 4)
    # Two seconds each, where the pauses would have been 2, 4 and 8 without events; a timer may end
    # microseconds before.
    assert time.monotonic() - began >= 3 * 1.9
    assert min(later - each for each, later in pairwise(attempts)) >= 1.9


def test_all_nodes_are_audited_at_once_when_somebody_asks(
    conf: cfg.ConfigOpts, start: Start, database: Database, two_nodes: Driver
) -> None:
    manager = first_audit(start, database)
    conf.set_override("nodes", 3, group="fake")
    manager.audit_now()
    assert comes(lambda: len(vms(database)) == 3)
    # Also when nothing else would ever be due.
    conf.set_override("update_resources_interval", -1)
    conf.set_override("nodes", 2, group="fake")
    manager.audit_now()
    assert comes(lambda: len(vms(database)) == 2)
    conf.set_override("update_resources_interval", 1)
    manager.audit_now()
    seen = two_nodes.seen[SECOND.node]
    assert comes(lambda: two_nodes.seen[SECOND.node] >= seen + 3)


def test_audits_that_are_late_are_said_to_be_once(
    conf: cfg.ConfigOpts, database: Database, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    manager = a_manager(conf, database, driver)
    now = time.monotonic()
    with caplog.at_level(logging.INFO, logger="compute_agent.manager"):
        for due in (now - 1, now - 2, now + 60, now + 60, now - 1):
            manager._log_lateness(due)
    manager.stop()
    assert [text.split("s longer")[-1] for text in messages(caplog)] == [
        " than update_resources_interval",
        "Audits take less time than update_resources_interval again",
        " than update_resources_interval",
    ]


def test_a_driver_that_forgets_its_mailbox_does_not_hold_up_the_end(
    conf: cfg.ConfigOpts, start: Start, database: Database, two_nodes: Driver
) -> None:
    two_nodes.close = lambda: None  # type: ignore[method-assign]
    manager = first_audit(start, database)
    manager.stop()
    assert not manager.alive()


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


def test_two_agents_of_one_name_take_their_host_out_and_write_nothing_more(
    conf: cfg.ConfigOpts, start: Start, database: Database, driver: Driver
) -> None:
    conf.set_override("update_resources_interval", -1)
    start()
    assert comes(lambda: driver.audits == 1)
    twin = a_manager(conf, database, Driver(conf))
    twin.start()
    assert comes(
        lambda: "nova-compute sends heartbeats as host alpha too" in (disabled(database) or "")
    )
    (row,) = database.read(compute_nodes.all_live)
    audits = driver.audits
    driver.changes.note(NodeName("alpha", row.hypervisor_hostname))
    beats = service(database).report_count
    assert comes(lambda: service(database).report_count > beats + 4)
    assert driver.audits == audits
    twin.stop()
    assert comes(lambda: service(database).disabled is False)
