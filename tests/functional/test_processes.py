# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The programs as an operator meets them: signals, systemd, bad options, reports."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import each_backend
from tests.builders import a_request
from tests.fixtures.daemons.process import PATIENCE, Process, ProcessError
from tests.fixtures.deployment import Deployment, Options, a_fleet, wait_for_log

SLOW = {"filter_scheduler": {"enabled_filters": "slow_filter.SlowFilter"}}
SLOW_FILTER = """
import pathlib
import time

from scheduler.filters import BaseHostFilter


class SlowFilter(BaseHostFilter):
    def __init__(self):
        print("a slow filter is made", flush=True)
        while not pathlib.Path({file!r}).exists():
            time.sleep(0.01)
"""

LOGGING = """
[loggers]
keys = root
[handlers]
keys = output
[formatters]
keys =
[logger_root]
level = INFO
handlers = output
[handler_output]
class = StreamHandler
args = ()
"""


# The daemons share what answers both.
@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("berthmaster", "--help"),
        ("berthmaster", "--version"),
        ("berthmaster-agent", "--help"),
        ("berthmaster-scheduler", "--version"),
    ],
)
def test_every_program_explains_itself(program: str, flag: str) -> None:
    path = Path(sys.executable).parent / program
    done = subprocess.run(
        [path, flag], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert done.stdout.strip()
    assert "Warning" not in done.stderr


@each_backend
def test_sighup_takes_over_changed_filters_without_a_restart(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    a_fleet(database, ["compute1"], vcpus=1)
    spec = a_request(vcpus=2)
    scheduler = deployment.scheduler(backend, name="tuned")
    with pytest.raises(NoValidHost):
        client.select_destinations(RequestContext(), spec, ["a"])
    changed = {"enabled_filters": "ComputeFilter"}
    unbounded = {"bounded_resources": ""}
    deployment.write_config("tuned", {"filter_scheduler": changed, "claims": unbounded})
    scheduler.send(signal.SIGHUP)
    wait_for_log(scheduler, "Configuration read again")
    assert client.select_destinations(RequestContext(), spec, ["b"])


@each_backend
def test_sighup_with_a_mistake_keeps_the_old_configuration(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend, name="mistaken")
    deployment.write_config("mistaken", {"filter_scheduler": {"enabled_filters": "NoSuchFilter"}})
    scheduler.send(signal.SIGHUP)
    wait_for_log(scheduler, "Reload rejected, keeping the current configuration")
    assert client.select_destinations(RequestContext(), a_request(vcpus=1), ["a"])


@each_backend
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            {"filter_scheduler": {"enabled_filters": "NoSuchFilter"}}, marks=pytest.mark.matrix
        ),
        {"scheduler": {"max_requests_in_flight": "many"}},
    ],
    ids=["of the scheduler", "of a value"],
)
def test_a_reload_that_is_rejected_is_not_said_to_be_made(
    deployment: Deployment, backend: str, mistake: Options
) -> None:
    scheduler = deployment.scheduler(backend, name="mistaken")
    deployment.write_config("mistaken", mistake)
    scheduler.send(signal.SIGHUP)
    wait_for_log(scheduler, "Reload rejected, keeping the current configuration")
    deployment.write_config("mistaken", {})
    scheduler.send(signal.SIGHUP)
    wait_for_log(scheduler, "Configuration read again")
    reloads = ("Reload rejected", "Configuration read again")
    assert [scheduler.log.read_text().count(each) for each in reloads] == [1, 1]


def reloading(deployment: Deployment, backend: str) -> tuple[Process, Path]:
    """Return a scheduler in a reload, and a file: the reload does not end until it is there."""
    made = deployment.directory / "made"
    (deployment.directory / "slow_filter.py").write_text(SLOW_FILTER.format(file=str(made)))
    environment = {"PYTHONPATH": str(deployment.directory)}
    scheduler = deployment.scheduler(backend, environment=environment, name="slow")
    deployment.write_config("slow", SLOW)
    scheduler.send(signal.SIGHUP)
    wait_for_log(scheduler, "a slow filter is made")
    return scheduler, made


@each_backend
def test_a_sighup_during_a_reload_is_followed_by_another_reload(
    deployment: Deployment, backend: str
) -> None:
    scheduler, made = reloading(deployment, backend)
    deployment.write_config("slow", {})
    scheduler.send(signal.SIGHUP)
    made.touch()
    log = scheduler.log
    scheduler.wait_ready(lambda: log.read_text().count("Configuration read again") == 2)
    assert scheduler.stop() == 0


@each_backend
def test_a_sigterm_during_a_reload_stops_as_at_any_time(
    deployment: Deployment, backend: str
) -> None:
    scheduler, made = reloading(deployment, backend)
    scheduler.send(signal.SIGTERM)
    made.touch()
    assert scheduler.wait() == 0
    assert scheduler.has_logged("scheduler.service [-] Stopped")


