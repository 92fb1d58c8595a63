# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A conductor in Python while schedulers are killed, brokers restart and builds fail."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from inventory.engine import Database
from scheduler.client.backoff import RetryPolicy
from scheduler.client.conductor import BuildFailed, Conductor
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.objects.selection import Selection
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import MaxRetriesExceeded, ServiceUnavailable
from tests import guides
from tests.backends import backends_alike, each_backend
from tests.builders import a_request
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet

QUICK = RetryPolicy(attempt_timeout=3.0, deadline=PATIENCE, first_pause=0.1, longest_pause=1.0)
HOSTS = ["compute1", "compute2", "compute3"]
GUIDES = Path(__file__).parents[2] / "doc" / "source" / "user"
# A filter that says when it is asked and never answers.
STUCK = """
from pathlib import Path
from threading import Event
from scheduler.filters import BaseHostFilter
class StuckFilter(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        Path(__file__).with_name("asked").touch()
        Event().wait()
"""
# A caller on the backend that it is told; each of its threads sees one build fail.
CALLERS = """
import sys
from conf.daemon import process
from scheduler import cmd
process.begin("callers", cmd._patch)
from threading import Thread
from uuid import uuid4
from scheduler.client import BuildFailed, Conductor, Flavor, RequestContext, RequestSpec, connect
spec = RequestSpec(Flavor(vcpus=1, memory_mb=64, root_gb=1))
built = []
def run():
    tried = []
    def build(chosen):
        tried.append(chosen.service_host)
        if len(tried) == 1:
            raise BuildFailed("first")
    conductor.build(RequestContext(), spec, str(uuid4()), build)
    built.append(len(set(tried)))
threads = [Thread(target=run) for _ in range(8)]
with connect(*sys.argv[1:]) as client:
    conductor = Conductor(client)
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print(built)
"""


class Builds:
    """What is called to build: it fails on some hosts."""

    def __init__(self, *broken: str) -> None:
        self._broken = broken
        self.tried: list[str] = []

    def __call__(self, chosen: Selection) -> None:
        self.tried.append(chosen.service_host)
        if chosen.service_host in self._broken:
            raise BuildFailed(f"{chosen.service_host} has no more loop devices")


