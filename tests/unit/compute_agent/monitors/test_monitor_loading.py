# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Monitors are found by name, of each kind one, and none of them fails an audit."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compute_agent.monitors import Metric, Monitor, monitor_loading
from compute_agent.monitors.monitor_loading import Monitors, load
from compute_agent.virt.driver import CpuCounters, Driver, DriverUnavailable, NodeName
from conf.loading import ConfigError
from tests.fixtures import agent
from tests.unit.compute_agent.monitors.drivers import NODE, CountingDriver, counted

OTHER = NodeName("alpha", "other")
NOON = datetime(2026, 8, 1, 12, 0, 0)
HERE = "tests.unit.compute_agent.monitors.test_monitor_loading"


class Says(Monitor):
    """A third party's monitor that says what it is told to, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answer: Any = answers

    def metrics(self, node: NodeName) -> Iterable[Metric]:
        if isinstance(self.answer, dict):
            return self.answer[node]
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Power(Monitor):
    """A third party's monitor."""

    def metrics(self, node: NodeName) -> Iterable[Metric]:
        return [a_metric("power.watts", 250)]


class Broken(Power):
    """A monitor that cannot be made."""

    def __init__(self, conf: Any, driver: Driver) -> None:
        raise KeyError("defect")


def a_metric(name: str = "power.watts", value: Any = 1, moment: datetime = NOON) -> Metric:
    return Metric(name, value, moment, "test")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what installs further monitors: as names and attributes of a module."""

    def install(**places: str) -> None:
        entries = (f"{name.replace('_', '.')} = {place}" for name, place in places.items())
        package = tmp_path / "third_party-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Name: third-party\nVersion: 1.0\n")
        lines = [f"[{monitor_loading.NAMESPACE}]", *entries]
        (package / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., Monitors]:
    """Return what loads the monitors that an option names, for counters of one node."""

    def load_them(names: str, counters: CpuCounters | None = None) -> Monitors:
        default = {"compute_driver": "fake", "compute_monitors": names}
        conf = agent.options(tmp_path, DEFAULT=default)
        driver = CountingDriver(conf)
        driver.counters = {NODE: counters or counted(user=1, idle=1)}
        return load(conf, driver)

    return load_them


def names(monitors: Monitors) -> list[str]:
    return [each["name"] for each in monitors.read(NODE)]


def test_nothing_is_measured_unless_it_is_asked_for(loaded: Callable[..., Monitors]) -> None:
    assert names(loaded("")) == []


@pytest.mark.parametrize("given", ["cpu.virt_driver", "virt_driver", " virt_driver ,, "])
def test_names_of_the_monitor_of_cpus(loaded: Callable[..., Monitors], given: str) -> None:
    found = names(loaded(given))
    assert len(found) == 10
    assert found == sorted(found)


def test_a_monitor_of_nova_that_is_not_here_is_left_out(
    loaded: Callable[..., Monitors], caplog: pytest.LogCaptureFixture
) -> None:
    theirs = "nova.compute.monitors.membw.virt_driver"
    found = names(loaded(f"{theirs}, nova.compute.monitors.cpu.virt_driver"))
    assert found == names(loaded("cpu.virt_driver"))
    assert f"Monitor {theirs} of [DEFAULT] compute_monitors is a monitor of Nova" in caplog.text


def test_a_row_is_what_nova_would_have_written(loaded: Callable[..., Monitors]) -> None:
    frequency, *_ = loaded("cpu.virt_driver").read(NODE)
    moment = frequency.pop("timestamp")
    assert frequency == {"name": "cpu.frequency", "source": "fake", "value": 2596}
    # As 2026-11-21T03:34:35.353075: in UTC, without a zone.
    assert len(moment) == 26
    read = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    assert timedelta() <= datetime.now(UTC) - read < timedelta(minutes=1)


@pytest.mark.parametrize("given", ["cpu.virt_drive", "virt", "power.meter", "cpu.virt_driver,x"])
def test_an_unknown_name_is_refused_with_the_choices(
    loaded: Callable[..., Monitors], tmp_path: Path, given: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        loaded(given)
    name = given.rpartition(",")[2]
    assert str(refusal.value) == (
        f"option [DEFAULT] compute_monitors = '{name}' in {tmp_path}/agent.conf:"
        " there is no such monitor (installed: cpu.virt_driver)"
    )


def test_monitors_of_other_kinds_come_along(
    loaded: Callable[..., Monitors], installed: Callable[..., None]
) -> None:
    installed(power_meter=f"{HERE}:Power")
    found = names(loaded("power.meter,cpu.virt_driver"))
    assert (len(found), found[0], found[-1]) == (11, "cpu.frequency", "power.watts")


def test_of_one_kind_only_the_first_measures(
    loaded: Callable[..., Monitors],
    installed: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    installed(cpu_mine=f"{HERE}:Power")
    assert names(loaded("cpu.mine,virt_driver")) == ["power.watts"]
    (warning,) = caplog.messages
    assert warning.startswith("Monitor cpu.virt_driver is not used: [DEFAULT] compute_monitors")
    assert "names cpu.mine first" in warning


def test_a_name_may_be_there_twice(
    loaded: Callable[..., Monitors], caplog: pytest.LogCaptureFixture
) -> None:
    assert len(names(loaded("virt_driver,cpu.virt_driver"))) == 10
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no.such.module:Power", "it cannot be loaded: ModuleNotFoundError"),
        (f"{HERE}:Broken", r"it cannot be made: KeyError\('defect'\)"),
        (f"{HERE}:a_metric", r"it is no subclass of compute_agent\.monitors\.Monitor"),
        ("pathlib:Path", "it is no subclass"),
    ],
)
def test_a_monitor_that_is_none_is_refused(
    loaded: Callable[..., Monitors], installed: Callable[..., None], place: str, why: str
) -> None:
    installed(power_meter=place)
    with pytest.raises(ConfigError, match=rf"compute_monitors = 'power\.meter' in .*: {why}"):
        loaded("power.meter")


def test_what_json_cannot_tell_keeps_a_monitor_silent(caplog: pytest.LogCaptureFixture) -> None:
    for value in (float("nan"), float("inf"), "12", None, 10**400):
        answers = [a_metric("power.volts"), a_metric(value=value)]
        assert Monitors({"power.meter": Says(*answers)}).read(NODE) == []
    assert len(caplog.messages) == 5
    assert "metric power.watts is nan" in caplog.messages[0]


def test_numbers_of_numpy_and_times_of_other_zones_are_converted() -> None:
    summer = timezone(timedelta(hours=2))
    answers = [
        a_metric("a", np.int64(7), NOON.replace(tzinfo=summer)),
        a_metric("b", np.float32(0.5), NOON.replace(tzinfo=UTC)),
        a_metric("c", 12, NOON),
    ]
    found = Monitors({"power.meter": Says(*answers)}).read(NODE)
    assert json.loads(json.dumps(found)) == [
        {"name": "a", "value": 7, "timestamp": "2026-08-01T10:00:00.000000", "source": "test"},
        {"name": "b", "value": 0.5, "timestamp": "2026-08-01T12:00:00.000000", "source": "test"},
        {"name": "c", "value": 12, "timestamp": "2026-08-01T12:00:00.000000", "source": "test"},
    ]


def test_a_monitor_that_fails_leaves_the_others_alone() -> None:
    failing = Says()
    failing.answer = RuntimeError("no sensor")
    assert names(Monitors({"a.b": failing, "power.meter": Says(a_metric())})) == ["power.watts"]


def test_a_failure_is_said_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    monitor = Says()
    monitors = Monitors({"power.meter": monitor})
    for answer in (
        DriverUnavailable("down"),
        DriverUnavailable("down"),
        RuntimeError("no sensor"),
        RuntimeError(),
        [],
        RuntimeError("no sensor"),
    ):
        monitor.answer = answer
        monitors.read(NODE)
    assert caplog.messages == [
        "Monitor power.meter has no metrics of node alpha: down",
        "Monitor power.meter has no metrics of node alpha: no sensor",
        "Monitor power.meter has no metrics of node alpha: RuntimeError()",
        "Monitor power.meter has no metrics of node alpha: no sensor",
    ]
    # What is no failure that we know comes with its traceback.
    assert [bool(each.exc_info) for each in caplog.records] == [False, True, True, True]


def test_a_reason_that_nodes_share_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    monitor = Says()
    monitors = Monitors({"power.meter": monitor})
    monitor.answer = DriverUnavailable("down")
    for node in (NODE, OTHER, NODE, OTHER):
        monitors.read(node)
    monitor.answer = {NODE: []}
    monitors.read(NODE)
    monitor.answer = DriverUnavailable("down")
    monitors.read(NODE)
    assert len(caplog.messages) == 1
