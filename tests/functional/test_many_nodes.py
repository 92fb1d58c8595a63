# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One agent that plays very many hosts, and hosts whose nodes come and go, on MariaDB."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, services
from inventory.engine import Database
from tests.backends import backends_alike
from tests.fixtures.daemons.process import Process
from tests.fixtures.deployment import Deployment

HOSTS = 10_000
INTERVAL = 5
FAKE = {"compute_driver": "fake", "debug": True}
AUDIT = re.compile(r"Audited (\d+) nodes in [0-9.]+ s, (\d+) changed")
LATE = "longer than update_resources_interval"
IN_TIME_AGAIN = "less time than update_resources_interval again"

pytestmark = backends_alike


def log(agent: Process) -> str:
    return agent.log.read_text() if agent.log.exists() else ""


def comes(agent: Process, condition: Callable[[], Any]) -> None:
    agent.wait_ready(condition)


def audits(agent: Process) -> list[tuple[int, int]]:
    """Return how many nodes each audit so far was of, and how many of them had news."""
    return [(int(nodes), int(news)) for nodes, news in AUDIT.findall(log(agent))]


def generations(database: Database) -> dict[str, int]:
    rows = database.read(compute_nodes.all_live)
    return {row.hypervisor_hostname: row.generation for row in rows}


def fewest_beats(database: Database) -> int:
    """Return how often the heart of the host with the fewest beats has beaten."""
    table = services.table
    query = sa.select(sa.func.min(table.c.report_count)).where(table.c.topic == "compute")
    return database.read(lambda connection: connection.scalar(query)) or 0


def seconds_of_cpu(agent: Process) -> float:
    """Return how much an agent has computed so far, with the worker that some of them fork."""
    threads = Path(f"/proc/{agent.pid}/task").glob("*/children")
    workers = [pid for children in threads for pid in children.read_text().split()]
    ticks = 0
    for pid in (agent.pid, *workers):
        # Behind the name, which may contain anything: fields 14 and 15 of all, user and system.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def spoil(database: Database, host: str) -> None:
    table = compute_nodes.table
    values = {"memory_mb_used": 1, "generation": table.c.generation + 1}
    statement = sa.update(table).where(table.c.host == host).values(**values)
    database.write(lambda connection: connection.execute(statement))


def stop(agent: Process) -> None:
    agent.send(signal.SIGTERM)
    assert agent.wait() == 0
    assert "Traceback" not in log(agent)


@pytest.mark.matrix
def test_ten_thousand_hosts(deployment: Deployment, database: Database, backend: str) -> None:
    options = {
        "DEFAULT": FAKE | {"update_resources_interval": INTERVAL, "report_interval": INTERVAL},
        "fake": {"hosts": HOSTS},
        # Much later than the end of this test.
        "compute_agent": {"refresh_interval": 100_000},
    }
    agent = deployment.agent(backend, options, name="alpha")
    comes(agent, lambda: audits(agent))
    assert audits(agent)[0] == (HOSTS, HOSTS)
    assert set(generations(database).values()) == {1}
    assert len(generations(database)) == HOSTS

    beats, spent = fewest_beats(database), seconds_of_cpu(agent)
    comes(agent, lambda: len(audits(agent)) >= 3)
    # Not the wall's time, most of which may be that of others: the audits that write nothing, and
    # the heartbeats beside them, leave half of the interval even to a single CPU.
    computed = seconds_of_cpu(agent) - spent
    print(f"{computed:.2f} s of CPU for two audits and the heartbeats beside them")
    assert 0 < computed < INTERVAL
    assert audits(agent)[1:3] == [(HOSTS, 0)] * 2
    assert set(generations(database).values()) == {1}

    # What somebody did to one of them is put right, and no other is touched.
    spoil(database, f"alpha-{HOSTS}")
    comes(agent, lambda: (HOSTS, 1) in audits(agent))
    found = generations(database)
    assert {name: number for name, number in found.items() if number != 1} == {f"alpha-{HOSTS}": 3}

    comes(agent, lambda: fewest_beats(database) >= beats + 3)
    stop(agent)
    assert "Heartbeat failed" not in log(agent)
    # Whatever is late is said to be, once, until it is no longer.
    said = re.findall(f"{LATE}|{IN_TIME_AGAIN}", log(agent))
    assert said == [LATE, IN_TIME_AGAIN] * (len(said) // 2) + [LATE] * (len(said) % 2)


def test_nodes_come_and_go_with_the_configuration(
    deployment: Deployment, database: Database, backend: str
) -> None:
    def configure(**fake: int) -> None:
        options = FAKE | {"update_resources_interval": 1}
        deployment.write_config("alpha", {"DEFAULT": options, "fake": {"hosts": 2, **fake}})

    def nodes_have_guests(number: int, guests: int) -> bool:
        rows = database.read(compute_nodes.all_live)
        return [row.running_vms for row in rows] == [guests] * 2 * number

    options = {"DEFAULT": FAKE | {"update_resources_interval": 1}, "fake": {"hosts": 2}}
    agent = deployment.agent(backend, options, name="alpha")
    comes(agent, lambda: nodes_have_guests(1, 0))
    first = generations(database)
    for number, guests in ((3, 0), (2, 5), (0, 0), (1, 0)):
        configure(nodes=number, guests=guests)
        agent.send(signal.SIGHUP)
        comes(agent, lambda n=number, g=guests: nodes_have_guests(n, g))  # type: ignore[misc]
    # They are what they were before.
    assert generations(database).keys() == first.keys()
    assert min(generations(database).values()) > 1
    stop(agent)
    assert "Deleting node alpha-0001-node-0001 and 3 more: the hypervisor" in log(agent)
