# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands 'plan', run in this process on a database of its own."""

import json
import signal
import stat
import subprocess

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, server_groups
from inventory.objects.node_json import guest_topology_to_json, pci_pools_to_json
from inventory.tables import allocations
from scheduler.operators.cli import plan_goal
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.cli.plan_goal import SearchTime
from scheduler.operators.cli.plan_report import script as script_of
from scheduler.operators.cli.waiting import WorkTime
from scheduler.operators.planning.types import COLD, EVACUATION
from tests.databases import a_node, an_instance, execute, save, serve
from tests.devices import a_pool
from tests.fixtures.command import Command
from tests.fixtures.daemons.process import PATIENCE
from tests.fleets import a_fleet
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


def plan(command, *arguments, status=0):
    done = command.run("plan", *arguments, "-f", "json")
    assert done.status == status, done.stderr
    return json.loads(done.stdout)


def drained(command, *arguments, status=0):
    """Return the moves and the instances that cannot go, by uuid."""
    found = plan(command, "drain", *arguments, status=status)
    return {each["instance"]: each for each in (*found["moves"], *found["unplanned"])}


def refusal(host, rule, reason):
    return {"host": host, "filter": rule, "reason": reason}


def test_the_largest_goes_where_there_is_room_and_the_rest_says_why_not(command, cloud):
    found = plan(command, "drain", "old", status=1)
    (large,), (small,) = found["moves"], found["unplanned"]
    assert large == {
        "stage": 1,
        "step": 1,
        "instance": "large",
        "from": "old",
        "from_node": "old",
        "to": "roomy",
        "to_node": "roomy",
        "vcpus": 2,
        "memory_mb": 4000,
        "disk_mb": 10 * 1024 + 512,
        "how": "live migration",
        "reason": "old is to be emptied",
        "decided_by": ["vCPUs", "memory", "disk", "image properties"],
        "notes": [],
    }
    assert (small["instance"], small["why"]) == ("small", "no host takes it")
    assert small["limits"] == {"RamFilter": 2}
    assert small["nearest"] == [
        refusal("roomy", "RamFilter", "needs 2000 MB of memory, 768 left of 65536 x 1.5"),
        refusal("full", "RamFilter", "needs 2000 MB of memory, 768 left of 65536 x 1.5"),
        refusal("full", "CoreFilter", "needs 1 vCPU, 0 left of 1 x 4.0"),
    ]
    assert found["cost"] == {
        "moves": 1,
        "instances": 1,
        "memory_mb": 4000,
        "steps": 1,
        "by_kind": {"live migration": 1, "cold migration": 0, "evacuation": 0},
    }


def test_people_get_a_table(command, cloud):
    done = command.run("plan", "drain", "old")
    assert done.status == 1
    lines = done.stdout.splitlines()
    # How and why are columns only where moves differ in them.
    assert lines[:3] == [
        "empties old",
        "1 move in 1 step, 1 by live migration; 3.9 GB of memory to copy",
        "Reason: old is to be emptied",
    ]
    assert "|    1 | large    | old  | roomy |      4000 |   10752 |" in lines
    assert "1 instance cannot move:" in lines
    assert any(
        line.startswith("| small    | old | no host takes it: 2 RamFilter") for line in lines
    )
    assert any(
        line.startswith("| small    | full         | CoreFilter | needs 1 ") for line in lines
    )
    done = command.run("plan", "drain", "full")
    assert (done.status, done.stdout) == (0, "empties full\nNo moves are needed\n")


def test_hosts_that_are_to_be_emptied_too_take_nothing(command, cloud):
    found = drained(command, "old", "roomy", status=1)
    assert all("to" not in each for each in found.values())
    assert {each["host"] for each in found["large"]["nearest"]} == {"full"}


def test_server_groups_are_respected(command, cloud):
    put(cloud, "old", an_instance("a", memory_mb=10), an_instance("b", memory_mb=10))
    group = cloud.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, ["b", "z"]))
    put(cloud, "roomy", an_instance("z"))
    # Of a group that somebody else keeps.
    claim(cloud, "a", "old", group_uuid="nova's")
    found = drained(command, "old", status=1)
    assert found["a"]["to"] == "roomy"
    assert found["a"]["notes"] == ["in server group nova's, whose policy is not known here"]
    assert {"ServerGroupAntiAffinityFilter", "CoreFilter"} == found["b"]["limits"].keys()
    # Whoever was claimed for in its name is a member.
    cloud.write(lambda c: c.execute(sa.update(allocations).values(group_uuid=group)))
    assert "to" not in drained(command, "old", status=1)["a"]


