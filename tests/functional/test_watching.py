# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Prometheus and a monitor see of both daemons, on real services that stop and start."""

import os
import re
import signal
import socket
from dataclasses import dataclass
from functools import partial

import pytest

from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import BACKENDS
from tests.builders import INSTANCE, a_request
from tests.fixtures.daemons.daemon import Daemon
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.ports import LOOPBACK, free_ports
from tests.fixtures.daemons.process import PATIENCE, Process, ProcessError, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, wait_for_log
from tests.fixtures.status_page import StatusPage

QUICK = {"compute_driver": "fake", "report_interval": 1, "update_resources_interval": 1}
LISTENING = re.compile(r"Metrics and health at http://127\.0\.0\.1:(\d+)/metrics")
WORKER = re.compile(r"(\d+) INFO conf\.daemon\.status_server ")


@dataclass(frozen=True)
class Watched:
    """Both daemons with their pages."""

    scheduler: StatusPage
    agent: StatusPage
    process: Process

    @property
    def pages(self) -> tuple[StatusPage, StatusPage]:
        return self.scheduler, self.agent

    def become_healthy(self) -> bool:
        return all(wait_until(page.is_healthy) for page in self.pages)

    def miss(self, part: str) -> bool:
        return all(wait_until(partial(page.lacks, part)) for page in self.pages)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def watched(deployment: Deployment, backend: str) -> Watched:
    ours, theirs = map(StatusPage, free_ports(2))
    deployment.agent(backend, {"DEFAULT": QUICK, **theirs.options}, name="compute")
    pages = Watched(ours, theirs, deployment.scheduler(backend, ours.options))
    assert pages.become_healthy()
    return pages


def _ask(client: SchedulerClient, **changes: int) -> None:
    spec = a_request(**changes)
    client.select_destinations(RequestContext(), spec, [INSTANCE], timeout=PATIENCE)


def test_requests_and_audits_are_measured(watched: Watched, client: SchedulerClient) -> None:
    # One that says nothing holds up neither requests nor those who look.
    with socket.create_connection((LOOPBACK, watched.scheduler.port)):
        _ask(client, vcpus=1)
        with pytest.raises(NoValidHost):
            _ask(client, vcpus=10_000)
        seen = watched.scheduler.measures()
    assert seen("decisions_total", outcome="placed") == 1
    assert seen("decisions_total", outcome="refused") == 1
    assert seen("decisions_total", outcome="failed") == 0
    assert seen("requests_without_host_total", filter="CoreFilter") == 1
    assert seen("filter_refusals_total", filter="CoreFilter") == 1
    assert seen("instances_placed_total") == seen("claims_total") == 1
    assert seen("decision_seconds_count", stage="claim") >= 1
    assert seen("decision_seconds_bucket", stage="total", le="60.0") == 2
    assert seen("hosts", zone="nova", state="up") == 1
    assert seen("vcpus", zone="nova", state="up", kind="total") > 0
    assert 0 <= seen("agents_audit_age_seconds", percentile="100") < PATIENCE
    assert seen("view_age_seconds") < PATIENCE
    assert seen("requests_in_flight") == 0
    assert seen("claim_conflicts_total", cause="host") == 0
    assert seen("decisions_dropped_total") == seen("notifications_dropped_total") == 0
    # Read before the request, or after it.
    assert seen("pending_claims") in (0, 1)
    assert seen("pending_claims_overdue") == 0
    assert seen("healthy", part="view") == 1
    seen = watched.agent.measures()
    assert seen("audits_total") >= 1
    assert seen("audit_failures_total", cause="hypervisor") == 0
    assert 0 <= seen("audit_age_seconds") < PATIENCE
    assert seen("hypervisor_connected") == seen("nodes") == 1
    assert seen("rows_written_total") >= 1
    assert 0 < seen("node_memory_bytes", kind="used") < seen("node_memory_bytes", kind="limit")
    os.kill(_worker(watched.process), signal.SIGUSR2)
    wait_for_log(watched.process, f"{INSTANCE} refused in ")


def _worker(process: Process) -> int:
    """Return the process that does the work, a child of the daemon where threads are native."""
    found = WORKER.search(process.log.read_text())
    assert found is not None
    return int(found[1])


def test_what_is_gone_is_named_and_health_comes_back(
    watched: Watched, rabbitmq: RabbitMQ, mariadb: MariaDB
) -> None:
    daemons: dict[str, Daemon] = {"broker": rabbitmq, "database": mariadb}
    for part, daemon in daemons.items():
        daemon.kill()
        try:
            assert watched.miss(part)
            for page in watched.pages:
                status, report = page.health()
                assert (status, report["healthy"]) == (503, False)
                assert report[part]["problem"]
                assert page.measures()("healthy", part=part) == 0
        finally:
            daemon.start()
        assert watched.become_healthy()


@pytest.mark.matrix
def test_what_hangs_is_named_and_health_comes_back(
    watched: Watched, rabbitmq: RabbitMQ, mariadb: MariaDB
) -> None:
    daemons: dict[str, Daemon] = {"broker": rabbitmq, "database": mariadb}
    for part, daemon in daemons.items():
        daemon.pause()
        try:
            assert watched.miss(part)
        finally:
            daemon.resume()
        assert watched.become_healthy()


def test_each_worker_has_a_port_of_its_own_and_no_port_is_no_start(
    deployment: Deployment, backend: str
) -> None:
    page = StatusPage(free_ports(1)[0])
    workers = {"scheduler": {"workers": 2}, **page.options}
    process = deployment.scheduler(backend, workers)

    def pages() -> list[StatusPage]:
        return [StatusPage(int(port)) for port in LISTENING.findall(process.log.read_text())]

    assert wait_until(lambda: len(pages()) == 2)
    assert page.port in {each.port for each in pages()}
    assert all(wait_until(each.is_healthy) for each in pages())
    with pytest.raises(ProcessError, match=f"cannot listen: port {page.port} in use"):
        deployment.scheduler(backend, page.options)
