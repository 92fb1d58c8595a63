# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims of instances that are deleted at a high rate, on many hosts and with two schedulers."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.engine import Database
from inventory.tables import allocations
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.deployment import Deployment, a_fleet
from tests.functional.test_tracking import connected

HOSTS, INSTANCES, RATE = 10_000, 500, 100


def claimed(database: Database) -> dict[str, str]:
    """Return the host of each instance, after one claim for each."""
    nodes = database.read(compute_nodes.all_live)[:INSTANCES]
    found = {
        str(uuid4()): Claim("", node.id, node.host, node.hypervisor_hostname, 1, 512, 0)
        for node in nodes
    }
    request = ClaimRequest(
        "req-1", "d", [Claim(uuid, *_place(each)) for uuid, each in found.items()], 900
    )
    database.write(lambda connection: claims.claim(connection, request))
    return {uuid: each.host for uuid, each in found.items()}


def _place(claim: Claim) -> tuple[int, str, str, int, int, int]:
    return claim.node_id, claim.host, claim.node, claim.vcpus, claim.memory_mb, claim.disk_mb


def pending(database: Database) -> set[str]:
    query = sa.select(allocations.c.instance_uuid)
    return {*database.read(lambda connection: connection.scalars(query).all())}


def ends(database: Database, uuids: set[str]) -> dict[str, float]:
    """Return when the claims of instances were found released."""
    found: dict[str, float] = {}
    until = time.monotonic() + INSTANCES / RATE + PATIENCE
    while len(found) < len(uuids):
        now = time.monotonic()
        assert now < until, f"{len(uuids) - len(found)} claims are left"
        found |= dict.fromkeys(uuids - found.keys() - pending(database), now)
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("backend", ["eventlet", "threading"])
def test_claims_of_deleted_instances_are_released_by_one_scheduler(
    deployment: Deployment, database: Database, backend: str
) -> None:
    a_fleet(database, [f"host{number}" for number in range(HOSTS)])
    hosts = claimed(database)
    debug = {"DEFAULT": {"debug": True}}
    schedulers = [deployment.scheduler(backend, debug) for _ in range(2)]
    sent: dict[str, float] = {}
    with connected(deployment, schedulers[0]) as sender, ThreadPoolExecutor(1) as pool:
        freed = pool.submit(ends, database, {*hosts})
        began, pace = time.monotonic(), Event()
        for number, (uuid, host) in enumerate(hosts.items()):
            pace.wait(max(0.0, began + number / RATE - time.monotonic()))
            sent[uuid] = time.monotonic()
            sender.send("cast_delete_instance_info", host_name=host, instance_uuid=uuid)
        waits = sorted(at - sent[uuid] for uuid, at in freed.result().items())
        seconds = time.monotonic() - began
    print(f"released after {waits[len(waits) // 2]:.1f} s, the last after {waits[-1]:.1f} s")
    batches = [each.log.read_text().count("Released claims") for each in schedulers]
    # The other one looks whether anything is left.
    assert min(batches) == 0
    assert 1 <= max(batches) <= 1 + 2 * seconds
    used = database.read(lambda c: c.scalar(sa.text("SELECT SUM(vcpus_used) FROM compute_nodes")))
    assert used == 0