def test_claimed_cells_and_devices_are_asked_for(command, cloud):
    claim(
        cloud,
        "large",
        "old",
        memory_mb=4000,
        numa=guest_topology_to_json(a_guest(a_pinned_cell())),
        pci=pci_pools_to_json([a_pool(2, 0)]),
    )
    found = drained(command, "old", status=1)["large"]
    assert found["decided_by"][3:] == ["image properties", "NUMA cells", "PCI devices"]


def test_a_paused_instance_with_devices_stays(command, cloud):
    """Its memory cannot be copied, and Nova migrates only active and stopped ones cold."""
    claim(cloud, "large", "old", memory_mb=4000, pci=pci_pools_to_json([a_pool(2, 0)]))
    execute(cloud, "UPDATE instances SET vm_state = 'paused' WHERE uuid = 'large'")
    assert drained(command, "old", status=1)["large"]["why"] == (
        "is in state paused and has PCI devices"
    )


def test_an_instance_that_is_elsewhere_already_needs_no_move(command, cloud):
    put(cloud, "full", an_instance("small"))
    # Of two hosts on which it was seen it is on one: the other forgets it.
    found = drained(command, "old", "full", status=1)
    assert found["small"]["why"] == "is moving already"


@pytest.fixture
def moving(cloud):
    """The host old with an instance for which there is a claim on roomy, and one that is free."""
    save(cloud, a_node("full"))
    put(cloud, "old", an_instance("small", memory_mb=10))
    claim(cloud, "small", "roomy", slot=0, state="pending", compute_node_id=2, memory_mb=10)
    return cloud


def test_an_instance_that_is_on_its_way_is_not_moved_again(command, moving):
    assert drained(command, "old") == {}
    found = drained(command, "roomy", status=1)["small"]
    assert (found["from"], found["why"]) == ("roomy", "is moving already")


def test_a_claim_for_an_instance_that_is_not_built_waits_and_an_alternate_is_none(command, cloud):
    put(cloud, "old")
    claim(cloud, "new", "old", slot=0, state="pending", memory_mb=4000)
    more = {"slot": -3, "state": "alternate", "compute_node_id": 3, "memory_mb": 10}
    claim(cloud, "new", "full", **more)
    # It is on two hosts, of which one is an alternate.
    assert drained(command, "old", status=1)["new"]["why"] == "has a claim but is not built yet"
    assert drained(command, "full") == {}


def test_the_disk_is_that_of_the_claim(command, cloud):
    """A volume serves as the root disk of the one, and the other has swap."""
    save(cloud, a_node("disk", local_gb=12, free_disk_gb=12))
    swap = an_instance("swap", memory_mb=10, root_gb=10, swap_mb=512)
    put(cloud, "old", an_instance("volume", memory_mb=10, root_gb=999, swap_mb=7), swap)
    claim(cloud, "volume", "old", disk_mb=0)
    found = drained(command, "old")
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
    found = drained(Command(config), "old")["a"]
    # The memory of devices cannot be copied.
    assert (found["to"], found["how"]) == ("roomy", "cold migration")


def test_the_letter_case_of_names_does_not_count(command, cloud):
    document = plan(command, "drain", "OLD", "old", "FULL", status=1)
    assert document["result"]["stages"] == [["full", "old"]]
    assert [each["to"] for each in document["moves"]] == ["roomy"]


def test_instances_stay_in_their_zone_if_they_have_to(command, cloud):
    put(cloud, "old", an_instance("small", memory_mb=10))
    zone = {"availability_zone": "north"}
    cloud.write(lambda c: aggregates.create(c, "north", ["old"], zone))
    assert drained(command, "old")["small"]["to"] == "roomy"
    found = drained(command, "old", "--keep-zone", status=1)["small"]
    assert found["limits"] == {"AvailabilityZoneFilter": 2}


