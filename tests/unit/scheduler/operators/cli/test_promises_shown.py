# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Room that is held for standbys and reservations, as commands and pages name it."""

import json

import pytest

from inventory import compute_nodes
from inventory.claims import standbys
from inventory.claims.types import Standby
from scheduler.claims.protection import request_to_text
from scheduler.decision.standby_room import NO_STANDBY
from scheduler.operators.cli import decision
from scheduler.operators.cli.live_fleet import live_fleet
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.status_pages import fleet
from scheduler.operators.status_pages import host as host_page
from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of
from tests.unit.scheduler.operators.cli.test_plan import put

ONE = {"vcpus": 1, "memory_mb": 1024, "disk_mb": 1024}
NOTHING = dict.fromkeys(ONE, 0)


def times(number, amounts=ONE):
    return {name: number * each for name, each in amounts.items()}


@pytest.fixture
def cloud(database, command):
    """Four hosts; h1 holds standbys of two domains and two places, h2 one place.

    The instance of the largest standby is on h3. An agent would count what is held as used; here
    the rows do so since claims write them.
    """
    sizes = {"vcpus": 16, "initial_cpu_allocation_ratio": 1.0, "initial_ram_allocation_ratio": 1.0}
    save(database, *(a_node(f"h{number}", **sizes) for number in range(1, 5)))
    serve(database, *(f"h{number}" for number in range(1, 5)))
    ids = {row.host: row.id for row in database.read(compute_nodes.all_live)}
    made = [
        Standby(
            *(a_uuid(name), ids[place], [domain], "required", (n, 1024 * n, 1024 * n), "{}"),
            node_id=ids["h1"],
        )
        for name, place, domain, n in (("large", "h3", "rack-3", 4), ("small", "h4", "rack-4", 2))
    ]
    database.write(lambda connection: standbys.settle(connection, made))
    for name, host, number in (("gold", "h1", 2), ("silver", "h2", 1)):
        reserve(command, name, host, number)
    return database


def reserve(command, name, host, number):
    command.run("aggregate", "create", f"only-{host}")
    command.run("aggregate", "add", "host", f"only-{host}", host)
    flavor = ("--flavor=1,1024,1", f"--number={number}", f"--aggregate=only-{host}")
    command.json("reservation", "create", name, *flavor, "--project=p1")


def test_host_show_says_who_has_the_room(command, cloud):
    shown = command.json("host", "show", "h1")
    assert shown["held_for_standbys"] == times(4)
    assert shown["standbys_by_domain"] == {"rack-3": times(4), "rack-4": times(2)}
    assert shown["held_for_reservations"] == times(2)
    assert shown["reservations"] == [{"name": "gold", "project": "p1", **times(2)}]
    other = command.json("host", "show", "h4")
    assert (other["held_for_standbys"], other["standbys_by_domain"]) == (NOTHING, {})
    assert shown["used_by_instances"] == other["used_by_instances"]
    for name in ONE:
        assert other["free"][name] - shown["free"][name] == times(6)[name]


def test_host_show_has_words_for_people(command, cloud):
    text = " ".join(
        command.run("host", "show", "h1", "--fit-width").stdout.replace("|", "").split()
    )
    assert "rack-3: 4 vCPUs, 4096 MB of memory, 4096 MB of disk; rack-4: 2 vCPUs" in text
    assert "gold of project p1: 2 vCPUs, 2048 MB of memory, 2048 MB of disk" in text


def test_host_show_is_in_groups_and_has_all_columns_on_demand(command, cloud):
    lines = command.run("host", "show", "h1").stdout.splitlines()
    names = [line.split()[1] for line in lines if line.startswith("| ") and line.split()[1] != "|"]
    assert names[1:5] == ["host", "hypervisor_hostname", "state", "status"]
    assert names.index("free") < names.index("used_by_instances") < names.index("vcpus")
    assert "generation" not in names
    everything = command.json("host", "show", "h1")
    every = command.run("host", "show", "h1", "--all").stdout
    assert all(f"| {name} " in every for name in everything)
    assert len(everything) >= 50
    assert "| generation " in command.run("host", "show", "h1", "-c", "generation").stdout


def test_files_of_others_are_not_those_of_instances(command, database):
    save(database, a_node("h1", local_gb=100, local_gb_used=10, disk_mb_used=10 * 1024))
    save(database, a_node("h2", free_disk_mb=30 * 1024, local_gb=100, disk_mb_used=10 * 1024))
    shown = command.json("host", "show", "h2")
    assert shown["used_by_instances"]["disk_mb"] == 10 * 1024
    assert shown["used_by_other_files"] == {"vcpus": 0, "memory_mb": 0, "disk_mb": 60 * 1024}
    assert shown["free"]["disk_mb"] == 30 * 1024


def test_capacity_says_who_has_the_room(command, cloud):
    flavor = "--flavor=1,1024,1"
    room = command.json("capacity", flavor)["room"]
    assert room["standbys"] == times(4)
    assert room["domains"] == {"rack-3": times(4), "rack-4": times(2)}
    assert [(each["name"], each["vcpus"]) for each in room["reservations"]] == [
        ("gold", 2),
        ("silver", 1),
    ]
    parts = [room["used_by_instances"], room["standbys"], *room["reservations"], room["free"]]
    assert sum(each["vcpus"] for each in parts) == 4 * 16
    text = command.run("capacity", flavor).stdout
    assert "Who has the room of all hosts" in text
    for name in ("standbys of domains rack-3, rack-4", "reservation gold of project p1", "free"):
        assert f"| {name} " in text


def test_without_promises_capacity_has_no_further_table(command, database):
    save(database, a_node("h1"))
    serve(database, "h1")
    assert "room of all hosts" not in command.run("capacity", "--flavor=1,1024,1").stdout


