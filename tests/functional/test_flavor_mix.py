# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler learns from saved decisions what is usually asked for, and places by it."""

import signal
import time

from inventory import decisions
from inventory.decisions import DecisionRow, SnapshotBatch
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.history.saved_decision import from_database
from scheduler.hosts.flavor_mix import FlavorMix, make_mix
from scheduler.wire.context import RequestContext
from tests.backends import backends_alike
from tests.builders import a_request
from tests.databases import a_uuid
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, a_fleet

OPTIONS = {
    "filter_scheduler": {
        f"{name}_weight_multiplier": 0.0 for name in ("ram", "cpu", "disk", "io_ops")
    },
    "flavor_mix": {"weight_multiplier": 1.0},
}
LARGE = (16, 32768, 0)


def ask(client: SchedulerClient, name: str) -> str:
    """Return the host of a small instance."""
    context = RequestContext(request_id=f"req-{name}")
    request = a_request(vcpus=2, memory_mb=4096, root_gb=0)
    ((chosen,),) = client.select_destinations(context, request, [a_uuid(name)])
    return chosen.service_host


def mix_of(database: Database, name: str) -> FlavorMix:
    """Return the mix of a saved decision, after it was made again with the same result."""
    assert wait_until(lambda: database.read(lambda c: decisions.find(c, f"req-{name}")))
    (row,) = database.read(lambda connection: decisions.find(connection, f"req-{name}"))
    saved = database.read(lambda connection: from_database(connection, row))
    with saved.deciding() as driver:
        assert saved.is_same(saved.again(driver))
    return saved.table().flavor_mix


def save_request(database: Database, size: tuple[int, int, int], ago: float) -> None:
    """Save a request for instances of a size as a scheduler did some time ago."""
    row = DecisionRow(
        snapshot_log="before",
        snapshot_number=0,
        ended=time.monotonic() - ago,
        scheduler="s1",
        outcome="placed",
        milliseconds=1.0,
        conflicts=0,
        document=b"",
        instance_uuids=[a_uuid(f"before {each}") for each in range(10)],
        **dict(zip(("vcpus", "memory_mb", "disk_mb"), size, strict=True)),
    )
    batch = SnapshotBatch(row.snapshot_log, 0, b"snapshots")
    database.write(lambda connection: decisions.add(connection, [row], [batch]))


@backends_alike
def test_room_is_kept_for_what_was_asked_for(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    # Of 65024 MB one host has 32768 free and so room for a large instance, the other more for
    # any but a large one.
    a_fleet(database, ["exact"], free_ram_mb=32768, memory_mb_used=32768)
    a_fleet(database, ["gap"], free_ram_mb=60000, memory_mb_used=5536)
    save_request(database, LARGE, 3600.0)
    scheduler = deployment.scheduler(backend, OPTIONS, name="learning")
    # The fuller host would lose its large instance.
    assert ask(client, "learned") == "gap"
    assert mix_of(database, "learned") == make_mix({LARGE: 1.0})
    usual = {"flavors": "1:512, 2:1024=3"}
    changed = OPTIONS | {"flavor_mix": OPTIONS["flavor_mix"] | usual}
    deployment.write_config("learning", changed)
    scheduler.send(signal.SIGHUP)
    assert wait_until(lambda: "read again" in scheduler.log.read_text())
    fixed = make_mix({(1, 512, 0): 1.0, (2, 1024, 0): 3.0})
    numbers = iter(range(100))

    def is_used() -> bool:
        name = f"fixed {next(numbers)}"
        return ask(client, name) == "exact" and mix_of(database, name) == fixed

    # Of these as many are lost on either host, so the fuller one is chosen.
    assert wait_until(is_used)
    assert scheduler.stop() == 0