def test_mistakes_are_reported_in_a_line(command, cloud, tmp_path):
    output = command.refused("plan", "drain", "old", "rommy")
    assert output == "no host 'rommy' has reported; did you mean roomy?"
    assert "no host 'x' has reported; see 'host list'" in command.refused("plan", "drain", "x")
    assert "--lease: is for --claim" in command.refused(
        "plan", "drain", "old", "--lease=9", status=2
    )
    assert "--flavor: must be given exactly once" in command.refused("plan", "make-room", status=2)
    assert "no host has reported a metric 'x.y'" in command.refused(
        "plan", "balance", "--metric=x.y"
    )
    missing = command.refused("plan", "check", str(tmp_path / "missing"))
    assert missing == f"cannot read {tmp_path}/missing: No such file or directory"
    other = tmp_path / "other.json"
    for text in ("{}", "no json", '{"version": 1, "moves": [{"instance": "a"}]}'):
        other.write_text(text)
        assert "cannot be used: " in command.refused("plan", "check", str(other))


def test_without_hosts_there_is_nothing_to_plan(command, database):
    assert "no host has reported yet" in command.refused("plan", "consolidate")


def test_instances_of_a_host_that_is_down_can_only_be_evacuated(command, cloud):
    save(cloud, a_node("large"))
    serve(cloud, "large")
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    assert {each["how"] for each in drained(command, "old").values()} == {"evacuation"}
    done = command.run("plan", "repair")
    assert done.status == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "2 instances on hosts that the rules forbid"
    assert lines[1] == "2 moves in 1 step, 2 by evacuation; 5.9 GB of memory to copy"
    assert lines[2].startswith("Instances on a host that is down cannot be live-migrated.")
    assert lines[3] == "Reason: old is down"


def test_rules_that_instances_break_are_repaired(command, cloud):
    save(cloud, a_node("full"))
    put(cloud, "old", an_instance("a", memory_mb=20), an_instance("b", memory_mb=10))
    cloud.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, ["a", "b"]))
    found = plan(command, "repair")
    (move,) = found["moves"]
    assert move["instance"] == "b"
    assert move["reason"].startswith("ServerGroupAntiAffinityFilter: ")
    assert command.run("plan", "repair", "-f", "json").stdout == json.dumps(found, indent=2) + "\n"


def stats(instances):
    return json.dumps({"num_instances": str(instances), "io_workload": "0"})


@pytest.fixture
def half_empty(database):
    """Three hosts with one small instance each."""
    for number in range(3):
        save(database, a_node(f"h{number}", stats=stats(1), free_ram_mb=63488))
        put(database, f"h{number}", an_instance(f"i{number}", memory_mb=2048))
    serve(database, "h0", "h1", "h2")
    return database


def test_hosts_are_emptied_within_the_budget(command, half_empty):
    assert plan(command, "consolidate")["result"]["emptied"] == ["h0", "h1"]
    found = plan(command, "consolidate", "--max-moves=1")
    assert (found["result"]["emptied"], found["cost"]["moves"]) == (["h0"], 1)
    assert plan(command, "consolidate", "--max-gb=1")["moves"] == []
    lines = command.run("plan", "consolidate").stdout.splitlines()
    assert lines[0] == "Empties 2 hosts: h0, h1"
    (row,) = (line for line in lines if "| i0 " in line)
    assert row.endswith("| empties h0 |")
    assert "live migration" not in row


def test_loads_are_balanced_within_the_margin(command, half_empty):
    put(half_empty, "h0", *(an_instance(f"more{n}", memory_mb=8192) for n in range(4)))
    save(half_empty, a_node("h0", stats=stats(4), free_ram_mb=32768))
    found = plan(command, "balance", "--resource=memory", "--margin=20")
    assert found["result"]["before"] == pytest.approx(30 * 1024 / 65536 / 1.5, abs=0.03)
    assert found["result"]["after"] <= 0.2
    assert {each["from"] for each in found["moves"]} == {"h0"}
    lines = command.run("plan", "balance", "--margin=20").stdout.splitlines()
    assert lines[0].startswith("Share of memory in use: hosts differ by 3")
    done = command.run("plan", "balance", "--margin=1", "--max-moves=1")
    assert (done.status, done.stdout.splitlines()[1]) == (1, "The goal is not reached")


