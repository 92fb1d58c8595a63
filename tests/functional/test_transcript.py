# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Record the session at a terminal that the docs show, on real services.

BERTHMASTER_TRANSCRIPT=doc/source/admin/transcript in the environment keeps the recordings.
"""

import os
import re
from pathlib import Path

import pytest

from inventory import aggregates, instances
from inventory.engine import Database
from inventory.operations import service_operations
from tests.databases import a_uuid, an_instance
from tests.fixtures.deployment import Deployment, a_fleet
from tests.fixtures.transcript import WIDTH, Recorder, comparable

VARIABLE = "BERTHMASTER_TRANSCRIPT"
DOCS = Path(__file__).parents[2] / "doc" / "source" / "admin" / "transcript"
LARGE = {"flavor_name": "m1.large", "vcpus": 4, "memory_mb": 8192, "root_gb": 80}
HUGE = {"flavor_name": "r1.xlarge", "vcpus": 8, "memory_mb": 32768, "root_gb": 160}
# The guests of each host.
FLEET = {
    "compute-1": [LARGE, LARGE, LARGE],
    "compute-2": [HUGE, LARGE, LARGE],
    "compute-3": [LARGE],
    "compute-4": [HUGE],
    "compute-5": [HUGE, LARGE],
    "compute-6": [],
}
ZONES = {"east": ["compute-1", "compute-2", "compute-3"], "west": [*FLEET][3:]}
REQUEST = re.compile(r"berthmaster explain (req-[0-9a-f-]{36})")
AN_M1 = "--flavor m1.large=4,8192,80"
AN_R1 = "--flavor r1.xlarge=8,32768,160"
EAST, WEST = (f"--availability-zone {each}" for each in ("east", "west"))


@pytest.fixture
def recorder(deployment: Deployment, database: Database) -> Recorder:
    """A small cloud in which everything has happened that is going to be asked about."""
    for host, guests in FLEET.items():
        _add_host(database, host, guests)
    for zone, hosts in ZONES.items():
        metadata = {"availability_zone": zone}
        database.write(lambda c, z=zone, h=hosts, m=metadata: aggregates.create(c, z, h, m))
    database.write(lambda c: service_operations.disable(c, ["compute-5"], "waits for new disks"))
    database.write(lambda c: service_operations.force_down(c, ["compute-6"]))
    deployment.scheduler(name="controller")
    return Recorder(deployment)


def _add_host(database: Database, host: str, guests: list[dict[str, object]]) -> None:
    vcpus, memory, disk = (
        sum(int(str(each[name])) for each in guests) for name in ("vcpus", "memory_mb", "root_gb")
    )
    a_fleet(
        database,
        [host],
        vcpus_used=vcpus,
        memory_mb_used=512 + memory,
        free_ram_mb=65024 - memory,
        local_gb_used=disk,
        free_disk_gb=1000 - disk,
        disk_mb_used=1024 * disk,
        free_disk_mb=1024 * (1000 - disk),
        running_vms=len(guests),
    )
    rows = [an_instance(a_uuid(f"{host} {n}"), **each) for n, each in enumerate(guests)]
    database.write(lambda c: instances.replace(c, host, host, rows))


def session(recorder: Recorder) -> dict[str, str]:
    """Return what is recorded of a session, part by part."""
    recorded = {
        "hosts": recorder.record("berthmaster host list", "berthmaster availability zone list"),
        "mistake": recorder.record("berthmaster host list --zone eats"),
        "select": recorder.record(f"berthmaster select {AN_M1} --num-instances 2 {EAST}"),
        "refused": recorder.record(f"berthmaster select {AN_R1} {WEST}"),
    }
    (request,) = REQUEST.findall(recorded["refused"])
    columns = "-c Number -c Outcome -c Instances -c Hosts -c Request"
    return recorded | {
        "explain": recorder.record(f"berthmaster explain {request}"),
        "near-miss": recorder.record(f"berthmaster explain {request} --near-miss"),
        "decisions": recorder.record(f"berthmaster decision list {columns}"),
        "capacity": recorder.record(f"berthmaster capacity {AN_M1} --largest"),
        "drain": recorder.record(
            "berthmaster host disable compute-2 --reason 'memory is replaced'",
            "berthmaster plan drain compute-2",
        ),
    }


@pytest.mark.release
def test_the_session_in_the_docs_is_what_the_commands_show(recorder: Recorder) -> None:
    recorded = session(recorder)
    texts = dict(zip(recorded, comparable(recorded.values()), strict=True))
    if kept := os.environ.get(VARIABLE):
        for name, text in texts.items():
            (Path(kept) / f"{name}.txt").write_text(text)
    assert {each.stem: each.read_text() for each in DOCS.glob("*.txt")} == texts
    shown = "".join(texts.values()).splitlines()
    assert max(len(line) for line in shown if not line.startswith("$ ")) <= WIDTH
