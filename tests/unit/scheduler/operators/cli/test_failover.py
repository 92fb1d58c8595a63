# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of 'failover simulate', run in this process on a database of its own."""

import json
import os
import signal

import pytest
import sqlalchemy as sa

from inventory import aggregates, server_groups
from inventory.objects.node_json import (
    guest_topology_to_json,
    numa_topology_to_json,
    pci_pools_to_json,
)
from inventory.tables import metadata
from scheduler.operators.cli import failover
from tests.databases import a_node, an_instance, execute, save, serve
from tests.devices import a_pool
from tests.fixtures.command import Command
from tests.numa import a_cell, a_guest, a_pinned_cell, a_topology
from tests.unit.scheduler.operators.cli.test_plan import claim, put, refusal
from tests.unit.scheduler.operators.cli.test_plan_promises import guests

FIELDS = ("domain", "hosts", "instances", "placed", "refused")


def a_domain(database, name, *hosts, key="failure_domain"):
    database.write(lambda c: aggregates.create(c, f"of {name}", [*hosts], {key: name}))


@pytest.fixture
def racks(database):
    """Two racks of two hosts of 64 GB, and a host of no rack; three instances have no room."""
    for number, sizes in enumerate([(30, 20, 10), (20,), (40,), (50,), (60,)]):
        guests(database, f"h{number}", *sizes)
    serve(database, *(f"h{number}" for number in range(5)))
    a_domain(database, "rack-1", "h0", "h1")
    a_domain(database, "rack-2", "h2", "h3")
    return database


def simulated(command, *arguments, status=0):
    done = command.run("failover", "simulate", *arguments, "-f", "json")
    assert done.status == status, done.stderr
    return json.loads(done.stdout)


def lines(command, *arguments, status=0):
    done = command.run("failover", "simulate", *arguments)
    assert (done.status, done.stderr) == (status, "")
    return done.stdout.splitlines()


def places(document):
    return {each["instance"]: each["to"] for each in document["moves"]}


def test_each_instance_has_a_place_or_a_reason(command, racks):
    found = simulated(command, "rack-1", status=1)
    assert places(found) == {"h0-1": "h2", "h0-2": "h3"}
    assert {each["how"] for each in found["moves"]} == {"evacuation"}
    assert {each["reason"] for each in found["moves"]} == {"rack-1 is lost"}
    left = {each["instance"]: each for each in found["unplanned"]}
    assert left.keys() == {"h0-0", "h1-0"}
    assert left["h0-0"]["limits"] == {"RamFilter": 3}
    assert (
        refusal("h2", "RamFilter", "needs 30720 MB of memory, 4096 left of 65536 x 1.0")
        in (left["h0-0"]["nearest"])
    )
    assert found["result"] == {
        "domain": "rack-1",
        "hosts": ["h0", "h1"],
        "instances": 4,
        "placed": 2,
        "refused": 2,
        "reached": False,
    }
    assert not found["complete"]
    assert not found["interrupted"]


def test_people_get_a_line_and_tables(command, racks):
    found = lines(command, "rack-1", status=1)
    assert found[0] == "rack-1: 4 instances on 2 hosts, 2 would have a place, 2 would not"
    assert "| h0-1     | h0   | h2 |     20480 |" in found
    assert "2 instances cannot move:" in found
    assert "| h0-0     | h0 | no host takes it: 3 RamFilter |" in found
    assert found[-1].startswith("Extra specs of flavors")


def test_a_host_alone_can_be_lost_too(command, racks):
    found = simulated(command, "H1")
    assert (found["result"]["domain"], places(found)) == ("h1", {"h1-0": "h2"})
    assert lines(command, "h1")[0] == "h1: 1 instance on 1 host, 1 would have a place, 0 would not"
    # The rest of its rack takes instances.
    assert "h1" in places(simulated(command, "h0", "--host")).values()


def test_without_a_name_every_domain_fails_in_turn(command, racks):
    found = simulated(command, status=1)
    assert [[each[key] for key in FIELDS] for each in found["domains"]] == [
        ["rack-1", ["h0", "h1"], 4, 2, 2],
        ["rack-2", ["h2", "h3"], 2, 1, 1],
        ["h4", ["h4"], 1, 0, 1],
    ]
    # Each is what it is when it is asked for alone.
    for each in found["domains"]:
        alone = simulated(command, each["domain"], status=1)["result"]
        assert each == {key: alone[key] for key in FIELDS}
    shown = lines(command, status=1)
    assert shown[0] == (
        "The loss of 0 of 3 failure domains would be survived; the loss of h4, rack-1,"
        " rack-2 would not"
    )
    assert "| rack-1 |     2 |         4 |      2 |       2 |" in shown