def test_room_is_made_for_a_flavor(command, half_empty):
    for number in range(3):
        save(half_empty, a_node(f"h{number}", stats=stats(1), free_ram_mb=30720))
        put(half_empty, f"h{number}", an_instance(f"i{number}", memory_mb=34304))
    large = "--flavor=2,64000,0"
    assert command.json("capacity", large)["flavors"][0]["total"] == 0
    found = plan(command, "make-room", large)
    assert found["result"] == {
        "fit": 1,
        "wanted": 1,
        "hosts": [found["moves"][0]["from"]],
        "held": [],
        "reached": True,
        "flavor": "2,64000,0",
    }
    assert found["cost"]["moves"] == 1
    assert found["moves"][0]["reason"] == "makes room for the flavor"
    done = command.run("plan", "make-room", large, "--number=4")
    assert done.status == 1
    assert done.stdout.splitlines()[0] == "1 of 4 instances of 2,64000,0 fits after the moves"


def test_a_plan_says_later_what_of_it_is_still_true(command, half_empty, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(command.run("plan", "consolidate", "-f", "json").stdout)
    assert command.json("plan", "check", str(path))["states"] == {"possible": 2}
    # One is done, and the host of the other takes nothing any more.
    put(half_empty, "h0")
    put(half_empty, "h2", an_instance("i2", memory_mb=2048), an_instance("i0", memory_mb=2048))
    execute(half_empty, "UPDATE services SET disabled = 1 WHERE host = 'h2'")
    done = command.run("plan", "check", str(path))
    assert done.status == 1
    assert done.stdout.splitlines()[0] == "Moves: 1 done, 1 impossible"
    assert "ComputeFilter: compute service disabled: no reason given" in done.stdout
    put(half_empty, "h1")
    document = json.loads(command.run("plan", "check", str(path), "-f", "json").stdout)
    assert document["states"] == {"done": 1, "gone": 1}
    put(half_empty, "h0", an_instance("i1", memory_mb=2048))
    document = json.loads(command.run("plan", "check", str(path), "-f", "json").stdout)
    assert document["moves"][1]["why"] == "the instance is on h0"


def test_a_script_makes_the_moves_of_a_step_though_one_fails(command, half_empty, tmp_path):
    done = command.run("plan", "consolidate", "-f", "script")
    assert done.status == 0
    client, log = tmp_path / "openstack", tmp_path / "log"
    # Says that each instance is on h2, but the one whose migration fails.
    client.write_text(
        f"""#!/bin/sh
echo "$OS_COMPUTE_API_VERSION" "$@" >> {log}
case "$*" in "server show"*i0) echo h1;; "server show"*) echo h2;; esac
"""
    )
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    ran = subprocess.run(
        ["sh", "-s"],
        input=done.stdout,
        text=True,
        capture_output=True,
        # The version is not that of the environment.
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "OS_COMPUTE_API_VERSION": "2.latest"},
        check=False,
    )
    said = "i0 is on h1, not on h2\nfailed: the move of i0\n"
    assert (ran.returncode, ran.stderr) == (1, said)
    assert log.read_text().splitlines() == [
        "2.56 server migrate --live-migration --host h2 --wait i0",
        "2.56 server show -f value -c OS-EXT-SRV-ATTR:host i0",
        "2.56 server migrate --live-migration --host h2 --wait i1",
        "2.56 server show -f value -c OS-EXT-SRV-ATTR:host i1",
    ]


def test_a_script_begins_no_step_after_one_with_a_failure(tmp_path):
    """The next step needs the room of this one."""
    ends = {"from": "h1", "from_node": "h1", "to": "h2", "to_node": "h2"}
    rest = {"memory_mb": 1, "disk_mb": 1, "how": COLD, "reason": "", "stage": 1}
    steps = {"a": 1, "b": 1, "c": 2}
    moves = [{"instance": uuid, "step": step, **ends, **rest} for uuid, step in steps.items()]
    found = {"version": 1, "goal": "drain", "cost": {"by_kind": {EVACUATION: 0}}}
    found["moves"] = moves
    log = tmp_path / "log"
    client = tmp_path / "openstack"
    client.write_text(f"#!/bin/sh\necho $2 $3 >> {log}\necho h2\ntest $2$3 != migrate--host\n")
    client.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(["sh", "-s"], input=script_of(found), text=True, env=path, check=False)
    # None is confirmed whose migration has failed.
    assert (ran.returncode, log.read_text()) == (1, "migrate --host\n" * 2)


