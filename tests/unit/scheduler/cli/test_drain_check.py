# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command drain-check, run in this process on a database of its own."""

import json

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, server_groups
from inventory.tables import allocations
from scheduler.objects.documents import guest_topology_to_json, pci_pools_to_json
from tests.databases import a_node, an_instance, save, serve
from tests.devices import a_pool
from tests.numa import a_guest, a_pinned_cell


@pytest.fixture
def cloud(database):
    """A host with two instances, one with room for one of them, and one that is full."""
    save(database, a_node("old"), a_node("roomy", free_ram_mb=-28000))
    save(database, a_node("full", vcpus=1, vcpus_used=4, free_ram_mb=-32000))
    serve(database, "old", "roomy", "full")
    image = json.dumps({"os_type": "linux"})
    large = an_instance("large", memory_mb=4000, vcpus=2, swap_mb=512, image_properties=image)
    put(database, "old", large, an_instance("small", memory_mb=2000))
    return database


def put(database, host, *rows):
    database.write(lambda c: instances.replace(c, host, host, rows))


def claim(database, uuid, host, **changes):
    """Write a confirmed claim for an instance."""
    ordinary = {
        "instance_uuid": uuid,
        "slot": 1,
        "state": "confirmed",
        "compute_node_id": 1,
        "host": host,
        "node": host,
        "vcpus": 1,
        "memory_mb": 1024,
        "disk_mb": 0,
        "root_gb": 0,
        "ephemeral_gb": 0,
    }
    statement = sa.insert(allocations).values(**ordinary | changes)
    database.write(lambda c: c.execute(statement))


def moves(command, *arguments, status=0):
    done = command.run("drain-check", *arguments, "-f", "json")
    assert done.status == status, done.stderr
    return {each["instance"]: each for each in json.loads(done.stdout)["instances"]}


def test_the_largest_goes_where_there_is_room_and_the_rest_says_why_not(command, cloud):
    found = moves(command, "old", status=1)
    large, small = found.values()
    assert large == {
        "instance": "large",
        "from": "old",
        "from_node": "old",
        "vcpus": 2,
        "memory_mb": 4000,
        "disk_mb": 10 * 1024 + 512,
        "to": "roomy",
        "to_node": "roomy",
        "status": "fits",
        "decided_by": ["vCPUs", "memory", "disk", "image properties"],
        "notes": [],
        "limits": {},
        "nearest": [],
    }
    assert (small["to"], small["status"]) == (None, "does not fit")
    assert small["decided_by"] == ["vCPUs", "memory", "disk"]
    assert small["limits"] == {"RamFilter": 2}
    assert small["nearest"] == [
        refusal("roomy", "RamFilter", "needs 2000 MB of memory, 768 left of 65536 x 1.5"),
        refusal("full", "RamFilter", "needs 2000 MB of memory, 768 left of 65536 x 1.5"),
        refusal("full", "CoreFilter", "needs 1 vCPUs, 0 left of 1 x 4.0"),
    ]


def refusal(host, rule, reason):
    return {"host": host, "node": host, "filter": rule, "reason": reason}


def test_people_get_a_table(command, cloud):
    done = command.run("drain-check", "old")
    assert done.status == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "old: 2 instances, 1 of them cannot go"
    assert lines[1].startswith("Nothing is known of the extra specs of flavors")
    (row,) = (line for line in lines if line.startswith("| small    | old"))
    assert "| does not fit | vCPUs, memory, disk only " in row
    assert "small: hosts by the first filter that refuses it: RamFilter 2" in lines
    assert any(
        line.startswith("| small    | full         | CoreFilter | needs 1 ") for line in lines
    )
    put(cloud, "old", an_instance("small", memory_mb=2000))
    done = command.run("drain-check", "old")
    assert (done.status, done.stdout.splitlines()[0]) == (0, "old: 1 instances, all of them can go")
    assert command.run("drain-check", "full").stdout == "full: no instances to move\n"


def test_hosts_that_are_to_be_emptied_too_take_nothing(command, cloud):
    found = moves(command, "old", "roomy", status=1)
    assert [each["to"] for each in found.values()] == [None, None]
    assert {each["host"] for each in found["large"]["nearest"]} == {"full"}


def test_server_groups_are_respected(command, cloud):
    put(cloud, "old", an_instance("a", memory_mb=10), an_instance("b", memory_mb=10))
    group = cloud.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, ["b", "z"]))
    put(cloud, "roomy", an_instance("z"))
    # Of a group that somebody else keeps.
    claim(cloud, "a", "old", group_uuid="nova's")
    found = moves(command, "old", status=1)
    assert found["a"]["to"] == "roomy"
    assert found["a"]["notes"] == ["in server group nova's, whose policy is not known here"]
    assert found["b"]["decided_by"][-1] == "server group web (anti-affinity)"
    assert {"ServerGroupAntiAffinityFilter", "CoreFilter"} == found["b"]["limits"].keys()
    # Whoever was claimed for in its name is a member.
    cloud.write(lambda c: c.execute(sa.update(allocations).values(group_uuid=group)))
    assert moves(command, "old", status=1)["a"]["to"] is None


def test_members_that_belong_together_are_told_apart(command, cloud):
    cloud.write(lambda c: server_groups.create(c, "web", "affinity", {}, ["small", "large"]))
    put(cloud, "old", an_instance("small", memory_mb=10), an_instance("large", memory_mb=20))
    found = moves(command, "old")
    assert {each["to"] for each in found.values()} == {"roomy"}
    note = "a request to move it alone is refused while other members stay"
    assert [each["notes"] for each in found.values()] == [[note], [note]]


def test_claimed_cells_and_devices_are_asked_for(command, cloud):
    claim(
        cloud,
        "small",
        "old",
        numa=guest_topology_to_json(a_guest(a_pinned_cell())),
        pci=pci_pools_to_json([a_pool(2, 0)]),
    )
    found = moves(command, "old", status=1)["small"]
    assert found["decided_by"] == ["vCPUs", "memory", "disk", "NUMA cells", "PCI devices"]


def test_an_instance_that_is_elsewhere_already_needs_no_place(command, cloud):
    put(cloud, "full", an_instance("small"))
    found = moves(command, "old")["small"]
    assert (found["to"], found["status"]) == ("full", "fits")
    assert found["notes"] == ["is there, or on its way there, already"]


def test_instances_stay_in_their_zone_if_they_have_to(command, cloud):
    put(cloud, "old", an_instance("small", memory_mb=10))
    zone = {"availability_zone": "north"}
    cloud.write(lambda c: aggregates.create(c, "north", ["old"], zone))
    assert moves(command, "old")["small"]["to"] == "roomy"
    found = moves(command, "old", "--keep-zone", status=1)["small"]
    assert found["limits"] == {"AvailabilityZoneFilter": 2}
    assert found["decided_by"] == ["vCPUs", "memory", "disk", "zone"]


def test_mistakes_are_told_in_a_line(command, cloud):
    told = command.refused("drain-check", "old", "rommy")
    assert told == "no host 'rommy' has reported; did you mean roomy?"
    assert "no host 'x' has reported; see 'host list'" in command.refused("drain-check", "x")
