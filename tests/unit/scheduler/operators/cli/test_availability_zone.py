# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that lists availability zones."""

from inventory import compute_nodes
from tests.databases import a_node, serve


def test_zones_are_listed_with_their_hosts(database, command):
    serve(database, "h1", "h2", "h3")
    for zone in ("north", "empty"):
        command.json("aggregate", "create", zone, "--zone", zone)
    command.json("aggregate", "add", "host", "north", "h2")
    command.json("host", "disable", "h2")
    assert command.json("availability", "zone", "list") == [
        {"Zone Name": "empty", "Zone Status": "not available"},
        {"Zone Name": "north", "Zone Status": "not available"},
        {"Zone Name": "nova", "Zone Status": "available"},
    ]
    rows = command.json("availability", "zone", "list", "--long")
    assert [(row["Zone Name"], row["Host Name"], row["Service Status"]) for row in rows] == [
        ("empty", "", ""),
        ("north", "h2", "disabled"),
        ("nova", "h1", "enabled"),
        ("nova", "h3", "enabled"),
    ]
    assert {row["Service State"] for row in rows} == {"", "up"}


def test_other_lists_name_the_same_zones(database, command):
    serve(database, "h1")
    database.write(lambda c: compute_nodes.save(c, [a_node("h1")]))
    command.json("aggregate", "create", "north", "--zone", "north")
    (host,), (service,) = command.json("host", "list"), command.json("service", "list")
    assert (host["Zone"], service["Zone"]) == ("nova", "nova")
    command.json("aggregate", "add", "host", "north", "h1")
    (host,), (service,) = command.json("host", "list"), command.json("service", "list")
    assert (host["Zone"], service["Zone"]) == ("north", "north")
    assert command.json("host", "list", "--zone", "nova") == []