def test_a_script_waits_for_evacuations_while_nova_answers(command, half_empty, tmp_path):
    """The client of OpenStack up to 10.5 waits for them for ever."""
    execute(half_empty, "UPDATE services SET forced_down = 1 WHERE host = 'h0'")
    script = command.run("plan", "drain", "h0", "-f", "script").stdout
    assert script.splitlines()[-5:] == [
        "openstack server evacuate --host h1 i0 &&",
        "    evacuated i0 &&",
        "    check i0 h1 ||",
        "    failed i0",
        "end_of_step",
    ]
    client, pause = tmp_path / "openstack", tmp_path / "sleep"
    (tmp_path / "looks").touch()
    # Twice the instance is still rebuilt; then there is no answer any more.
    client.write_text(
        f"""#!/bin/sh
case "$*" in *task_state*) echo look >> {tmp_path}/looks; esac
test "$(wc -l < {tmp_path}/looks)" -eq 3 && exit 7
echo rebuilding
"""
    )
    pause.write_text("#!/bin/sh\n")
    for each in (client, pause):
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["sh", "-s"], input=script, text=True, env=path, check=False, timeout=PATIENCE
    )
    assert ran.returncode == 1
    assert (tmp_path / "looks").read_text() == "look\n" * 3


def test_room_is_claimed_for_the_first_step(command, half_empty):
    found = plan(command, "consolidate", "--claim", "--lease=600")
    assert [(each["instance"], each["host"], each["held"]) for each in found["claims"]] == [
        ("i0", "h2", True),
        ("i1", "h2", True),
    ]
    claims = command.json("claim", "list")
    assert {(each["Instance"], each["Host"], each["State"]) for each in claims} == {
        ("i0", "h2", "pending"),
        ("i1", "h2", "pending"),
    }
    # What is held is on its way for the next plan.
    assert plan(command, "consolidate")["moves"] == []


@pytest.mark.parametrize("state", ["pending", "alternate"])
def test_a_claim_of_a_plan_replaces_none_of_a_scheduler(command, half_empty, monkeypatch, state):
    """An instance may be claimed on a host while the plan is made."""

    def hold_after_a_request(*arguments):
        made = {"compute_node_id": 2, "created_at": sa.text("CURRENT_TIMESTAMP")}
        claim(half_empty, "i0", "h1", slot=0, state=state, **made)
        return hold_room(*arguments)

    monkeypatch.setattr(plan_goal, "hold_room", hold_after_a_request)
    found = plan(command, "consolidate", "--claim", status=1)
    assert [(each["instance"], each["held"], each["why_not"]) for each in found["claims"]] == [
        ("i0", False, "instance i0 has a pending claim on host h1"),
        ("i1", True, None),
    ]
    claims = {(each["Instance"], each["Host"]) for each in command.json("claim", "list")}
    assert claims == {("i0", "h1"), ("i1", "h2")}


def test_what_was_held_before_an_instance_came_to_its_host_is_in_the_way_of_no_plan(
    command, half_empty
):
    claim(half_empty, "i0", "h0", created_at=sa.text("'2026-01-01 00:00:01'"))
    more = {"slot": -2, "state": "alternate", "compute_node_id": 2}
    claim(half_empty, "i0", "h1", created_at=sa.text("'2026-01-01 00:00:00'"), **more)
    found = plan(command, "drain", "h0", "--claim")
    assert [each["held"] for each in found["claims"]] == [True]


def test_room_that_is_not_claimed_is_an_error(url, half_empty, tmp_path):
    config = tmp_path / "no-claims.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        "[claims]\nenabled = false\n"
    )
    message = Command(config).refused("plan", "consolidate", "--claim")
    assert message == "--claim cannot hold room: [claims] enabled = false"


@pytest.mark.usefixtures("interruptible")
def test_the_first_interrupt_ends_the_search_and_not_the_command():
    work = WorkTime()
    search_time = SearchTime(work, a_fleet({"h1": 8}))
    assert search_time()
    with work.until_interrupted():
        signal.raise_signal(signal.SIGINT)
        assert not search_time()
        assert work.interrupted
        # The second one ends the command.
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
