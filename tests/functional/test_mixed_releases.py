# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Two releases on one database under load: upgraded daemon by daemon and back, nothing is lost."""

import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory.engine import Database
from inventory.tables import allocations, compute_nodes
from tests.fixtures import releases
from tests.fixtures.daemons.process import Process, ProcessError, wait_until
from tests.fixtures.deployment import Deployment, wait_for_log
from tests.fixtures.load import Load
from tests.fixtures.releases import Release

SCHEDULERS, AGENTS = ("controller1", "controller2"), ("hypervisor1", "hypervisor2")
# Enough to notice a gap; more would only slow down the starts.
CALLERS = 3
ROOM = {"vcpus": 10**5, "memory_mb": 10**8, "local_gb": 10**6}
Made = Callable[[Path], Release]


class MixedDeployment:
    """Two controllers and two hypervisors, each with a daemon of one of two releases."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._daemons: dict[str, Process] = {}
        self._numbers = count(1)

    def run(self, release: Release, *arguments: str) -> str:
        """Return what the command of a release prints; it must succeed."""
        config = f"--config-file={self._deployment.config}"
        command = [*release.command, config, *arguments]
        done = subprocess.run(
            command,
            cwd=release.tree,
            env=release.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def restart(self, host: str, release: Release) -> Process:
        """Stop the daemon of a host, if it has one, and start that of a release."""
        if host in self._daemons:
            old = self._daemons.pop(host)
            assert old.stop() == 0, old.log.read_text()[-2000:]
        # Each start has a log of its own.
        name = f"{host}-{release.tree.name}-{next(self._numbers)}"
        state = self._deployment.directory / f"{host}-state"
        own = {"host": host, "state_path": state}
        if host in SCHEDULERS:
            options = {"DEFAULT": own}
            found = self._deployment.scheduler(
                options=options, environment=release.environment, name=name
            )
        else:
            quick = {"compute_driver": "fake", "report_interval": 1, "update_resources_interval": 1}
            found = self._deployment.agent(
                options={"DEFAULT": {**own, **quick}, "fake": ROOM},
                environment=release.environment,
                name=name,
            )
            wait_for_log(found, "Listening as")
        self._daemons[host] = found
        return found


@pytest.fixture
def mixed(deployment: Deployment) -> Iterator[MixedDeployment]:
    """A deployment in which nothing runs yet."""
    return MixedDeployment(deployment)


PAIRS = pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(releases.last_release, releases.this_release, id="last to this"),
        pytest.param(
            releases.this_release,
            releases.next_release,
            id="this to next",
            marks=pytest.mark.release,
        ),
    ],
)


@pytest.mark.matrix
@pytest.mark.usefixtures("client")
@PAIRS
def test_no_request_is_lost_on_the_way_to_the_next_release_and_back(
    deployment: Deployment,
    database: Database,
    mixed: MixedDeployment,
    tmp_path: Path,
    before: Made,
    after: Made,
) -> None:
    old, new = before(tmp_path), after(tmp_path)
    hosts = (*SCHEDULERS, *AGENTS)
    for host in (*AGENTS, *SCHEDULERS):
        mixed.restart(host, old)
    assert wait_until(lambda: len(database.read(_nodes)) == len(AGENTS))
    with Load(deployment.transport_url, CALLERS).running() as load:
        load.wait_for_more()
        assert f" {new.schema}." in mixed.run(new, "db", "sync")
        load.wait_for_more()
        for release in (new, old):
            for host in hosts:
                mixed.restart(host, release)
                load.wait_for_more()
        # A sync by the release that is back changes nothing.
        assert f"is already at {new.schema}." in mixed.run(old, "db", "sync")
    assert not load.failures
    assert _claimed(database) == load.answered
    assert wait_until(lambda: _counted(database) == len(load.answered))


def _nodes(connection: sa.Connection) -> list[str]:
    return list(connection.scalars(sa.select(compute_nodes.c.host)))


def _claimed(database: Database) -> dict[str, str]:
    query = sa.select(allocations.c.instance_uuid, allocations.c.host)
    rows = database.read(lambda each: each.execute(query).all())
    return {row.instance_uuid: row.host for row in rows}


def _counted(database: Database) -> int:
    """Return how many CPUs the nodes count as used, after the audits of both releases."""
    query = sa.select(sa.func.sum(compute_nodes.c.vcpus_used))
    return int(database.read(lambda each: each.scalar(query)) or 0)


def test_a_daemon_that_needs_a_later_schema_says_which_command_brings_it(
    deployment: Deployment, tmp_path: Path
) -> None:
    new = releases.next_release(tmp_path)
    with pytest.raises(ProcessError) as raised:
        deployment.scheduler(environment=new.environment)
    needs = f"this release needs {new.schema}: run 'berthmaster db sync' of this release"
    assert needs in str(raised.value)
