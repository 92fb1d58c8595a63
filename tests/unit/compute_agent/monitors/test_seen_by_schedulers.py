# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From the counters of CPUs to what a scheduler weighs, through the database."""

from pathlib import Path

import pytest

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.monitors.monitor_loading import load
from compute_agent.virt.driver import DriverUnavailable, NodeName
from inventory import compute_nodes
from scheduler.host_cache.node_rows import write_nodes
from scheduler.hosts.table import HostTable
from scheduler.weighers.metrics import MetricsWeigher
from tests.builders import a_request
from tests.fixtures import agent
from tests.unit.compute_agent.monitors.drivers import CountingDriver, counted

BUSY, IDLE, SILENT = (NodeName(f"alpha-000{number}", f"alpha-000{number}") for number in (1, 2, 3))


@pytest.fixture
def hosts(tmp_path: Path) -> HostTable:
    """A scheduler's cache of three hosts, after the audit of an agent with the monitor of CPUs."""
    default = {"compute_driver": "fake", "compute_monitors": "cpu.virt_driver"}
    conf = agent.options(tmp_path, DEFAULT=default, fake={"hosts": 3})
    driver = CountingDriver(conf)
    driver.counters = {
        BUSY: counted(user=600, kernel=110, idle=200, iowait=90, frequency_mhz=2000),
        IDLE: counted(user=5, kernel=10, idle=985, frequency_mhz=3000),
        SILENT: DriverUnavailable("down"),
    }
    table = HostTable()
    database = agent.database(conf)
    tracker = ResourceTracker(conf, database, driver, load(conf, driver).read)
    tracker.audit({name.host: number for number, name in enumerate((BUSY, IDLE, SILENT))})
    for node in database.read(compute_nodes.all_live):
        row = table.add(node.host, node.hypervisor_hostname)
        assert write_nodes(table, {row: node}, {}) == [node]
    database.close()
    return table


def row_of(hosts: HostTable, name: NodeName) -> int:
    row = hosts.row_of(name.host, name.node)
    assert row is not None
    return row


def metrics(hosts: HostTable, name: NodeName) -> dict[str, float]:
    return {each["name"]: each["value"] for each in hosts.get(row_of(hosts, name), "metrics")}


def test_shares_are_percentages_and_times_are_times(hosts: HostTable) -> None:
    assert metrics(hosts, IDLE) == pytest.approx(
        {
            "cpu.frequency": 3000,
            "cpu.user.time": 5,
            "cpu.kernel.time": 10,
            "cpu.idle.time": 985,
            "cpu.iowait.time": 0,
            "cpu.user.percent": 0,
            "cpu.kernel.percent": 1,
            "cpu.idle.percent": 98,
            "cpu.iowait.percent": 0,
            "cpu.percent": 1,
        }
    )
    assert metrics(hosts, BUSY)["cpu.percent"] == pytest.approx(80)
    assert metrics(hosts, SILENT) == {}


def test_the_weigher_prefers_the_idle_host(hosts: HostTable) -> None:
    setting = ["cpu.idle.percent=1.0", "cpu.iowait.percent=-2.0", "cpu.frequency=0.01"]
    weigher = MetricsWeigher(weight_setting=setting, required=False)
    weights = weigher.weigh(hosts, a_request())
    found = [weights[row_of(hosts, name)] for name in (BUSY, IDLE, SILENT)]
    assert found == pytest.approx([20 - 18 + 20, 98 + 30, -10000])
