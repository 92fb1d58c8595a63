# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A simulation of a cloud's own trace decides to the last bit as its scheduler did."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from inventory import decisions
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_group, a_request
from tests.databases import a_uuid
from tests.fixtures.deployment import Deployment, a_fleet

# Instances that nobody builds count as being built until their claims expire.
BUILD_TIME = "900"
MIXED = {"flavor_mix": {"weight_multiplier": 1.0, "flavors": "1:2048, 4:8192:20=2"}}
SIZES = [(1, 2048, 10), (4, 8192, 20), (2, 16384, 0), (8, 4096, 40), (3, 3000, 7)]


def ask(client: SchedulerClient, number: int, **changes: Any) -> None:
    """Ask for one to three instances, of which none may fit."""
    vcpus, memory_mb, root_gb = SIZES[number % len(SIZES)]
    uuids = [a_uuid(f"{number} {each}") for each in range(1 + number % 3)]
    request = a_request(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, **changes)
    context = RequestContext(request_id=f"req-{number}", project_id=f"p{number % 2}")
    with suppress(NoValidHost):
        client.select_destinations(context, request, uuids)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="spread"), pytest.param(MIXED, id="mix", marks=pytest.mark.release)],
)
def test_its_own_trace_is_decided_as_it_was(
    deployment: Deployment, database: Database, client: SchedulerClient, options: dict[str, Any]
) -> None:
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    a_fleet(database, [f"h{each}" for each in range(12)])
    scheduler = deployment.scheduler(options=options, name="traced")
    deployment.write_config("berthmaster", options)
    group = a_group(members=[a_uuid("3 0")], hosts=[])
    changes: dict[int, dict[str, Any]] = {3: {"instance_group": group}, 5: {"ignore_hosts": ["h1"]}}
    for number in range(60):
        ask(client, number, **changes.get(number, {}))
    # What has not been written yet is written now.
    assert scheduler.stop() == 0
    rows = database.read(lambda connection: decisions.listed(connection, limit=1000))
    refused = sum(row.outcome == "refused" for row in rows)
    assert 1 < refused < 30
    found = deployment.cli_json(*("simulate", "--decisions", began, "--build-time", BUILD_TIME))
    (run,) = found["runs"]
    assert (run["requests"], run["refused"], run["hosts"]) == (60, refused, 12)
    assert run["as_decided"] == 60
    # With other weighers it is decided otherwise.
    other = deployment.write_config("other", {"filter_scheduler": {"ram_weight_multiplier": -9.0}})
    found = deployment.cli_json(
        *("simulate", "--decisions", began, "--build-time", BUILD_TIME, "--config", str(other))
    )
    assert found["runs"][0]["as_decided"] < 60
    # The same requests on fewer hosts.
    hosts = "2:8,32768,100"
    found = deployment.cli_json("simulate", "--decisions", began, "--hosts", hosts)
    assert found["runs"][0]["as_decided"] is None
    assert found["runs"][0]["refused"] > refused
