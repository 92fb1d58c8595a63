# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""'plan drain --run' empties computes of a whole Nova cloud by the client of OpenStack."""

import subprocess
import sys
from pathlib import Path

import pytest

from inventory import tables
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.served_nova import ServedNova
from tests.fixtures.switched_nova import SwitchedNova

pytestmark = pytest.mark.matrix

COMMAND = "from scheduler.operators.cli.cmd import main; main()"


@pytest.fixture
def cloud(ours: SwitchedNova) -> ServedNova:
    return ours.cloud


def servers_on(cloud: ServedNova, host: str) -> set[str]:
    found = cloud.nova.servers().items()
    return {uuid for uuid, each in found if each.host == host and each.status == "ACTIVE"}


class Operator:
    """Runs commands of berthmaster in a directory, with the account of an administrator."""

    def __init__(self, cloud: ServedNova, directory: Path) -> None:
        self._config = cloud.deployment.write_config("operator", {})
        self._directory = directory
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "OS_AUTH_TYPE": "admin_token",
            "OS_TOKEN": "admin",
            "OS_ENDPOINT": f"{cloud.nova.url}/",
            # By which Nova leaves what it has evacuated switched off.
            "OS_COMPUTE_API_VERSION": "2.latest",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        group = "failover" if arguments[0] == "simulate" else "plan"
        line = [sys.executable, "-c", COMMAND, f"--config-file={self._config}", group, *arguments]
        return subprocess.Popen(
            line,
            env=self._environment,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit status and the output of a command."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output


def refused_after_loss(operator: Operator, host: str, uuid: str) -> str:
    """Return why an instance would have no place after the loss of its host, nothing if it had."""
    _, output = operator.run("simulate", host)
    return next((line for line in output.splitlines() if uuid in line), "")


def test_a_compute_is_drained_though_the_run_is_killed_and_another_one_is_evacuated(
    cloud: ServedNova, tmp_path: Path
) -> None:
    nova, operator = cloud.nova, Operator(cloud, tmp_path)
    source, second, third = nova.hosts
    uuids = [nova.boot(nova.flavor(512), availability_zone=f"nova:{source}") for _ in range(4)]
    assert wait_until(lambda: servers_on(cloud, source) == {*uuids}), nova.servers()
    # One that is migrated cold, and confirmed.
    nova.call("POST", f"/servers/{uuids[0]}/action", {"os-stop": None})
    assert wait_until(lambda: nova.servers()[uuids[0]].status == "SHUTOFF")

    def drained() -> bool:
        status, output = operator.run("drain", source)
        return status == 0 and all(uuid in output for uuid in uuids)

    assert wait_until(drained), operator.run("drain", source)
    with operator.start("drain", source, "--run", "--watch") as first:
        assert first.stdout is not None
        seen = []
        for line in first.stdout:
            seen.append(line)
            if ": done in " in line:
                break
        # The second one may have begun.
        first.kill()
    assert ": done in " in seen[-1], seen
    (plan,) = tmp_path.glob("drain-*Z.json")
    status, output = operator.run("run", plan.name)
    assert status == 0, output
    assert output.endswith("4 of 4 moves done\n")
    assert not {uuid for uuid, each in nova.servers().items() if each.host == source}
    statuses = dict.fromkeys(uuids, "ACTIVE") | {uuids[0]: "SHUTOFF"}
    assert {uuid: each.status for uuid, each in nova.servers().items()} == statuses
    assert {row.host for row in cloud.rows(tables.services) if row.disabled} == {source}

    dead, other = sorted((second, third), key=lambda host: -len(servers_on(cloud, host)))
    lost = servers_on(cloud, dead)
    # One that Nova does not evacuate is named, and keeps no other where it is.
    paused = max(lost)
    nova.call("POST", f"/servers/{paused}/action", {"pause": None})
    assert wait_until(lambda: "is in state paused" in refused_after_loss(operator, dead, paused))
    cloud.force_down(dead)
    status, output = operator.run("drain", dead, "--run")
    assert (status, "give --evacuate" in output) == (1, True), output
    status, output = operator.run("drain", dead, "--run", "--evacuate")
    assert (status, paused in output, "is in state paused" in output) == (1, True, True), output
    assert lost - {paused} <= servers_on(cloud, other)
    # As the page advises. Its state is error still when its evacuation has been asked for.
    nova.call("POST", f"/servers/{paused}/action", {"os-resetState": {"state": "error"}})
    assert wait_until(lambda: operator.run("drain", dead, "--run", "--evacuate")[0] == 0)
    assert lost <= servers_on(cloud, other)
    # The next test has three computes again.
    cloud.force_up(dead)
    assert cloud.deployment.cli("host", "enable", source, dead).returncode == 0
