# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Two schedulers with real servers keep what is reserved for the project that it is for."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from inventory import compute_nodes
from inventory.claims import claims
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import backends_alike
from tests.builders import a_request
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, a_fleet

HOSTS = [f"host{number}" for number in range(6)]
# Each host has room for four instances.
ROOM, PLACES = 4 * len(HOSTS), 9
SIZE = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10}


def ask(client: SchedulerClient, project: str) -> tuple[str, str | None]:
    """Ask for an instance of a project; return its uuid and its host, None for none."""
    uuid = str(uuid4())
    context = RequestContext(request_id=f"req-{uuid}", project_id=project)
    spec = a_request(instance_uuid=uuid, project_id=project, **SIZE)
    try:
        ((chosen, *_),) = client.select_destinations(context, spec, [uuid])
    except NoValidHost:
        return uuid, None
    return uuid, chosen.service_host


@backends_alike
def test_what_is_reserved_is_for_its_project_whoever_asks_at_the_same_time(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    sizes = {"vcpus": 8, "memory_mb": 8192, "free_ram_mb": 8192, "memory_mb_used": 0}
    a_fleet(database, HOSTS, **sizes, cpu_allocation_ratio=1.0)
    for _ in range(2):
        deployment.scheduler(backend)
    flavor = f"--flavor={SIZE['vcpus']},{SIZE['memory_mb']},{SIZE['root_gb']}"
    create = ("reservation", "create", "launch", flavor, "--project=mine")
    refused = deployment.cli(*create, f"--number={ROOM + 1}")
    assert f"there is room for {ROOM} of {ROOM + 1} places" in refused.stderr
    made = deployment.cli_json(*create, f"--number={PLACES}")
    reserved = Counter(each["host"] for each in made["places"])
    assert reserved.total() == PLACES

    # All places, and all that is left for others and a bit more, at once.
    wanted = ["others"] * (ROOM - PLACES + 6) + ["mine"] * PLACES
    with ThreadPoolExecutor(12) as pool:
        found = [*pool.map(lambda project: (project, *ask(client, project)), wanted)]
    mine, others = (
        [uuid for each, uuid, host in found if each == project and host]
        for project in ("mine", "others")
    )
    assert (len(mine), len(others)) == (PLACES, ROOM - PLACES)
    shown = deployment.cli_json("reservation", "show", "launch")
    assert (shown["free"], shown["taken"]) == (0, PLACES)
    assert sorted(each["taken_by"] for each in shown["places"]) == sorted(mine)
    used = [row.vcpus_used for row in database.read(compute_nodes.all_live)]
    assert used == [8] * len(HOSTS)

    # What the project gives back is held again, and others get nothing of it.
    database.write(lambda c: claims.release(c, mine[:4]))
    assert [row.vcpus_used for row in database.read(compute_nodes.all_live)] == used
    assert ask(client, "others")[1] is None
    assert ask(client, "mine")[1] in reserved
    # Deleted, it is room as any other; instances in places stay.
    assert deployment.cli("reservation", "delete", "launch").returncode == 0
    assert wait_until(lambda: ask(client, "others")[1] is not None)
    left = sum(row.vcpus_used for row in database.read(compute_nodes.all_live))
    assert left == 8 * len(HOSTS) - 2 * 2
