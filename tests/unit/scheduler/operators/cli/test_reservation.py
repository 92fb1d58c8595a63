# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands 'reservation', run in this process on a database of its own."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.databases import a_node, execute, save, serve
from tests.fixtures.command import Command

FLAVOR = "--flavor=m1=2,4096,10"
MINE = (FLAVOR, "--project=p1")


@pytest.fixture
def cloud(database, command):
    """Four hosts with room for two places each; two of them are a failure domain."""
    sizes = {"vcpus": 4, "initial_cpu_allocation_ratio": 1.0}
    save(database, *(a_node(f"h{number}", **sizes) for number in range(1, 5)))
    serve(database, *(f"h{number}" for number in range(1, 5)))
    command.json("aggregate", "create", "rack", "--property=failure_domain=a,power", "--zone=east")
    for host in ("h1", "h2"):
        command.json("aggregate", "add", "host", "rack", host)
    return database


def create(command, name, *arguments):
    return command.json("reservation", "create", name, *arguments)


def hosts(made):
    return [each["host"] for each in made["places"]]


def test_all_places_are_held_and_shown(command, cloud):
    made = create(command, "r1", *MINE, "--number=3", "--until=30d")
    until = datetime.fromisoformat(made["until"]).replace(tzinfo=UTC)
    assert abs(until - datetime.now(UTC) - timedelta(days=30)) < timedelta(hours=1)
    assert (made["number"], made["free"], made["taken"], made["state"]) == (3, 3, 0, "held")
    assert (made["vcpus"], made["memory_mb"], made["disk_mb"]) == (2, 4096, 10240)
    assert command.json("reservation", "show", "r1") == made
    (listed,) = command.json("reservation", "list")
    assert (listed["Name"], listed["Project"], listed["Places"]) == ("r1", "p1", 3)
    claims = command.json("claim", "list")
    assert {each["Instance"] for each in claims} == {each["id"] for each in made["places"]}
    assert {each["State"] for each in claims} == {"reserved"}
    used = {each["Host"]: each["vCPUs Used"] for each in command.json("host", "list")}
    assert sum(used.values()) == 6
    text = command.run("reservation", "show", "r1").stdout
    assert "3 places of 2 vCPUs, 4096 MB of memory, 10240 MB of disk (m1): 3 free" in text


def test_places_have_no_standbys_whatever_the_flavor_says(command, cloud):
    made = create(command, "r1", *MINE, "--number=2", "--extra-spec=berthmaster:failover=required")
    assert made["free"] == 2
    assert command.json("failover", "status")["instances"] == []
    used = {each["Host"]: each["vCPUs Used"] for each in command.json("host", "list")}
    assert sum(used.values()) == 4


def test_each_place_has_a_standby_and_it_is_shown(command, cloud):
    made = create(command, "r1", *MINE, "--number=3", "--spread=failure_domain", "--failover")
    assert made["failover"]
    assert all(each["standby"] not in (None, each["host"]) for each in made["places"])
    (listed,) = command.json("reservation", "list", "--long")
    assert listed["Failover"]
    text = command.run("reservation", "show", "r1").stdout
    assert "each with a standby: 3 free" in text
    assert "| Standby |" in text
    found = command.json("failover", "status")["instances"]
    assert {each["instance"]: (each["reservation"], each["standby"]) for each in found} == {
        each["id"]: ("r1", each["standby"]) for each in made["places"]
    }
    assert "| Place of |" in command.run("failover", "status").stdout
    (change, *_) = command.json("audit", "list", "--long")
    assert change["After"]["failover"] is True


def test_why_a_place_has_no_standby_is_shown(command, cloud):
    first, second, _ = create(command, "r1", *MINE, "--number=3", "--failover")["places"]
    lost = "UPDATE standbys SET compute_node_id = NULL, reason = 'none fits' WHERE "
    execute(cloud, lost + "instance_uuid = :uuid", uuid=first["id"])
    assert "1 place has no standby: none fits\n" in command.run("reservation", "show", "r1").stdout
    execute(cloud, lost + "instance_uuid = :uuid", uuid=second["id"])
    text = command.run("reservation", "show", "r1").stdout
    assert "2 places have no standby: none fits\n" in text
    status = command.run("failover", "status", "--without", "-f", "json")
    assert status.status == 1
    assert {
        each["instance"]: (each["reservation"], each["reason"])
        for each in json.loads(status.stdout)["instances"]
    } == {each["id"]: ("r1", "none fits") for each in (first, second)}


