# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What would be decided and why, asked of a scheduler process: nothing is claimed."""

import json

import pytest
import sqlalchemy as sa

from inventory import services
from inventory.claims import existing
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import Forbidden, InvalidInput
from tests.builders import INSTANCE, a_request
from tests.fixtures.deployment import Deployment, a_fleet


def switch_off(connection: sa.Connection) -> None:
    row = services.find(connection, "off", "nova-compute")
    assert row is not None
    services.switch(connection, [row], disabled=True, disabled_reason="new disks")


def test_a_dry_run_tells_all_and_takes_nothing(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["small"], memory_mb=2048, free_ram_mb=1536, memory_mb_used=512)
    a_fleet(database, ["busy"], vcpus_used=127)
    a_fleet(database, ["large", "off"])
    database.write(switch_off)
    deployment.scheduler()

    size = ["--vcpus=2", "--memory-mb=2048", "--disk-gb=10"]
    fits = deployment.cli("select", "--dry-run", *size, "--num-instances=2")
    assert fits.returncode == 0, fits.stderr
    for text in ("nothing is claimed", "goes to large", "CoreFilter", "Weights of the best hosts"):
        assert text in fits.stdout

    refused = deployment.cli("select", "--dry-run", *size, "--ignore-host=large", "-f", "json")
    assert refused.returncode == 1
    assert refused.stderr == "No valid host was found. There are not enough hosts available.\n"
    found = json.loads(refused.stdout)["explanation"]
    reasons = {
        each["host"]: {refusal["filter"]: refusal["reason"] for refusal in each["refusals"]}
        for each in found["verdicts"]
    }
    assert reasons == {
        "small": {"RamFilter": "needs 2048 MB of memory, 1536 left of 2048 x 1.0"},
        "busy": {"CoreFilter": "needs 2 vCPUs, 1 left of 32 x 4.0"},
        "large": {"ignore_hosts": "is among the hosts to be ignored"},
        "off": {"ComputeFilter": "compute service disabled: new disks"},
    }
    assert [each["text"] for each in found["near_misses"]] == [
        "512 MB of memory less, or 512 MB of memory more free on small",
        "1 vCPU less, or 1 vCPU more free on busy",
        "large, were it not for ignore_hosts: is among the hosts to be ignored",
        "off, were it not for ComputeFilter: compute service disabled: new disks",
    ]

    asked = SelectArguments(a_request(), [INSTANCE], True)
    with pytest.raises(Forbidden):
        client.explain_destinations(RequestContext("req-1"), asked)
    admin = RequestContext("req-1", is_admin=True)
    with pytest.raises(InvalidInput, match="most"):
        client.explain_destinations(admin, asked, most="all")
    answer = client.explain_destinations(admin, asked, hosts=["off"])
    assert [each["host"] for each in answer["explanation"]["verdicts"]] == ["large", "off"]
    assert database.read(lambda c: existing.listed(c, None, None, True)) == []
