# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the counters of CPUs say, with the figures of the agent's reference 2.11."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from compute_agent.monitors.cpu import SHORTEST, CpuMonitor, shares
from compute_agent.virt.driver import CpuCounters, DriverAnswerUnusable, NodeName
from tests.unit.compute_agent.monitors.drivers import NODE, CountingDriver, counted

MINUTE = timedelta(minutes=1)
# Counters of the captured host and what its second sample added in the worked example.
BOOTED = counted(1304310000000, 225500000000, 3916350000000, 9060000000)
LATER = counted(1304320000000, 225520000000, 3918320000000, 9060000000)
COUNTERS = st.builds(counted, *(st.integers(0, 2**63) for _ in range(4)))


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 3, 34, 35, 353075, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> CountingDriver:
    return CountingDriver(conf)


@pytest.fixture
def monitor(conf: cfg.ConfigOpts, driver: CountingDriver, clock: Clock) -> CpuMonitor:
    return CpuMonitor(conf, driver, clock)


def measured(monitor: CpuMonitor, node: NodeName = NODE) -> dict[str, float]:
    return {metric.name: metric.value for metric in monitor.metrics(node)}


def test_the_second_sample_tells_what_was_spent_since_the_first(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    driver.counters[NODE] = BOOTED
    measured(monitor)
    driver.counters[NODE] = LATER
    clock.now += MINUTE
    assert measured(monitor) == {
        "cpu.frequency": 2596,
        "cpu.user.time": 1304320000000,
        "cpu.kernel.time": 225520000000,
        "cpu.idle.time": 3918320000000,
        "cpu.iowait.time": 9060000000,
        "cpu.user.percent": 0.0,
        "cpu.kernel.percent": 0.01,
        "cpu.idle.percent": 0.98,
        "cpu.iowait.percent": 0.0,
        "cpu.percent": 0.01,
    }


def test_the_first_sample_tells_the_average_since_boot(
    monitor: CpuMonitor, driver: CountingDriver
) -> None:
    driver.counters[NODE] = LATER
    found = measured(monitor)
    # 1304.32, 225.52, 3918.32 and 9.06 of 5457.22 s.
    assert found["cpu.user.percent"] == 0.23
    assert found["cpu.kernel.percent"] == 0.04
    assert found["cpu.idle.percent"] == 0.71
    assert found["cpu.iowait.percent"] == 0.0
    assert found["cpu.percent"] == 0.28


def test_metrics_say_who_measured_and_when(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    driver.counters[NODE] = LATER
    found = list(monitor.metrics(NODE))
    assert {(metric.source, metric.timestamp) for metric in found} == {("fake", clock.now)}


def test_counters_that_stand_still_say_nothing(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    driver.counters[NODE] = BOOTED
    measured(monitor)
    clock.now += MINUTE
    with pytest.raises(DriverAnswerUnusable, match=r"how busy the CPUs are .* stand still"):
        monitor.metrics(NODE)
    driver.counters[NODE] = LATER
    clock.now += MINUTE
    assert measured(monitor)["cpu.idle.percent"] == 0.98


def test_a_machine_that_has_not_counted_yet_says_nothing(
    monitor: CpuMonitor, driver: CountingDriver
) -> None:
    driver.counters[NODE] = counted()
    with pytest.raises(DriverAnswerUnusable):
        monitor.metrics(NODE)


def test_each_node_is_compared_with_itself(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    other = NodeName("alpha", "other")
    driver.counters = {NODE: counted(user=100), other: counted(idle=100)}
    assert measured(monitor)["cpu.percent"] == 1.0
    assert measured(monitor, other)["cpu.percent"] == 0.0
    driver.counters = {NODE: counted(user=100, idle=50), other: counted(idle=100, iowait=50)}
    clock.now += MINUTE
    assert measured(monitor)["cpu.percent"] == 0.0
    assert measured(monitor, other)["cpu.percent"] == 1.0


def test_what_was_just_measured_holds_for_a_while(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    driver.counters[NODE] = BOOTED
    first = monitor.metrics(NODE)
    driver.counters[NODE] = LATER
    clock.now += SHORTEST - timedelta(milliseconds=1)
    assert monitor.metrics(NODE) == first
    assert driver.questions == 1
    clock.now += timedelta(milliseconds=1)
    assert measured(monitor)["cpu.idle.percent"] == 0.98


def test_a_clock_that_is_set_back_does_not_stop_the_measuring(
    monitor: CpuMonitor, driver: CountingDriver, clock: Clock
) -> None:
    driver.counters[NODE] = BOOTED
    measured(monitor)
    driver.counters[NODE] = LATER
    clock.now -= MINUTE
    assert measured(monitor)["cpu.idle.percent"] == 0.98


def test_it_needs_no_clock_of_ours(conf: cfg.ConfigOpts, driver: CountingDriver) -> None:
    driver.counters[NODE] = LATER
    before = datetime.now(UTC)
    moments = {metric.timestamp for metric in CpuMonitor(conf, driver).metrics(NODE)}
    assert before <= min(moments) == max(moments) <= datetime.now(UTC)


def test_after_a_reboot_the_time_since_then_counts() -> None:
    found = shares(BOOTED, counted(user=30, kernel=10, idle=50, iowait=10))
    assert (found["user.percent"], found["percent"]) == (0.3, 0.5)


def test_the_kernel_may_take_back_some_iowait() -> None:
    found = shares(counted(idle=1000, iowait=50), counted(user=50, idle=1050, iowait=40))
    assert (found["user.percent"], found["iowait.percent"], found["percent"]) == (0.5, 0.0, 0.5)


def test_hundredths_are_not_lost_to_rounding() -> None:
    # 0.29 * 100 is 28.999999999999996.
    assert shares(counted(), counted(user=29, idle=71))["user.percent"] == 0.29


@given(COUNTERS, COUNTERS)
def test_shares_are_shares(before: CpuCounters, now: CpuCounters) -> None:
    found = shares(before, now)
    assert len(found) == 5 or (not found and (before == now or now == counted()))
    assert all(0 <= share <= 1 for share in found.values())
    if found:
        whole = found["percent"] + found["idle.percent"]
        assert 0.99 <= round(whole, 9) <= 1
