# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Record the session at a terminal that the docs show, on real services.

BERTHMASTER_TRANSCRIPT=doc/source/admin/transcript in the environment keeps the recordings.
"""

import os
import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances
from inventory.engine import Database
from inventory.operations import service_operations
from tests.databases import a_uuid, an_instance
from tests.fixtures.deployment import Deployment, a_fleet
from tests.fixtures.transcript import WIDTH, Recorder, comparable
from tests.fixtures.ways import LONG_AGO

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
PLACED = re.compile(r"\| ([0-9a-f-]{36}) \| (\S+)")
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


def add_a_fleet(database: Database) -> None:
    """Add 2,000 hosts in a zone; two of them are down."""
    names = [f"hv-{number:04}" for number in range(1, 2001)]
    a_fleet(database, names)
    database.write(lambda c: c.execute(sa.text(LONG_AGO), {"hosts": "hv-%042"}))
    metadata = {"availability_zone": "north"}
    database.write(lambda c: aggregates.create(c, "north", names, metadata))


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
    _report(database, host, guests)


def _report(database: Database, host: str, guests: list[dict[str, object]]) -> None:
    """Write the guests of a host as its agent would."""
    rows = [an_instance(**{"uuid": a_uuid(f"{host} {n}"), **each}) for n, each in enumerate(guests)]
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


def day_two(recorder: Recorder, database: Database, asked: str) -> dict[str, str]:
    """Return what is recorded of an operator who finds out what the session has left.

    asked is the recording of a request, whose first instance is built meanwhile.
    """
    ((uuid, host), *_) = PLACED.findall(asked)
    _report(database, host, [*FLEET[host], {**LARGE, "uuid": uuid, "display_name": "web"}])
    audited = "-c 'Changed At' -c Operator -c Command -c Name -c After"
    states = "--state disabled,forced_down --sort-column 'Memory %' --sort-descending"
    return {
        "states": recorder.record(f"berthmaster host list {states}"),
        "audit": recorder.record(f"berthmaster audit list --host compute-2 --since 1h {audited}"),
        "instance": recorder.record("berthmaster instance show web"),
        "services": recorder.record("berthmaster service list"),
        "config": recorder.record(
            "berthmaster config show --service nova-scheduler --changed -c Group -c Option"
        ),
    }


def many_hosts(recorder: Recorder) -> dict[str, str]:
    """Return what is recorded of lists of 2,000 hosts."""
    return {
        "many-down": recorder.record("berthmaster host list --state down"),
        "many-mistake": recorder.record("berthmaster host show hv-42"),
        "many-capacity": recorder.record(f"berthmaster capacity {AN_M1} --limit 3"),
    }


@pytest.mark.release
def test_the_session_in_the_docs_is_what_the_commands_show(
    recorder: Recorder, database: Database
) -> None:
    recorded = session(recorder)
    recorded |= day_two(recorder, database, recorded["select"])
    add_a_fleet(database)
    recorded |= many_hosts(recorder)
    texts = dict(zip(recorded, comparable(recorded.values()), strict=True))
    if kept := os.environ.get(VARIABLE):
        for name, text in texts.items():
            (Path(kept) / f"{name}.txt").write_text(text)
    assert {each.stem: each.read_text() for each in DOCS.glob("*.txt")} == texts
    shown = "".join(texts.values()).splitlines()
    assert max(len(line) for line in shown if not line.startswith("$ ")) <= WIDTH