@backends_alike
def test_a_scheduler_killed_before_its_answer_costs_a_repeat(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    a_fleet(database, HOSTS)
    (deployment.directory / "stuck.py").write_text(STUCK)
    killed = deployment.scheduler(
        backend,
        {"filter_scheduler": {"enabled_filters": "stuck.StuckFilter"}},
        {"PYTHONPATH": str(deployment.directory)},
    )
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    conductor = Conductor(client, QUICK, sleep=pause)
    uuids = [str(uuid4()) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        placing = pool.submit(conductor.place, RequestContext(), a_request(vcpus=1), uuids)
        assert wait_until((deployment.directory / "asked").exists)
        killed.kill()
        deployment.scheduler(backend)
        answer = placing.result(PATIENCE)
    assert {chosen.service_host for (chosen,) in answer} <= {*HOSTS}
    assert len(answer) == 2
    assert pauses


def test_the_third_host_is_found_when_builds_fail_on_two(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler()
    builds = Builds("compute1", "compute3")
    conductor = Conductor(client, QUICK)
    for _ in range(3):
        builds.tried.clear()
        chosen = conductor.build(RequestContext(), a_request(vcpus=1), str(uuid4()), builds)
        assert chosen.service_host == builds.tried[-1] == "compute2"
        assert len(builds.tried) == len({*builds.tried})


def test_when_all_builds_fail_that_is_the_end(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, [*HOSTS, "compute4"])
    deployment.scheduler()
    builds = Builds(*HOSTS, "compute4")
    uuid = str(uuid4())
    with pytest.raises(MaxRetriesExceeded) as caught:
        Conductor(client, QUICK).build(RequestContext(), a_request(vcpus=1), uuid, builds)
    assert len({*builds.tried}) == len(builds.tried) == 3
    assert caught.value.reason == (
        f"Exceeded max scheduling attempts 3 for instance {uuid}."
        f" Last exception: {builds.tried[-1]} has no more loop devices"
    )


def test_alternates_save_the_scheduler_the_next_question(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler()
    builds = Builds("compute1", "compute2")
    conductor = Conductor(client, RetryPolicy(use_alternates=True))
    uuid = str(uuid4())
    chosen = conductor.build(RequestContext(), a_request(vcpus=1), uuid, builds)
    assert chosen.service_host == "compute3"
    assert scheduler.log.read_text().count(f"for instance {uuid}") == 1


@pytest.mark.matrix
@backends_alike
def test_a_broker_restarted_between_two_attempts_is_found_again(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    rabbitmq: RabbitMQ,
    backend: str,
) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler(backend)
    tried: list[str] = []

    def build(chosen: Selection) -> None:
        tried.append(chosen.service_host)
        if len(tried) == 1:
            rabbitmq.restart()
            raise BuildFailed("the broker went down with it")

    chosen = Conductor(client, QUICK).build(
        RequestContext(), a_request(vcpus=1), str(uuid4()), build
    )
    assert len(tried) == 2
    assert chosen.service_host == tried[1] != tried[0]


@pytest.mark.matrix
@pytest.mark.parametrize("connected", [True, False])
def test_a_broker_that_stays_away_is_an_error_at_the_deadline(
    client: SchedulerClient, rabbitmq: RabbitMQ, connected: bool
) -> None:
    if connected:
        with pytest.raises(ServiceUnavailable, match="check that berthmaster-scheduler runs"):
            client.select_destinations(RequestContext(), a_request(), [str(uuid4())], timeout=0.1)
    conductor = Conductor(
        client, RetryPolicy(attempt_timeout=PATIENCE, deadline=2.0, first_pause=0.1)
    )
    rabbitmq.kill()
    try:
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match=r"may be repeated .* transport_url cannot be"):
            conductor.place(RequestContext(), a_request(), [str(uuid4())])
        assert time.monotonic() - began < PATIENCE / 2
    finally:
        rabbitmq.start()


@each_backend
def test_the_threads_of_a_caller_share_one_under_each_backend(
    deployment: Deployment, database: Database, backend: str
) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler()
    done = _python(deployment, "-c", CALLERS, BERTHMASTER_CONCURRENCY_BACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[2] * 8}\n"


def test_the_program_of_the_guide(deployment: Deployment, database: Database) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler()
    command = deployment.directory / "bin" / "start-guest"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\ncase "$1" in compute[12]) exit 3;; esac\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    done = _python(deployment, str(GUIDES / "build.py"), PATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["compute3", "compute3"]
    command.write_text("#!/bin/sh\nexit 3\n")
    done = _python(deployment, str(GUIDES / "build.py"), PATH=path)
    assert done.returncode == 1
    assert "Exceeded max scheduling attempts 3 for instance" in done.stderr
    assert "returned non-zero exit status 3" in done.stderr


def test_the_three_lines_of_the_guide(deployment: Deployment, database: Database) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler()
    _, block = guides.page("user/python-client").split(".. code-block:: python")[:2]
    lines = textwrap.dedent(block.partition("\n\n``")[0])
    # Where a command looks for its configuration by default.
    home = deployment.directory / ".berthmaster"
    home.mkdir()
    (home / "berthmaster.conf").write_text(deployment.config.read_text())
    program = f"uuid = {str(uuid4())!r}\n{lines}\nprint(answer[0][0].service_host)"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport eventlet"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "HOME": str(deployment.directory)},
    )
    assert done.stdout.strip() in HOSTS, done.stderr
    assert "eventlet is not used in this process" in done.stderr


def test_the_program_that_asks_once(deployment: Deployment, database: Database) -> None:
    a_fleet(database, HOSTS)
    deployment.scheduler()
    done = _python(deployment, str(GUIDES / "ask.py"))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 2
    assert {host for _, host, _ in lines} <= {*HOSTS}


def _python(
    deployment: Deployment, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of a caller with the configuration of the deployment."""
    return subprocess.run(
        [sys.executable, *arguments, str(deployment.config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environment},
    )
