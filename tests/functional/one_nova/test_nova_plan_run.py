# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""'plan run' empties a compute of a whole Nova cloud by the client of OpenStack, killed between."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_compute_is_emptied_though_the_run_is_killed_between_two_moves(
    cloud: ServedNova, tmp_path: Path
) -> None:
    nova = cloud.nova
    source = nova.hosts[0]
    uuids = [nova.boot(nova.flavor(512), availability_zone=f"nova:{source}") for _ in range(4)]
    assert wait_until(lambda: servers_on(cloud, source) == {*uuids}), nova.servers()
    # One that is migrated cold, and confirmed.
    nova.call("POST", f"/servers/{uuids[0]}/action", {"os-stop": None})
    assert wait_until(lambda: nova.servers()[uuids[0]].status == "SHUTOFF")

    config = cloud.deployment.write_config("operator", {})
    berthmaster = [sys.executable, "-c", COMMAND, f"--config-file={config}", "plan"]
    plan = tmp_path / "plan.json"

    def drained() -> bool:
        line = [*berthmaster, "drain", source, "-f", "json"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)
        plan.write_text(done.stdout)
        return done.returncode == 0 and all(uuid in done.stdout for uuid in uuids)

    assert wait_until(drained), plan.read_text()
    run = [*berthmaster, "run", str(plan)]
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "OS_AUTH_TYPE": "admin_token",
        "OS_TOKEN": "admin",
        "OS_ENDPOINT": f"{nova.url}/",
    }
    with subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        line = first.stdout.readline()
        # The second one may have begun.
        first.kill()
    assert ": done in " in line, line
    done = subprocess.run(
        run, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done
    assert done.stdout.endswith("4 of 4 moves done\n")
    assert not {uuid for uuid, each in nova.servers().items() if each.host == source}
    statuses = {uuid: each.status for uuid, each in nova.servers().items()}
    assert statuses == dict.fromkeys(uuids, "ACTIVE") | {uuids[0]: "SHUTOFF"}