def test_all_is_survived_where_there_is_room(command, database):
    for host in ("h0", "h1", "h2"):
        guests(database, host, 10)
    serve(database, "h0", "h1", "h2")
    found = simulated(command)
    assert [each["domain"] for each in found["domains"]] == ["h0", "h1", "h2"]
    assert found["complete"]
    assert lines(command)[0] == "The loss of 3 of 3 failure domains would be survived"
    assert simulated(command, "h0")["complete"]


def test_hosts_that_are_out_of_service_take_nothing(command, racks):
    execute(racks, "UPDATE services SET forced_down = 1 WHERE host = 'h2'")
    execute(racks, "UPDATE services SET disabled = 1 WHERE host = 'h0'")
    found = simulated(command, "h1", status=1)
    assert not found["moves"]
    # They are not supposed, so they are among the reasons.
    assert {each["host"] for each in found["unplanned"][0]["nearest"]} >= {"h2"}
    # What is on a host that is down already is lost with its rack as well.
    execute(racks, "UPDATE services SET disabled = 0 WHERE host = 'h0'")
    found = simulated(command, "rack-2", status=1)
    assert found["result"]["instances"] == 2
    # There it is supposed, so it is no reason.
    assert {name for each in found["unplanned"] for name in each["limits"]} == {"RamFilter"}


def test_an_instance_is_evacuated_in_any_state_but_not_before_it_is_built(command, database):
    guests(database, "h0")
    guests(database, "h1")
    serve(database, "h0", "h1")
    states = [("active", "migrating"), ("error", None), ("stopped", None), ("building", "spawning")]
    rows = [
        an_instance(f"i{n}", vm_state=vm, task_state=task) for n, (vm, task) in enumerate(states)
    ]
    put(database, "h0", *rows)
    found = simulated(command, "h0", status=1)
    assert places(found) == {"i0": "h1", "i1": "h1", "i2": "h1"}
    (left,) = found["unplanned"]
    assert (left["instance"], left["why"]) == ("i3", "has a claim but is not built yet")


def test_server_groups_and_what_is_not_known_of_them(command, racks):
    guests(racks, "h4", 1)
    put(racks, "h1", *(an_instance(name, memory_mb=10) for name in "ab"))
    racks.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, ["a", "h2-0"]))
    claim(racks, "b", "h1", compute_node_id=2, memory_mb=10, group_uuid="nova's")
    found = simulated(command, "h1")
    assert places(found)["a"] != "h2"
    notes = {each["instance"]: each["notes"] for each in found["moves"]}
    assert notes["b"] == ["in server group nova's, whose policy is not known here"]
    assert "b: in server group nova's, whose policy is not known here" in lines(command, "h1")


CELLS = guest_topology_to_json(a_guest(a_pinned_cell(cpus=4)))
POOL = pci_pools_to_json([a_pool(1, 0)])


@pytest.mark.parametrize(
    ("rule", "room", "need"),
    [
        (
            "NUMATopologyFilter",
            {"numa_topology": numa_topology_to_json(a_topology(a_cell()))},
            CELLS,
        ),
        ("PciPassthroughFilter", {"pci_stats": pci_pools_to_json([a_pool(2, 0)])}, POOL),
    ],
)
def test_what_has_been_placed_takes_its_cells_and_devices(
    database, url, tmp_path, rule, room, need
):
    """There are as many as two of three instances need."""
    save(database, a_node("old", **room), a_node("roomy", **room))
    serve(database, "old", "roomy")
    put(database, "old", *map(an_instance, "abc"))
    for uuid in "abc":
        claim(database, uuid, "old", **{"numa" if need is CELLS else "pci": need})
    config = tmp_path / "documents.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        f"[filter_scheduler]\nenabled_filters = {rule}\n"
    )
    found = simulated(Command(config), "old", status=1)
    assert places(found) == {"a": "roomy", "b": "roomy"}
    (left,) = found["unplanned"]
    assert (left["instance"], left["limits"]) == ("c", {rule: 1})


