# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of moves beside a real scheduler: what it refused it places after the moves of a plan."""

import json
from typing import Any
from uuid import uuid4

import pytest

from inventory import compute_nodes, instances
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import a_node, an_instance
from tests.fixtures.command import Command
from tests.fixtures.deployment import Deployment, a_fleet

HOSTS = ["h1", "h2", "h3", "h4"]
TOTAL_MB, GUEST_MB = 65536, 30000


@pytest.fixture
def command(deployment: Deployment, database: Database) -> Command:
    """The command, beside a scheduler, on four hosts of which each has a guest of half its size."""
    a_fleet(database, HOSTS)
    for host in HOSTS:
        put(database, host, f"guest-of-{host}")
    options: dict[str, dict[str, Any]] = {
        "filter_scheduler": {"enabled_filters": "ComputeFilter,RamFilter,CoreFilter"}
    }
    deployment.scheduler(options=options)
    deployment.config = deployment.write_config("operator", options)
    return Command(deployment.config)


def put(database: Database, host: str, *guests: str) -> None:
    """Write a host with these guests as its agent would after it has seen them."""
    rows = [an_instance(each, memory_mb=GUEST_MB, vcpus=1) for each in guests]
    used = GUEST_MB * len(guests)
    node = a_node(
        host,
        vcpus=64,
        vcpus_used=len(guests),
        memory_mb_used=used,
        free_ram_mb=TOTAL_MB - used,
        initial_ram_allocation_ratio=1.0,
        stats=json.dumps({"num_instances": str(len(guests)), "io_workload": "0"}),
    )
    database.write(lambda c: compute_nodes.save(c, [node]))
    database.write(lambda c: instances.replace(c, host, host, rows))


def place(client: SchedulerClient, memory_mb: int, uuid: str | None = None, **how: Any) -> str:
    """Ask for an instance, with further fields of the request; return its host."""
    uuid = uuid or str(uuid4())
    spec = a_request(vcpus=1, memory_mb=memory_mb, root_gb=0, instance_uuid=uuid, **how)
    context = RequestContext(request_id=f"req-{uuid4()}")
    ((chosen, *_),) = client.select_destinations(context, spec, [uuid])
    return chosen.service_host


def move(database: Database, moves: list[dict[str, Any]]) -> None:
    """Make the moves of a plan, as computes and their agents do."""
    where = {f"guest-of-{host}": host for host in HOSTS} | {
        each["instance"]: each["to"] for each in moves
    }
    for host in HOSTS:
        put(database, host, *(uuid for uuid, at in where.items() if at == host))


def test_what_was_refused_is_placed_after_the_moves(
    command: Command, client: SchedulerClient, database: Database
) -> None:
    with pytest.raises(NoValidHost):
        place(client, 50000)
    found = command.json("plan", "make-room", "--flavor=1,50000,0", "--number=2")
    assert [each["reason"] for each in found["moves"]] == ["makes room for the flavor"] * 2
    move(database, found["moves"])
    assert {place(client, 50000), place(client, 50000)} == {*found["result"]["hosts"]}
    with pytest.raises(NoValidHost):
        place(client, 50000)


def test_room_that_is_held_goes_to_nobody_else(
    command: Command, client: SchedulerClient, database: Database
) -> None:
    """Three hosts have room for one more guest each; the plan holds one of them."""
    plan = command.json("plan", "drain", "h1", "--claim")
    (held,) = plan["claims"]
    assert held["held"]
    elsewhere = {"ignore_hosts": ["h1"]}
    taken = {place(client, GUEST_MB, **elsewhere) for _ in range(2)}
    assert taken == {*HOSTS} - {"h1", held["host"]}
    with pytest.raises(NoValidHost):
        place(client, GUEST_MB, **elsewhere)
    # A scheduler that is asked to migrate the instance uses what is held for it.
    assert place(client, GUEST_MB, held["instance"], **elsewhere) == held["host"]
    assert len(command.json("claim", "list", "--instance", held["instance"])) == 1
