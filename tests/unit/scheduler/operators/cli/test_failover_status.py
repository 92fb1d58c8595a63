# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of 'failover status', run in this process on a database of its own."""

import json

import pytest

from inventory import compute_nodes
from inventory.claims import standbys
from inventory.claims.types import Standby
from tests.databases import a_node, a_uuid, an_instance, execute, save
from tests.unit.scheduler.operators.cli.test_plan import put

HELD, LACKING = a_uuid("held"), a_uuid("lacking")
REASON = "no host of another failure domain could hold its standby"


@pytest.fixture
def cloud(database):
    """Two protected instances on h1, one with a standby on h2."""
    save(database, a_node("h1"), a_node("h2"))
    ids = {row.host: row.id for row in database.read(compute_nodes.all_live)}
    made = [
        Standby(
            *(HELD, ids["h1"], ["rack-1"], "required", (1, 1024, 5), "{}"),
            node_id=ids["h2"],
            project_id="p1",
        ),
        Standby(
            *(LACKING, ids["h1"], ["rack-1"], "preferred", (2, 2048, 5), "{}"),
            reason=REASON,
            project_id="p2",
        ),
    ]
    database.write(lambda connection: standbys.settle(connection, made))
    return database


def status(command, *arguments, expected=0):
    done = command.run("failover", "status", *arguments)
    assert (done.status, done.stderr) == (expected, "")
    return done.stdout


def test_each_protected_instance_has_a_line(command, cloud):
    lines = status(command, expected=1).splitlines()
    assert lines[0] == "1 of 2 protected instances have standbys"
    first, second = sorted(
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[5:7]],
        key=lambda cells: cells[4],
        reverse=True,
    )
    assert first == [HELD, "h1", "rack-1", "h2", "required", ""]
    assert second == [LACKING, "h1", "rack-1", "", "preferred", REASON]


def test_only_those_without(command, cloud):
    text = status(command, "--without", expected=1)
    assert text.startswith("1 protected instance has no standby\n")
    assert LACKING in text
    assert HELD not in text


def test_only_those_of_a_project(command, cloud):
    assert status(command, "--project", "p1").startswith("1 of 1 protected instance has a standby")


def test_all_facts_as_json(command, cloud):
    put(cloud, "h1", an_instance(HELD, display_name="web"))
    document = json.loads(status(command, "-f", "json", expected=1))
    assert (document["version"], document["complete"]) == (1, False)
    found = {each["instance"]: each for each in document["instances"]}
    assert found[HELD]["name"] == "web"
    assert found[HELD] | {"name": None} == {
        "instance": HELD,
        "name": None,
        "reservation": None,
        "project": "p1",
        "host": "h1",
        "domain": "rack-1",
        "mode": "required",
        "standby": "h2",
        "reason": None,
        "vcpus": 1,
        "memory_mb": 1024,
        "disk_mb": 5,
    }


def test_without_a_protected_instance_all_is_well(command, cloud):
    execute(cloud, "DELETE FROM standbys")
    assert status(command) == "0 of 0 protected instances have standbys\n"
    assert status(command, "--without") == "0 protected instances have no standby\n"
