# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command drain-check, run in this process on a database of its own."""

import json

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, server_groups
from inventory.objects.node_json import guest_topology_to_json, pci_pools_to_json
from inventory.tables import allocations
from tests.databases import a_node, an_instance, execute, save, serve
from tests.devices import a_pool
from tests.fixtures.command import Command
from tests.numa import a_guest, a_pinned_cell

ALONE = "only together"


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
    assert lines[1].startswith("Extra specs of flavors, scheduler hints")
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


def test_members_that_belong_together_are_marked(command, cloud):
    cloud.write(lambda c: server_groups.create(c, "web", "affinity", {}, ["small", "large"]))
    put(cloud, "old", an_instance("small", memory_mb=10), an_instance("large", memory_mb=20))
    found = moves(command, "old", status=1)
    assert {(each["to"], each["status"]) for each in found.values()} == {("roomy", ALONE)}
    note = "a request to move it alone is refused while other members stay"
    assert [each["notes"] for each in found.values()] == [[note], [note]]
    lines = command.run("drain-check", "old").stdout.splitlines()
    assert lines[0] == "old: 2 instances, all of them can go, 2 only together with others"
    assert sum("| roomy, only together |" in line for line in lines) == 2
    # One is there already: a request for the other goes there.
    put(cloud, "old", an_instance("small", memory_mb=10))
    put(cloud, "roomy", an_instance("large", memory_mb=20))
    found = moves(command, "old")["small"]
    assert (found["to"], found["status"], found["notes"]) == ("roomy", "fits", [])


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
    assert found["notes"] == ["already on this host, or claimed for it"]


@pytest.fixture
def moving(cloud):
    """The host old with an instance for which there is a claim on roomy, and one that is free."""
    save(cloud, a_node("full"))
    put(cloud, "old", an_instance("small", memory_mb=10))
    claim(cloud, "small", "roomy", slot=0, state="pending", compute_node_id=2, memory_mb=10)
    return cloud


def test_an_instance_leaves_the_host_that_it_is_about_to_arrive_on(command, moving):
    assert moves(command, "old")["small"]["to"] == "roomy"
    found = moves(command, "roomy")["small"]
    assert (found["from"], found["to"], found["notes"]) == ("roomy", "old", [])
    # It is judged once where both are to be emptied: by its claim, which knows of no root disk.
    (found,) = moves(command, "old", "roomy").values()
    assert (found["from"], found["to"], found["disk_mb"]) == ("roomy", "full", 0)


def test_an_alternate_is_no_place(command, cloud):
    put(cloud, "old")
    claim(cloud, "new", "old", slot=0, state="pending", memory_mb=4000)
    more = {"slot": -3, "state": "alternate", "compute_node_id": 3, "memory_mb": 10}
    claim(cloud, "new", "full", **more)
    found = moves(command, "old")["new"]
    assert (found["to"], found["memory_mb"], found["notes"]) == ("roomy", 4000, [])
    assert moves(command, "full")["new"]["to"] == "old"
    (found,) = moves(command, "old", "full").values()
    assert found["from"] == "old"


def test_an_instance_that_is_resized_where_it_is_goes_with_its_new_claim(command, cloud):
    put(cloud, "old", an_instance("small", memory_mb=10))
    put(cloud, "full", an_instance("small", memory_mb=10))
    claim(cloud, "small", "old")
    claim(cloud, "small", "old", slot=0, state="pending", in_place=True, disk_mb=2048)
    found = moves(command, "old")["small"]
    assert (found["to"], found["disk_mb"]) == ("roomy", 2048)


def test_the_disk_is_that_of_the_claim(command, cloud):
    """A volume serves as the root disk of the one, and the other has swap."""
    save(cloud, a_node("disk", local_gb=12, free_disk_gb=12))
    put(cloud, "old", an_instance("volume", memory_mb=10, root_gb=999, swap_mb=7))
    claim(cloud, "volume", "old", disk_mb=0)
    claim(cloud, "swap", "old", state="pending", slot=0, disk_mb=10 * 1024 + 512, memory_mb=10)
    found = moves(command, "old")
    assert {uuid: each["disk_mb"] for uuid, each in found.items()} == {"swap": 10752, "volume": 0}


@pytest.mark.parametrize(
    "tags", [{"dev_type": "type-PF"}, {"dev_type": "vdpa"}, {"remote_managed": "true"}, {}]
)
def test_devices_of_a_special_kind_are_asked_for_by_that(database, url, tmp_path, tags):
    pools = pci_pools_to_json([a_pool(1, 0, **tags, parent_ifname="other")])
    save(database, a_node("old", pci_stats="[]"), a_node("roomy", pci_stats=pools))
    serve(database, "old", "roomy")
    put(database, "old", an_instance("a"))
    claim(database, "a", "old", pci=pci_pools_to_json([a_pool(1, 1, **tags, parent_ifname="x")]))
    config = tmp_path / "devices.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        "[filter_scheduler]\nenabled_filters = PciPassthroughFilter\n"
    )
    assert moves(Command(config), "old")["a"]["to"] == "roomy"


def test_the_letter_case_of_names_does_not_count(command, cloud):
    done = command.run("drain-check", "OLD", "old", "FULL", "-f", "json")
    document = json.loads(done.stdout)
    assert document["hosts"] == ["full", "old"]
    assert {each["from"] for each in document["instances"]} == {"old"}
    assert {each["to"] for each in document["instances"]} == {"roomy", None}


def test_instances_stay_in_their_zone_if_they_have_to(command, cloud):
    put(cloud, "old", an_instance("small", memory_mb=10))
    zone = {"availability_zone": "north"}
    cloud.write(lambda c: aggregates.create(c, "north", ["old"], zone))
    assert moves(command, "old")["small"]["to"] == "roomy"
    found = moves(command, "old", "--keep-zone", status=1)["small"]
    assert found["limits"] == {"AvailabilityZoneFilter": 2}
    assert found["decided_by"] == ["vCPUs", "memory", "disk", "zone"]


def test_mistakes_are_reported_in_a_line(command, cloud):
    output = command.refused("drain-check", "old", "rommy")
    assert output == "no host 'rommy' has reported; did you mean roomy?"
    assert "no host 'x' has reported; see 'host list'" in command.refused("drain-check", "x")


def test_instances_of_a_host_that_is_down_can_only_be_evacuated(command, cloud):
    save(cloud, a_node("dead"), a_node("large"))
    put(cloud, "dead", an_instance("lost", memory_mb=10))
    serve(cloud, "large")
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    found = moves(command, "old", "dead")
    assert {uuid: each["notes"] for uuid, each in found.items()} == {
        uuid: ["only by evacuation"] for uuid in ("large", "small", "lost")
    }
    done = command.run("drain-check", "old", "dead")
    lines = done.stdout.splitlines()
    assert lines[0] == "dead, old: 3 instances, all of them can go, 3 only by evacuation"
    assert lines[1].startswith("Down: dead, old. Instances on a host that is down cannot be live-")
    assert done.status == 0
    # Of a host that is up nothing of the kind is said.
    done = command.run("drain-check", "roomy", "-f", "json")
    assert json.loads(done.stdout)["down"] == []
    put(cloud, "roomy", an_instance("other", memory_mb=10))
    lines = command.run("drain-check", "old", "roomy").stdout.splitlines()
    assert lines[0] == "old, roomy: 3 instances, all of them can go, 2 only by evacuation"
    assert lines[1].startswith("Down: old. ")
