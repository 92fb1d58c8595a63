# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The health of an agent, and the page on which it is shown with the measures."""

import time
from collections.abc import Iterator

import pytest
from oslo_config import cfg
from prometheus_client import CollectorRegistry

from compute_agent import health
from compute_agent.health import AgentChecks
from compute_agent.manager import Manager
from compute_agent.measures import Measures
from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from compute_agent.watching import Watching
from inventory.engine import Database, DatabaseUnavailable
from scheduler.rpc.broker_check import BrokerCheck
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.status_page import StatusPage
from tests.status_tables import documented, served


@pytest.fixture
def measures() -> Measures:
    return Measures(CollectorRegistry())


@pytest.fixture
def checks(conf: cfg.ConfigOpts, database: Database, measures: Measures) -> Iterator[AgentChecks]:
    found = AgentChecks(conf, database, lambda: False, measures)
    yield found
    found.close()


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes whatever it is sent."""
    monkeypatch.setattr(BrokerCheck, "greet", lambda _: None)


@pytest.fixture
def page(conf: cfg.ConfigOpts) -> StatusPage:
    found = StatusPage(free_ports(1)[0])
    conf.set_override("bind", found.options["status"]["bind"], group="status")
    return found


def test_the_hypervisor_is_well_when_an_audit_was(checks: AgentChecks, measures: Measures) -> None:
    ask = checks.all["hypervisor"]
    assert ask() == "no audit has ended yet"
    measures.audited(0.1, None)
    assert not ask()
    measures.audited(0.1, DriverUnavailable("libvirt is gone"))
    assert ask() == "libvirt is gone"
    measures.audited(0.1, None)
    measures.audited(0.1, DatabaseUnavailable("gone"))
    assert not ask()


def test_audits_that_stop_are_noticed(
    checks: AgentChecks, measures: Measures, conf: cfg.ConfigOpts
) -> None:
    ask, longest = checks.all["hypervisor"], health.MOST_MISSED * 60 + health.PATIENCE
    measures.audited(0.1, None)
    measures.audited_at = time.monotonic() - longest + 5
    assert not ask()
    measures.audited_at = time.monotonic() - longest - 1
    assert ask() == "the last audit ended 241 s ago, one is due every 60 s"
    measures.audited(0.1, DatabaseUnavailable("gone"))
    # That is no fault of the hypervisor's.
    assert not ask()
    measures.audited(0.1, None)
    measures.audited_at = time.monotonic() - longest - 1
    conf.set_override("update_resources_interval", -1)
    assert not ask()


def test_whoever_hears_nothing_is_not_well(checks: AgentChecks, reachable: None) -> None:
    assert checks.all["broker"]() == "operations are not received: not subscribed yet"
    assert checks.all["database"]() is None


def test_a_page_shows_health_and_all_measures_that_are_documented(
    conf: cfg.ConfigOpts, database: Database, page: StatusPage, reachable: None
) -> None:
    driver, watching = FakeDriver(conf), Watching(conf)
    tracker = ResourceTracker(conf, database, driver, tell=watching.hearing(lambda _: None))
    manager = Manager(conf, database, driver, tracker, lambda: None)
    watching.start(database, manager, lambda: True)
    try:
        code, report = page.health()
        assert (code, report["hypervisor"]["problem"]) == (503, "no audit has ended yet")
        manager.start()
        assert wait_until(page.is_healthy, 20)
        measured = page.measures()
        assert measured("nodes") == measured("hypervisor_connected") == 1
        assert measured("healthy", part="hypervisor") == 1
        assert served(measured.families) == documented("agent")
    finally:
        manager.stop()
        watching.stop()
    assert page.health() == (0, {})


def test_without_an_address_nothing_is_watched(conf: cfg.ConfigOpts, database: Database) -> None:
    watching, driver = Watching(conf), FakeDriver(conf)
    tell = print
    assert watching.hearing(tell) is tell
    tracker = ResourceTracker(conf, database, driver)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    before = manager.witness
    watching.start(database, manager, lambda: True)
    assert manager.witness is before
    watching.stop()