def test_instances_stay_in_their_zone_if_they_have_to(command, racks):
    a_domain(racks, "north", "h1", "h3", key="availability_zone")
    assert places(simulated(command, "h1")) == {"h1-0": "h2"}
    found = simulated(command, "h1", "--keep-zone", status=1)
    assert found["unplanned"][0]["limits"] == {"AvailabilityZoneFilter": 3, "RamFilter": 1}


def test_a_name_of_both_kinds_has_to_say_which(command, racks):
    a_domain(racks, "h1", "h2", "h4")
    refused = command.refused("failover", "simulate", "h1")
    assert refused == (
        "'h1' is the name of a host and of a failure domain of other hosts: add --host or --domain"
    )
    assert simulated(command, "h1", "--host")["result"]["hosts"] == ["h1"]
    assert simulated(command, "h1", "--domain", status=1)["result"]["hosts"] == ["h2", "h4"]
    # Another case is another name.
    a_domain(racks, "H2", "h3")
    assert simulated(command, "H2", status=1)["result"]["hosts"] == ["h3"]
    # A domain of this host alone is no other.
    a_domain(racks, "h3", "h3")
    assert simulated(command, "h3", status=1)["result"]["hosts"] == ["h3"]


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["rack-3"], "there is no failure domain or host 'rack-3'; did you mean rack-"),
        (["h9"], "there is no failure domain or host 'h9'; 'failover simulate' without a name"),
        (["rack-1", "--host"], "there is no host 'rack-1'; 'failover simulate' without a name"),
        (["h1", "--domain"], "there is no failure domain 'h1'; 'failover simulate' without"),
        (["Rack-1"], "there is no failure domain or host 'Rack-1'; did you mean rack-1 or rack-2?"),
    ],
)
def test_a_name_that_is_not_there(command, racks, arguments, refused):
    assert command.refused("failover", "simulate", *arguments).startswith(refused)


def test_arguments_that_do_not_go_together(command):
    for option in ("--host", "--domain"):
        refused = command.refused("failover", "simulate", option, status=2)
        assert f"argument {option}: needs a name" in refused
    assert "not allowed with" in command.refused(
        "failover", "simulate", "h1", "--host", "--domain", status=2
    )
    assert "no host has reported yet" in command.refused("failover", "simulate")


@pytest.mark.parametrize("arguments", [["rack-1"], []])
def test_nothing_is_written(command, racks, arguments):
    def everything():
        return racks.read(
            lambda c: {t.name: c.execute(sa.select(t)).fetchall() for t in metadata.sorted_tables}
        )

    before = everything()
    simulated(command, *arguments, status=1)
    assert everything() == before


@pytest.mark.parametrize(
    ("arguments", "decided"), [(["rack-1"], "1 of 4 instances"), ([], "1 of 3 failure domains")]
)
def test_an_interrupt_shows_what_was_decided(command, racks, monkeypatch, arguments, decided):
    """Ctrl-C comes with the second instance of a domain, or of the second one of several."""
    call, asked = failover.WorkTime.__call__, []

    def interrupted(search_time):
        asked.append(1)
        if len(asked) == (2 if arguments else 6):
            os.kill(os.getpid(), signal.SIGINT)
        return call(search_time)

    monkeypatch.setattr(failover.WorkTime, "__call__", interrupted)
    found = simulated(command, *arguments, status=1)
    assert found["interrupted"]
    assert len(found["unplanned"] if arguments else found["domains"]) == 1
    asked.clear()
    assert f"Interrupted: {decided} were simulated" in lines(command, *arguments, status=1)


@pytest.mark.parametrize("state", ["paused", "suspended", "rescued"])
def test_what_nova_does_not_evacuate_is_named_beforehand_and_in_the_plans(command, racks, state):
    execute(racks, f"UPDATE instances SET vm_state = '{state}' WHERE uuid = 'h1-0'")
    why = f"is in state {state}: Nova evacuates only instances that are active, stopped or in error"
    assert refused_of(simulated(command, "h1", status=1)) == {"h1-0": why}
    assert any(why in each for each in lines(command, "h1", status=1))
    execute(racks, "UPDATE services SET forced_down = 1 WHERE host = 'h1'")
    for goal in (["repair"], ["drain", "h1"]):
        done = command.run("plan", *goal, "-f", "json")
        assert refused_of(json.loads(done.stdout)) == {"h1-0": why}
        assert done.status == 1


def refused_of(document):
    return {each["instance"]: each["why"] for each in document["unplanned"]}
