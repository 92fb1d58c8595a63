# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler with a shadow: what another configuration would have decided can be read."""

import subprocess
from typing import Any

import pytest

from inventory.claims import claims
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import backends_alike
from tests.builders import a_request
from tests.databases import a_uuid
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.deployment import BIN, Deployment, a_fleet, wait_for_log

# Instances that nobody builds count as being built, which would keep them apart.
STACK = {"filter_scheduler": {"ram_weight_multiplier": -1.0, "io_ops_weight_multiplier": 0.0}}
SMALL, LARGE = {"memory_mb": 2048}, {"memory_mb": 64_000}


def ask(client: SchedulerClient, name: str, **size: Any) -> str:
    """Ask for an instance; return its host."""
    context = RequestContext(request_id=f"req-{name}")
    request = a_request(vcpus=1, root_gb=0, **size)
    ((chosen, *_),) = client.select_destinations(context, request, [a_uuid(name)])
    return chosen.service_host


def report(deployment: Deployment) -> dict[str, Any]:
    """Return what the newest shadow has found."""
    found: dict[str, Any] = deployment.cli_json("shadow", "report")["shadows"][0]
    return found


def wait_for(deployment: Deployment, **expected: Any) -> dict[str, Any]:
    """Return what the newest shadow has found, as soon as these facts are among it."""
    assert wait_until(lambda: expected.items() <= report(deployment).items()), report(deployment)
    return report(deployment)


@backends_alike
def test_what_other_weighers_would_have_done_is_reported(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    a_fleet(database, [f"h{each}" for each in range(4)])
    done = deployment.cli("shadow", "report")
    assert (done.returncode, "no shadow has reported yet" in done.stderr) == (1, True)
    config = deployment.write_config("stack", STACK)
    options = {"shadow": {"config": str(config)}}
    scheduler = deployment.scheduler(backend, options, name=f"followed-{backend}")
    wait_for_log(scheduler, "The shadow follows")
    hosts = [ask(client, f"small {each}", **SMALL) for each in range(4)]
    assert sorted(hosts) == ["h0", "h1", "h2", "h3"]
    with pytest.raises(NoValidHost):
        ask(client, "large", **LARGE)
    found = wait_for(deployment, requests=5)
    assert (found["refused"], found["refused_by_shadow"]) == (1, 0)
    assert 0 < found["same"] < 3
    # The one that was refused for real is on neither fleet.
    assert (found["real"]["empty_hosts"], found["shadow"]["empty_hosts"]) == (0, 3)
    assert found["real"]["used"] == pytest.approx(found["shadow"]["used"])
    newest = found["different"][-1]
    assert (newest["request_id"], newest["hosts"]) == ("req-large", [])
    text = deployment.cli("shadow", "report").stdout
    verb = "has" if found["same"] == 1 else "have"
    same = f"{found['same']} of 5 requests ({20 * found['same']:.1f} %)"
    assert f"{same} {verb} the same hosts" in text
    assert "req-large" in text
    # What leaves the real fleet leaves the other one.
    gone = [a_uuid(f"small {each}") for each in range(4)]
    database.write(lambda connection: claims.release(connection, gone))
    assert wait_until(lambda: report(deployment)["shadow"]["empty_hosts"] == 4)
    # It ends with its scheduler.
    assert scheduler.stop() == 0
    assert "Traceback" not in scheduler.log.read_text()


@pytest.mark.matrix
def test_of_two_schedulers_one_follows_and_the_other_takes_over(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["h0", "h1"])
    config = deployment.write_config("stack", STACK)
    options = {"shadow": {"config": str(config)}}
    first = deployment.scheduler(options=options, name="first")
    wait_for_log(first, "The shadow follows")
    second = deployment.scheduler(options=options, name="second")
    ask(client, "one", **SMALL)
    wait_for(deployment, requests=1)
    assert first.stop() == 0
    wait_for_log(second, "The shadow follows")
    ask(client, "two", **SMALL)
    wait_for(deployment, requests=1, scheduler="second")
    assert len(deployment.cli_json("shadow", "report")["shadows"]) == 2


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "Failed to find some config files"),
        ("[filter_scheduler]\nenabled_filters = Rum\n", "enabled_filters = 'Rum'"),
    ],
)
def test_a_shadow_that_cannot_decide_stops_the_start(
    deployment: Deployment, text: str | None, cause: str
) -> None:
    path = deployment.directory / "odd.conf"
    if text is not None:
        path.write_text(f"[DEFAULT]\nstate_path = {deployment.directory}\n{text}")
    config = deployment.write_config("refused", {"shadow": {"config": str(path)}})
    command = [str(BIN / "berthmaster-scheduler"), f"--config-file={config}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert cause in done.stderr
