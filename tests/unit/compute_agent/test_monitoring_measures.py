# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted of audits and of the rows that they write."""

from collections.abc import Callable

import pytest
from oslo_config import cfg
from prometheus_client import CollectorRegistry

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.audit.transaction import AuditResult
from compute_agent.manager import Manager
from compute_agent.monitoring import GIB, MIB, AgentMetrics
from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from tests.fixtures.agent import a_guest
from tests.fixtures.daemons.process import wait_until

Value = Callable[..., float | None]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def measures(registry: CollectorRegistry) -> AgentMetrics:
    return AgentMetrics(registry)


@pytest.fixture
def value(registry: CollectorRegistry) -> Value:
    """What reads a sample."""
    return lambda name, **labels: registry.get_sample_value(f"berthmaster_{name}", labels)


def test_an_agent_that_has_not_looked_has_no_age(measures: AgentMetrics, value: Value) -> None:
    assert value("audits_total") == value("nodes") == value("hypervisor_connected") == 0
    assert value("audit_age_seconds") is None
    assert [
        value("audit_failures_total", cause=cause) for cause in ("hypervisor", "database", "other")
    ] == [0, 0, 0]


def test_audits_count_with_what_ended_them(measures: AgentMetrics, value: Value) -> None:
    measures.audited(0.03, None)
    assert value("hypervisor_connected") == 1
    assert 0 <= (value("audit_age_seconds") or 0) < 60
    measures.audited(0.03, DatabaseUnavailable("gone"))
    # Nobody asked the hypervisor, or it has answered.
    assert (value("hypervisor_connected"), measures.failure) == (1, "")
    assert measures.lacks_database
    measures.audited(5.0, DriverUnavailable("libvirt has\nnot answered"))
    assert (value("hypervisor_connected"), measures.failure) == (0, "libvirt has not answered")
    assert not measures.lacks_database
    measures.audited(0.03, ValueError())
    assert measures.failure == "ValueError()"
    causes = ("hypervisor", "database", "other")
    assert [value("audit_failures_total", cause=cause) for cause in causes] == [1, 1, 1]
    assert value("audits_total") == value("audit_seconds_count") == 4
    assert value("audit_seconds_bucket", le="0.05") == 3
    measures.audited(0.03, None)
    assert (value("hypervisor_connected"), measures.failure) == (1, "")


def test_nodes_are_as_their_rows_say(
    measures: AgentMetrics,
    value: Value,
    conf: cfg.ConfigOpts,
    database: Database,
    driver: FakeDriver,
) -> None:
    results: list[AuditResult] = []

    def publish(result: AuditResult) -> None:
        measures.stored(result)
        results.append(result)

    tracker = ResourceTracker(conf, database, driver, publish=publish)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    manager.observer = measures.audited
    manager.start()
    assert wait_until(lambda: value("audits_total") == 1)
    (name,) = driver.nodes()
    assert (value("nodes"), value("guests"), value("rows_written_total")) == (1, 0, 1)
    driver.add_guest(name.node, a_guest())
    manager.audit_now()
    assert wait_until(lambda: value("guests") == 1)
    manager.stop()
    assert value("rows_written_total") == 3
    (row,) = results[-1].nodes
    assert value("node_vcpus", kind="total") == row.vcpus
    assert value("node_vcpus", kind="used") == 1
    assert value("node_vcpus", kind="limit") == row.vcpus * 4.0
    assert value("node_memory_bytes", kind="used") == (512 + 1024) * MIB
    assert value("node_disk_bytes", kind="total") == row.local_gb * GIB


def test_a_node_that_is_gone_counts_no_more(
    measures: AgentMetrics, value: Value, conf: cfg.ConfigOpts, database: Database
) -> None:
    conf.set_override("nodes", 3, group="fake")
    driver = FakeDriver(conf)
    tracker = ResourceTracker(conf, database, driver, publish=measures.stored)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    manager.observer = measures.audited
    manager.start()
    assert wait_until(lambda: value("nodes") == 3)
    conf.set_override("nodes", 2, group="fake")
    manager.audit_now()
    assert wait_until(lambda: value("nodes") == 2)
    manager.stop()
