# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The health of an agent, and the page on which it is shown with the measures."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from oslo_config import cfg
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily

from compute_agent import monitoring
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import Manager
from compute_agent.monitoring import AgentMetrics, Monitoring
from compute_agent.virt.driver import Driver, DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.messaging.broker_check import BrokerCheck
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.status_page import StatusPage
from tests.status_tables import documented, served


@pytest.fixture
def measures() -> AgentMetrics:
    return AgentMetrics(CollectorRegistry())


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes whatever it is sent."""
    monkeypatch.setattr(BrokerCheck, "probe", lambda _: None)


@pytest.fixture
def page(conf: cfg.ConfigOpts) -> StatusPage:
    found = StatusPage(free_ports(1)[0])
    conf.set_override("bind", found.options["status"]["bind"], group="status")
    return found


def test_the_hypervisor_is_well_when_an_audit_was(measures: AgentMetrics) -> None:
    assert measures.check_hypervisor(60) == "no audit has ended yet"
    measures.audited(0.1, None)
    assert not measures.check_hypervisor(60)
    measures.audited(0.1, DriverUnavailable("libvirt is gone"))
    assert measures.check_hypervisor(60) == "libvirt is gone"
    measures.audited(0.1, None)
    measures.audited(0.1, DatabaseUnavailable("gone"))
    assert not measures.check_hypervisor(60)


def test_whoever_stands_by_makes_no_audits_and_is_well(measures: AgentMetrics) -> None:
    measures.stood_by(DriverUnavailable("Nova's database API cannot be read: denied"))
    assert measures.check_hypervisor(60) == "Nova's database API cannot be read: denied"
    measures.stood_by(None)
    assert not measures.check_hypervisor(60)
    measures.audited(0.1, DriverUnavailable("gone"))
    assert measures.check_hypervisor(60) == "gone"
    # An audit of long ago, when the work was its own, is no sign of illness.
    measures.audited(0.1, None)
    measures.audited_at = time.monotonic() - 10_000
    measures.stood_by(None)
    assert not measures.check_hypervisor(60)


def test_audits_that_stop_are_noticed(measures: AgentMetrics) -> None:
    longest = monitoring.MAX_MISSED * 60 + monitoring.AUDIT_TIMEOUT
    measures.audited(0.1, None)
    measures.audited_at = time.monotonic() - longest + 5
    assert not measures.check_hypervisor(60)
    measures.audited_at = time.monotonic() - longest - 1
    problem = "the last audit ended 241 s ago, an audit is due every 60 s"
    assert measures.check_hypervisor(60) == problem
    measures.audited(0.1, DatabaseUnavailable("gone"))
    # That is no fault of the hypervisor's.
    assert not measures.check_hypervisor(60)
    measures.audited(0.1, None)
    measures.audited_at = time.monotonic() - longest - 1
    # Audits are made on events only.
    assert not measures.check_hypervisor(None)


@contextmanager
def watched(
    conf: cfg.ConfigOpts, database: Database, driver: Driver, listening: bool = True
) -> Iterator[Manager]:
    """The status server of an agent whose audits are not started yet, inside the block."""
    watching = Monitoring(conf, driver)
    tracker = ResourceTracker(conf, database, driver, publish=watching.stored)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    watching.start(database, manager, lambda: listening)
    try:
        yield manager
    finally:
        watching.stop()


def test_whoever_hears_nothing_is_not_well(
    conf: cfg.ConfigOpts, database: Database, page: StatusPage, reachable: None
) -> None:
    with watched(conf, database, FakeDriver(conf), listening=False):
        _, report = page.health()
        assert report["broker"]["problem"] == "operations are not received: not subscribed yet"
        assert report["database"]["healthy"]


def test_a_page_shows_health_and_all_measures_that_are_documented(
    conf: cfg.ConfigOpts, database: Database, page: StatusPage, reachable: None
) -> None:
    with watched(conf, database, FakeDriver(conf)) as manager:
        code, report = page.health()
        assert (code, report["hypervisor"]["problem"]) == (503, "no audit has ended yet")
        manager.start()
        try:
            assert wait_until(page.is_healthy)
            measured = page.measures()
            assert measured("nodes") == measured("hypervisor_connected") == 1
            assert measured("healthy", part="hypervisor") == 1
            assert served(measured.families) == documented("agent")
        finally:
            manager.stop()
    assert page.health() == (0, {})


class MeasuringDriver(FakeDriver):
    """One with a metric of its own."""

    def metrics(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("berthmaster_own", "Of the driver.", 3)


def test_the_page_shows_the_metrics_of_the_driver(
    conf: cfg.ConfigOpts, database: Database, page: StatusPage, reachable: None
) -> None:
    with watched(conf, database, MeasuringDriver(conf)):
        assert page.measures()("own") == 3


def test_without_an_address_nothing_is_watched(conf: cfg.ConfigOpts, database: Database) -> None:
    driver = FakeDriver(conf)
    watching = Monitoring(conf, driver)
    tracker = ResourceTracker(conf, database, driver, publish=watching.stored)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    before = manager.observer
    watching.start(database, manager, lambda: True)
    assert manager.observer is before
    watching.stop()