def test_without_room_for_a_standby_nothing_is_held(command, cloud):
    refused = command.refused("reservation", "create", "r1", *MINE, "--number=8", "--failover")
    assert "A place was found, but no host of another failure domain could hold its" in refused
    assert command.json("reservation", "list") == []
    assert {each["vCPUs Used"] for each in command.json("host", "list")} == {0}


def test_a_place_with_a_standby_is_not_handed_over_nor_made_of_one_that_is(command, cloud):
    create(command, "now", *MINE, "--number=2", "--until=2h")
    later = ("--from=2090-01-02", "--number=2")
    made = create(command, "next", *MINE, *later, "--failover")
    assert {each["after"] for each in made["places"]} == {None}
    assert all(each["standby"] for each in made["places"])
    command.json("reservation", "delete", "now", "next")
    create(command, "first", *MINE, "--until=2h", "--failover")
    made = create(command, "second", *MINE, *later)
    assert {each["after"] for each in made["places"]} == {None}


@pytest.mark.parametrize(
    ("spread", "number", "most"), [("host", 4, 1), ("failure_domain", 3, 1), (None, 8, 2)]
)
def test_places_are_kept_apart(command, cloud, spread, number, most):
    options = [f"--spread={spread}"] if spread else []
    refused = command.refused(
        "reservation", "create", "r1", *MINE, *options, f"--number={number + 1}"
    )
    assert f"there is room for {number} of {number + 1} places. For another place, 0 of" in refused
    assert command.json("reservation", "list") == []
    made = hosts(create(command, "r1", *MINE, *options, f"--number={number}"))
    assert max(map(made.count, made)) == most
    assert spread != "failure_domain" or len({"h1", "h2"} & {*made}) == 1


def test_places_are_where_they_were_asked_for(command, cloud):
    zone = create(command, "r1", *MINE, "--availability-zone=east", "--number=2")
    assert {*hosts(zone)} <= {"h1", "h2"}
    aggregate = create(command, "r2", *MINE, "--aggregate=rack", "--number=2")
    assert {*hosts(aggregate)} <= {"h1", "h2"}
    assert "RetryFilter" not in command.refused(
        "reservation", "create", "r3", *MINE, "--availability-zone=east"
    )


def test_a_later_reservation_gets_what_others_hold_until_then_and_free_room(command, cloud):
    create(command, "now", *MINE, "--number=6", "--until=2h")
    theirs = (FLAVOR, "--project=p2", "--number=8")
    for start in ([], ["--from=1h"]):
        refused = command.refused("reservation", "create", "next", *theirs, *start)
        assert "there is room for 2 of 8 places" in refused
    made = create(command, "next", *theirs, "--from=2090-01-02", "--until=2090-01-03T04:05")
    assert (made["from"], made["until"]) == ("2090-01-02 00:00:00", "2090-01-03 04:05:00")
    assert sorted(str(each["after"]) for each in made["places"]) == ["None"] * 2 + ["now"] * 6
    assert (made["state"], made["free"], made["taken_by_others"]) == ("scheduled", 8, 0)
    assert {each["vCPUs Used"] for each in command.json("host", "list")} == {4}
    # All of it is promised to one now.
    assert "room for 0 of 8" in command.refused(
        "reservation", "create", "third", *theirs, "--from=2090-01-02"
    )
    text = command.run("reservation", "show", "next").stdout
    assert "of project p2, from 2090-01-02 00:00:00 UTC until 2090-01-03 04:05:00 UTC" in text
    command.json("reservation", "delete", "now")
    assert {each["after"] for each in command.json("reservation", "show", "next")["places"]} == {
        None
    }


@pytest.mark.parametrize(("spread", "number"), [("host", 4), ("failure_domain", 3)])
def test_places_that_are_handed_over_are_kept_apart_too(command, cloud, spread, number):
    create(command, "now", *MINE, "--number=8", "--until=1h")
    later = (f"--spread={spread}", "--from=1d")
    refused = command.refused(
        "reservation", "create", "next", *MINE, *later, f"--number={number + 1}"
    )
    assert f"there is room for {number} of {number + 1} places" in refused
    made = hosts(create(command, "next", *MINE, *later, f"--number={number}"))
    assert len({*made}) == number
    assert spread != "failure_domain" or len({"h1", "h2"} & {*made}) == 1


