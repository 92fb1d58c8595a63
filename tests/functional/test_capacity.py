# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What capacity says is what requests to a scheduler get, to the last one."""

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

from inventory import instances
from inventory.claims import claims
from inventory.engine import Database
from inventory.objects.node_json import numa_topology_to_json
from inventory.operations import server_group_operations
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import an_instance, execute
from tests.fixtures.command import Command
from tests.fixtures.deployment import Deployment, a_fleet
from tests.numa import a_cell_with_threads, a_guest, a_guest_cell, a_topology

OPTIONS: dict[str, dict[str, Any]] = {
    "filter_scheduler": {
        "enabled_filters": "ComputeFilter,RamFilter,CoreFilter,DiskFilter,NUMATopologyFilter,"
        "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
    }
}
PINNED = a_guest(a_guest_cell(0, 4, 2048, "dedicated"))
CELLS = a_topology(a_cell_with_threads(0), a_cell_with_threads(1))


@pytest.fixture
def command(deployment: Deployment, database: Database) -> Command:
    """The command, on hosts of several kinds, beside a scheduler that decides by the same rules."""
    a_fleet(database, ["full"], free_ram_mb=1024)
    a_fleet(database, ["big"], free_ram_mb=17000)
    a_fleet(database, ["few-cpus"], vcpus=8, cpu_allocation_ratio=1.0)
    cells = {"numa_topology": numa_topology_to_json(CELLS), "vcpus": 16}
    a_fleet(database, ["cells1", "cells2"], **cells, free_ram_mb=9000)
    deployment.scheduler(options=OPTIONS)
    deployment.config = deployment.write_config("operator", OPTIONS)
    return Command(deployment.config)


def counted(command: Command, *arguments: str) -> Counter[str]:
    """Return by host how many instances there is room for, as the command says."""
    (found,) = command.json("capacity", *arguments)["flavors"]
    hosts = Counter({each["host"]: each["instances"] for each in found["hosts"]})
    assert (found["total"], found["more"]) == (hosts.total(), False)
    assert all(each["refusals"] for each in found["hosts"])
    return +hosts


def place(client: SchedulerClient, spec: RequestSpec, uuid: str) -> str:
    """Ask for an instance; return its host."""
    context = RequestContext(request_id=f"req-{uuid4()}")
    ((chosen, *_),) = client.select_destinations(context, spec.for_instance(uuid), [uuid])
    return chosen.service_host


def placed(client: SchedulerClient, spec: RequestSpec) -> dict[str, str]:
    """Ask for one instance after the other until there is no host; return {uuid: host}."""
    hosts: dict[str, str] = {}
    while True:
        uuid = str(uuid4())
        try:
            hosts[uuid] = place(client, spec, uuid)
        except NoValidHost:
            return hosts


def check(
    command: Command, client: SchedulerClient, arguments: list[str], spec: RequestSpec
) -> dict[str, str]:
    """Check that there is room for what is placed, and none for more; return {uuid: host}."""
    said = counted(command, *arguments)
    hosts = placed(client, spec)
    assert Counter(hosts.values()) == said
    assert not counted(command, *arguments)
    return hosts


def test_it_is_what_requests_then_get(
    command: Command, client: SchedulerClient, database: Database
) -> None:
    group = database.write(lambda c: server_group_operations.create(c, "apart", "anti-affinity"))
    hints = {"group": [group["id"]]}
    plain, size = ["--flavor=4,2048,20"], {"vcpus": 4, "memory_mb": 2048, "root_gb": 20}
    pinned = ["--extra-spec=hw:numa_nodes=1", "--extra-spec=hw:cpu_policy=dedicated"]
    in_new_group = counted(command, *plain, "--group-policy=anti-affinity")
    for arguments, changes, expected in (
        # Of memory 3, 1 and 1, of vCPUs 2.
        (["--flavor=4,5000,20"], {"memory_mb": 5000}, {"big": 3, "few-cpus": 2, "cells": 2}),
        (
            [*plain, "--hint=group=apart"],
            {"scheduler_hints": hints},
            {"big": 1, "few-cpus": 1, "cells": 2},
        ),
        # Of CPUs two on each cell.
        ([*plain, *pinned], {"numa_topology": PINNED}, {"cells": 8}),
    ):
        hosts = check(command, client, arguments, a_request(**size | changes))
        assert Counter(host.rstrip("12") for host in hosts.values()) == expected
        assert "scheduler_hints" not in changes or Counter(hosts.values()) == in_new_group
        database.write(lambda c, uuids=list(hosts): claims.release(c, uuids))


def build(database: Database, hosts: dict[str, str]) -> None:
    """Make claimed instances those that their agents have seen, by uuid and host."""
    execute(
        database,
        "UPDATE allocations SET state = 'confirmed', slot = compute_node_id, expires_at = NULL",
    )
    for host in {*hosts.values()}:
        seen = [uuid for uuid, at in hosts.items() if at == host]
        rows = [an_instance(uuid, vcpus=4, memory_mb=2048, root_gb=20) for uuid in seen]
        database.write(lambda c, host=host, rows=rows: instances.replace(c, host, host, rows))


def test_hosts_are_emptied_as_far_as_others_have_room(
    command: Command, client: SchedulerClient, deployment: Deployment, database: Database
) -> None:
    spec = a_request(vcpus=4, memory_mb=2048, root_gb=20, numa_topology=PINNED)
    hosts = {uuid: place(client, spec, uuid) for uuid in (str(uuid4()) for _ in range(4))}
    assert Counter(hosts.values()) == {"cells1": 2, "cells2": 2}
    build(database, hosts)
    found = command.json("plan", "drain", "cells1")
    assert [each["to"] for each in found["moves"]] == ["cells2"] * 2
    assert all("NUMA cells" in each["decided_by"] for each in found["moves"])
    uuid = str(uuid4())
    fuller = hosts[uuid] = place(client, spec, uuid)
    build(database, hosts)
    # Of three guests two find cells on the other host.
    done = command.run("plan", "drain", fuller)
    assert done.status == 1
    assert "1 instance cannot move:" in done.stdout
    assert "NUMATopologyFilter" in done.stdout
    # A process of its own ends as the command does.
    assert deployment.cli("plan", "drain", "cells1", "cells2").returncode == 1
    assert "no host 'cell' has reported" in command.refused("plan", "drain", "cell")
