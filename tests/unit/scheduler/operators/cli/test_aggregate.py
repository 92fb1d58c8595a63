# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands for aggregates, as operators type them. What they do is tested with the orders."""

import pytest

from inventory import aggregates, instances
from tests.databases import an_instance, serve


def test_an_aggregate_from_its_beginning_to_its_end(database, command):
    serve(database, "h1")
    made = command.json("aggregate", "create", "cold", "--zone", "north", "--property", "ssd=true")
    assert (made["availability_zone"], made["hosts"]) == ("north", [])
    command.json("aggregate", "add", "host", "cold", "H1")
    asked = ("--name", "warm", "--zone", "south", "--property=gpu=no", "--no-property")
    shown = command.json("aggregate", "set", "cold", *asked)
    assert shown["properties"] == {"gpu": "no"}
    shown = command.json("aggregate", "unset", "warm", "--property", "gpu")
    assert shown == command.json("aggregate", "show", str(made["id"]))
    assert {name: shown[name] for name in made if name != "updated_at"} == {
        "id": made["id"],
        "uuid": made["uuid"],
        "name": "warm",
        "availability_zone": "south",
        "hosts": ["h1"],
        "properties": {},
        "created_at": made["created_at"],
    }
    assert command.json("aggregate", "remove", "host", "warm", "h1")["hosts"] == []
    (gone,) = command.json("aggregate", "delete", "warm")
    assert gone == {"ID": made["id"], "Name": "warm", "Availability Zone": "south"}
    assert command.json("aggregate", "list") == []


def test_the_list_is_short_for_people_and_whole_for_programs(command):
    command.json("aggregate", "create", "a", "--property", "ssd=true")
    (row,) = command.json("aggregate", "list")
    assert list(row) == ["ID", "Name", "Availability Zone", "Properties", "Hosts", "UUID"]
    assert (row["Properties"], row["Hosts"]) == ({"ssd": "true"}, [])
    assert "ssd" not in command.run("aggregate", "list").stdout
    assert "| ssd=true " in command.run("aggregate", "list", "--long").stdout


@pytest.fixture
def zones(database, command):
    """A host in a zone, one with an instance in none, and another zone."""
    serve(database, "h1", "h2")
    database.write(lambda c: instances.replace(c, "h2", "h2", [an_instance("u1")]))
    for name in ("north", "south"):
        command.json("aggregate", "create", name, "--zone", name)
    command.json("aggregate", "add", "host", "north", "h1")


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (
            ["create", "North"],
            1,
            "an aggregate 'north' already, which counts as the same name as 'North'",
        ),
        (["create", "x", "--zone=a", "--property=availability_zone=b"], 1, "'b' and 'a'"),
        (["create", "x", "--property=cpu_allocation_ratio=abc"], 1, "'abc' is not a number"),
        (["create", "x", "--property=ssd"], 2, "'ssd' is not of the form KEY=VALUE"),
        (["create"], 2, "the following arguments are required: name"),
        (["show", "x"], 1, "there is no aggregate 'x'; see 'aggregate list'"),
        (["set", "north"], 2, "nothing to set: give --name, --zone, --property or"),
        (["set", "north", "--property=cpu_allocation_ratio=-1"], 1, "'-1' is less than 0: no"),
        (
            ["set", "north", "--property=a=1", "--property= a=2"],
            1,
            "a: has two values, '1' and '2'",
        ),
        (["set", "north", "--property= max_io_ops_per_host =4.5"], 1, "not a whole number"),
        (["unset", "north"], 2, "the following arguments are required: --property"),
        (["unset", "north", "--property=x"], 1, "has no property 'x'; it has availability_zone"),
        (["add", "host", "south", "h1"], 1, "but can be in one only: remove the host from"),
        (["add", "host", "south", "h2"], 1, "on h2 (1, from nova to south): move it away"),
        (["add", "host", "south", "h3"], 1, "no compute service on a host 'h3': start"),
        (
            ["remove", "host", "south", "h1"],
            1,
            "'h1' is not in aggregate south, which has no hosts",
        ),
        (["delete", "south", "north"], 1, "aggregate north is not empty: remove its hosts"),
    ],
)
def test_wrong_changes_are_refused_in_a_line(database, command, zones, arguments, status, output):
    before = database.read(aggregates.everything)
    refused = command.refused("aggregate", *arguments, status=status)
    assert output in refused
    assert status == 2 or "\n" not in refused
    assert database.read(aggregates.everything) == before


def test_people_see_the_first_few_hosts_and_programs_all(database, command):
    hosts = [f"h{number}" for number in range(2000)]
    database.write(lambda c: aggregates.create(c, "large", hosts, {"ssd": "true", "gpu": "no"}))
    for arguments in (("list", "--long"), ("show", "large")):
        output = command.run("aggregate", *arguments).stdout
        assert "h0, h1, h10 and 1997 more" in output
        assert "gpu=no, ssd=true" in output
        assert max(map(len, output.splitlines())) < 130
    assert command.json("aggregate", "show", "large")["hosts"] == sorted(hosts)
    (row,) = command.json("aggregate", "list")
    assert (row["Hosts"], row["Properties"]) == (sorted(hosts), {"gpu": "no", "ssd": "true"})


def test_a_property_may_be_said_twice(command):
    made = command.json("aggregate", "create", "x", "--property=a=1", "--property=a=1")
    assert made["properties"] == {"a": "1"}


def test_hosts_with_instances_change_their_zone_where_that_is_said(command, zones):
    shown = command.json("aggregate", "add", "host", "south", "h2", "--with-instances")
    assert shown["hosts"] == ["h2"]
    assert "--with-instances" in command.refused("aggregate", "set", "south", "--zone=west")
    shown = command.json("aggregate", "set", "south", "--zone=west", "--with-instances")
    assert shown["availability_zone"] == "west"
    asked = ("--property=availability_zone", "--with-instances")
    assert command.json("aggregate", "unset", "south", *asked)["availability_zone"] is None