def test_a_reservation_is_extended_and_deleted(command, cloud):
    create(command, "r1", *MINE, "--until=1d")
    create(command, "r2", *MINE)
    later = command.json("reservation", "extend", "r1", "--until=2090-01-02T03:04")
    assert later["until"] == "2090-01-02 03:04:00"
    gone = command.json("reservation", "delete", "r1", "r2")
    assert [each["Name"] for each in gone] == ["r1", "r2"]
    assert command.json("claim", "list", "--all") == []
    assert {each["vCPUs Used"] for each in command.json("host", "list")} == {0}


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["create", "r"], 2, "arguments are required: --flavor"),
        (["create", "r", FLAVOR], 2, "arguments are required: --project"),
        (["create", "r", *MINE, "--flavor=1,1,1"], 2, "a reservation is for one flavor"),
        (["create", "r", *MINE, "--until=soon"], 2, "'soon' is neither a time from now, such as"),
        (["create", "r", *MINE, "--until=2020-01-01"], 1, "is in the past; times are in UTC"),
        (
            ["create", "r", *MINE, "--from=2020-01-01"],
            1,
            "from: 2020-01-01 00:00:00 is in the past",
        ),
        (["create", "r", *MINE, "--from=2d", "--until=1d"], 1, "the start"),
        (["create", "r1", *MINE], 1, "there is a reservation 'r1' already"),
        (["create", " ", *MINE], 1, "name: is empty"),
        (["create", "r", *MINE, "--extra-spec=hw:numa_nodes=1"], 1, "NUMA cells, pinned CPUs or"),
        (["create", "r", *MINE, "--pci-device=8086:1520"], 1, "PCI devices cannot be reserved"),
        (["create", "r", *MINE, "--hint=group=web"], 1, "reservations cannot have hints"),
        (["create", "r", *MINE, "--availability-zone=wset"], 1, "no availability zone 'wset'"),
        (["extend", "r1"], 2, "arguments are required: --until"),
        (["extend", "r1", "--until=1d"], 1, "reservation r1 has no end"),
        (["show", "r11"], 1, "there is no reservation 'r11'; did you mean r1?"),
        (["delete", "r1", "other"], 1, "there is no reservation 'other'"),
    ],
)
def test_what_is_refused(command, cloud, arguments, status, text):
    before = create(command, "r1", *MINE)
    assert text in command.refused("reservation", *arguments, status=status)
    assert command.json("reservation", "show", "r1") == before
    assert len(command.json("reservation", "list")) == 1


def test_places_are_not_released_as_claims(command, cloud):
    made = create(command, "r1", *MINE)
    (place,) = made["places"]
    assert "is a reserved place, not an instance" in command.refused(
        "claim", "release", place["id"]
    )
    assert command.json("reservation", "show", "r1") == made


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            "[claims]\nenabled = false",
            "[claims] enabled is false: schedulers claim and hold no room",
        ),
        ("[scheduler]\ndriver = chance_scheduler", "does not look for reserved places"),
    ],
)
def test_nothing_is_reserved_that_schedulers_would_not_keep(command, cloud, options, text):
    config = command.config.with_name("other.conf")
    config.write_text(command.config.read_text() + options + "\n")
    other = Command(config)
    assert text in other.refused("reservation", "create", "r1", *MINE)


def test_a_place_that_ended_with_its_node_is_missing(command, cloud, database):
    create(command, "r1", *MINE, "--number=2", "--spread=host", "--aggregate=rack")
    database.write(lambda c: c.exec_driver_sql("UPDATE services SET last_seen_up = NULL"))
    database.write(lambda c: c.exec_driver_sql("UPDATE services SET created_at = NULL"))
    refused = command.refused("service", "delete", "h1")
    assert "host h1 holds places of r1" in refused
    assert json.loads(
        command.run("service", "delete", "h1", "--forget-guests", "-f", "json").stdout
    )
    shown = command.run("reservation", "show", "r1").stdout
    assert "1 place was lost with its node" in shown