def test_a_refusal_says_what_more_would_be_free(command, cloud):
    refused = {
        each["host"]: each["refusals"][0]["reason"]
        for each in command.json("capacity", "--flavor=16,1024,1")["flavors"][0]["hosts"]
        if each["refusals"]
    }
    assert refused["h1"].endswith(
        " left of 16 x 1.0; 6 vCPUs more would be free, but for standbys of domains rack-3, rack-4"
        " and reservation gold of project p1"
    )
    assert refused["h2"].endswith(
        "; 1 vCPU more would be free, but for reservation silver of project p1"
    )
    assert "but for" not in refused["h3"]


def test_explain_says_what_more_would_be_free(command, cloud, monkeypatch):
    monkeypatch.setattr(decision, "WRITE_TIMEOUT", 0.0)
    with KeepingScheduler(cloud, configured(command.config)) as scheduler:
        assert scheduler.ask("big", vcpus=16) == ["h3"]
    text = command.run("explain", *uuids_of("big"), "--host", "h1").stdout.replace("|", "")
    text = " ".join(text.split())
    assert (
        "The amounts held for standbys and reservations are those of now, not of that time." in text
    )
    assert "6 vCPUs more would be free, but for standbys of domains rack-3, rack-4 and" in text


def test_plans_name_what_hosts_hold(command, cloud):
    # Two fit on the empty hosts. Without what h2 holds it would take one; h1 is of the same size.
    done = command.run("plan", "make-room", "--flavor=16,1024,1", "--number=3")
    assert done.status == 1
    assert "| h2   | reservation silver of project p1" in done.stdout
    drained = command.run("plan", "drain", "h1").stdout
    assert "standbys of domains rack-3, rack-4 and reservation gold of project p1" in drained


def test_an_instance_keeps_away_from_its_standby(command, cloud):
    put(cloud, "h3", an_instance(a_uuid("large"), memory_mb=4096, vcpus=4))
    (move,) = command.json("plan", "drain", "h3")["moves"]
    assert move["to"] in ("h2", "h4")
    simulated = command.json("failover", "simulate", "h3")
    (move,) = simulated["moves"]
    assert (move["to"], simulated["complete"]) == ("h1", True)


def test_a_plan_knows_what_a_place_holds_again(command, cloud):
    conf = configured(command.config)
    with KeepingScheduler(cloud, conf) as scheduler:
        assert scheduler.ask("mine", project_id="p1", vcpus=1, memory_mb=512, root_gb=2) == ["h3"]
        (host,) = scheduler.ask("fits", project_id="p1", vcpus=1, memory_mb=512, root_gb=0)
    assert host in ("h1", "h2")
    live = LiveHosts.of(conf, cloud, max_age=0.0)
    residents = live_fleet(live, 60.0, None).residents
    places = {name: residents[uuids_of(name)[0]].place for name in ("mine", "fits")}
    assert places == {"mine": (0, 0, 0), "fits": (1, 512, 0)}


def test_a_repair_lists_who_has_no_standby(command, cloud):
    execute(cloud, "UPDATE standbys SET compute_node_id = NULL, reason = 'none fits'")
    done = command.run("plan", "repair")
    assert done.status == 1
    assert "2 protected instances have no standby:" in done.stdout
    execute(cloud, "UPDATE standbys SET mode = 'preferred'")
    assert command.run("plan", "repair").status == 0
    text = request_to_text(a_request(vcpus=1, memory_mb=512, root_gb=0))
    execute(cloud, f"UPDATE standbys SET mode = 'required', reason = '{NO_STANDBY}'")
    execute(cloud, "UPDATE standbys SET request = :text", text=text)
    for name, host in (("large", "h3"), ("small", "h4")):
        put(cloud, host, an_instance(a_uuid(name), memory_mb=512, vcpus=1))
    done = command.run("plan", "repair")
    assert done.status == 0
    assert "After the moves there is room for 2 standbys of these instances" in done.stdout


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/hosts/h1", ["Held for standbys", "for the loss of rack-3", "reservation gold of"]),
        ("/hosts/", ["<bdi>standbys of domains rack-3, rack-4", "4 vCPUs, 4096 MB of memory"]),
        ("/capacity/", ["Reservation silver of project p1", "Used by instances", "Free"]),
    ],
)
def test_pages_say_who_has_the_room(command, cloud, path, texts):
    site = Site(Source(configured(command.config)))
    text = site.answer(PageRequest(path, "")).body.decode()
    assert [each for each in texts if each not in text] == []
    facts = json.loads(site.answer(PageRequest(path, "format=json")).body)
    room = (
        facts["nodes"][0]["room"] if path == "/hosts/h1" else facts.get("room") or facts["promised"]
    )
    assert [each["name"] for each in room["reservations"]][:1] == ["gold"]


def test_the_map_names_some_of_many_reservations(command, cloud, monkeypatch):
    monkeypatch.setattr(fleet, "_HELD", 2)
    site = Site(Source(configured(command.config)))
    text = site.answer(PageRequest("/hosts/", "")).body.decode()
    assert "<bdi>reservation gold of project p1</bdi>" in text
    assert "reservation silver" not in text
    assert "And for 1 other reservation: see" in text


def test_the_page_of_a_host_has_the_largest_of_many_domains(command, cloud, monkeypatch):
    monkeypatch.setattr(host_page, "_DOMAINS", 1)
    site = Site(Source(configured(command.config)))
    text = site.answer(PageRequest("/hosts/h1", "")).body.decode()
    assert "for the loss of rack-3" in text
    assert "for the loss of rack-4" not in text
    assert "the largest 1 of 2; <code>berthmaster host show h1</code>" in text