@each_backend
def test_a_sighup_before_the_start_reloads_after_it(deployment: Deployment, backend: str) -> None:
    fake = {"compute_driver": "fake"}
    agent = deployment.agent(backend, {"DEFAULT": fake}, name="early")
    wait_for_log(agent, "Starting as host early")
    deployment.write_config("early", {"DEFAULT": {**fake, "reserved_host_cpus": 1}})
    agent.send(signal.SIGHUP)
    agent.wait_ready(lambda: agent.has_logged("Option DEFAULT.reserved_host_cpus changed"))
    wait_for_log(agent, "Listening as")
    assert agent.stop() == 0


@each_backend
def test_a_log_file_that_cannot_be_used_at_a_reload_ends_nothing(
    deployment: Deployment, tmp_path: Path, backend: str
) -> None:
    logging = tmp_path / "logging.conf"
    logging.write_text(LOGGING)
    options = {"DEFAULT": {"log_config_append": logging}}
    scheduler = deployment.scheduler(backend, options)
    pids = scheduler.workers()
    logging.write_text(LOGGING.replace("StreamHandler", "fluent.handler.FluentHandler"))
    scheduler.send(signal.SIGHUP)
    scheduler.wait_ready(lambda: scheduler.has_logged("Configuration read again"))
    assert scheduler.has_logged("Logging goes on as before: option [DEFAULT] log_config_append")
    assert scheduler.workers() == pids
    assert "Traceback" not in scheduler.log.read_text()


@each_backend
def test_systemd_is_notified_when_the_service_is_ready_alive_and_stopping(
    deployment: Deployment, tmp_path: Path, backend: str
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        scheduler = deployment.scheduler(backend, environment=environment)
        states = [manager.recv(4096).decode() for _ in range(2)]
        assert states[0].startswith("READY=1")
        assert states[1] == "WATCHDOG=1"
        assert scheduler.stop() == 0
        while "STOPPING=1" not in states:
            states.append(manager.recv(4096).decode())


@each_backend
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.matrix)])
def test_sigint_stops_a_scheduler_as_sigterm_does(
    deployment: Deployment, backend: str, workers: int
) -> None:
    scheduler = deployment.scheduler(backend, {"scheduler": {"workers": workers}})
    # Ctrl-C is for all processes of a terminal.
    for pid in scheduler.workers():
        os.kill(pid, signal.SIGINT)
    scheduler.send(signal.SIGINT)
    assert scheduler.wait() == 0
    assert "Traceback" not in scheduler.log.read_text()


@each_backend
def test_sigint_stops_an_agent_as_sigterm_does(deployment: Deployment, backend: str) -> None:
    agent = deployment.agent(backend, {"DEFAULT": {"compute_driver": "fake"}})
    wait_for_log(agent, "Listening as compute")
    agent.send(signal.SIGINT)
    assert agent.wait() == 0


@each_backend
def test_sigusr2_prints_a_report_without_secrets(deployment: Deployment, backend: str) -> None:
    scheduler = deployment.scheduler(backend)
    scheduler.send(signal.SIGUSR2)
    wait_for_log(scheduler, "view_max_age")
    wait_for_log(scheduler, "Threads")
    assert "guest:guest" not in scheduler.log.read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"filter_scheduler": {"host_subset_size": "many"}},
            r"option \[filter_scheduler\] host_subset_size = 'many' in \S+bad.conf: ",
        ),
        (
            {"filter_scheduler": {"enabled_filters": "RamFilter,NoSuchFilter"}},
            r"option \[filter_scheduler\] enabled_filters = 'NoSuchFilter' in \S+bad.conf: unknown",
        ),
        pytest.param(
            {"scheduler": {"driver": "no.such.Driver"}},
            r"option \[scheduler\] driver = 'no.such.Driver' in \S+bad.conf: cannot be imported",
            marks=pytest.mark.matrix,
        ),
        (
            {"DEFAULT": {"concurrency_backend": "gevent"}},
            r"option \[DEFAULT\] concurrency_backend = 'gevent' in \S+bad.conf: must be one of",
        ),
    ],
)
def test_a_bad_option_stops_the_start_with_one_line(
    deployment: Deployment, options: dict[str, dict[str, str]], expected: str
) -> None:
    backend = "" if "DEFAULT" in options else "eventlet"
    with pytest.raises(ProcessError, match=expected) as refused:
        deployment.scheduler(backend, options, name="bad")
    log = refused.value.log.read_text()
    assert "Traceback" not in log
    assert sum(line.startswith("berthmaster-scheduler: ") for line in log.splitlines()) == 1
