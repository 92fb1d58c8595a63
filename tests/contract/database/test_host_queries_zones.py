# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.host_queries: availability zones."""

from inventory import aggregates, services
from inventory.operations import service_operations
from inventory.queries import host_queries
from tests.databases import serve


def listed(database, default="nova"):
    return database.read(lambda c: host_queries.zones(c, 60, default))


def put(database, zone, *hosts):
    metadata = {} if zone is None else {"availability_zone": zone}
    name = f"{zone} of {' '.join(hosts)}"
    database.write(lambda c: aggregates.create(c, name, hosts, metadata))


def test_without_hosts_there_are_no_zones(database):
    assert listed(database) == []


def test_zones_have_their_hosts_and_the_default_one_has_the_others(database):
    serve(database, "h3", "h2", "h1", "h4")
    database.write(lambda c: services.register(c, ["controller"], services.SCHEDULER, 1))
    put(database, "north", "h2", "h1")
    put(database, "north", "h1")
    put(database, None, "h1", "h3")
    put(database, "empty")
    put(database, "left", "gone")
    zones = {each["zone"]: each for each in listed(database, "rest")}
    hosts = {zone: [host["host"] for host in each["hosts"]] for zone, each in zones.items()}
    assert hosts == {"empty": [], "left": [], "north": ["h1", "h2"], "rest": ["h3", "h4"]}
    assert {zone: each["status"] for zone, each in zones.items()} == {
        "empty": "not available",
        "left": "not available",
        "north": "available",
        "rest": "available",
    }
    assert list(zones) == sorted(zones)


def test_a_zone_is_available_while_one_host_takes_instances(database):
    serve(database, "h1", "h2")
    put(database, "north", "h1", "h2")

    def status():
        (zone,) = listed(database)
        return zone["status"], [(host["status"], host["state"]) for host in zone["hosts"]]

    database.write(lambda c: service_operations.disable(c, ["h1"]))
    assert status() == ("available", [("disabled", "up"), ("enabled", "up")])
    database.write(lambda c: service_operations.force_down(c, ["h2"]))
    assert status() == ("not available", [("disabled", "up"), ("enabled", "down")])


def test_what_names_two_zones_is_two_as_for_requests(database):
    serve(database, "h1")
    put(database, "x, y", "h1")
    assert [each["zone"] for each in listed(database)] == ["x", "y"]
