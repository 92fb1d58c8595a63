# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of what pages ask: inventory.queries.fleet, decision_search and claim_search."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import aggregates
from inventory.dialects import utc_moment
from inventory.operations import service_operations
from inventory.queries import claim_search, decision_search
from inventory.queries.claim_search import ClaimFilter, counts, lost_claims
from inventory.queries.decision_search import Wanted, flavor_names, flavors_of_sizes
from inventory.queries.fleet import read_fleet
from inventory.tables import allocations, instances
from tests.contract.database.test_decisions import a_decision, keep
from tests.databases import a_node, a_uuid, an_instance, save, serve

LIMIT = 60.0
SMALL, LARGE = (1, 1024, 10_240), (8, 65536, 163_840)


def sized(number, size, **changes):
    """Return a decision about instances of a size."""
    names = ("vcpus", "memory_mb", "disk_mb")
    return a_decision(number, **dict(zip(names, size, strict=True)), **changes)


@pytest.fixture
def decided(database):
    """Four decisions, the first of which is the oldest."""
    keep(
        database,
        sized(1, SMALL, ago=40.0, project_id="p1"),
        sized(2, LARGE, ago=30.0, project_id="p2", outcome="refused"),
        sized(3, SMALL, ago=20.0, project_id="p1", conflicts=2, outcome="given_up"),
        sized(4, LARGE, ago=10.0, project_id="p1", conflicts=1, scheduler="s2"),
    )
    return database


def found(database, limit=10, **wanted):
    """Return the numbers of the snapshots of the decisions that are found."""
    rows = database.read(lambda c: decision_search.search(c, Wanted(**wanted), limit))
    return [row.snapshot_number for row in rows]


def test_decisions_are_found_the_newest_first(decided):
    assert found(decided) == [4, 3, 2, 1]
    assert found(decided, limit=2) == [4, 3]
    assert found(decided, outcome="refused") == [2]
    assert found(decided, project_id="p1") == [4, 3, 1]
    assert found(decided, request_id="req-p1-1-3") == [3]
    assert found(decided, sizes=[SMALL]) == [3, 1]
    assert found(decided, sizes=[]) == []
    assert found(decided, conflicts=True) == [4, 3]
    assert found(decided, project_id="p1", sizes=[LARGE]) == [4]


def test_older_decisions_follow_one_even_if_that_is_gone(decided):
    rows = decided.read(lambda c: decision_search.search(c, Wanted(), 10))
    third, first = rows[1].id, rows[3].id
    assert found(decided, before=third) == [2, 1]
    assert found(decided, before=first) == []
    assert found(decided, before=third + 1_000_000) == [4, 3, 2, 1]


def test_lost_claims_are_counted_by_scheduler(decided):
    one, two = decided.read(lambda c: lost_claims(c, timedelta(hours=1)))
    assert one == {
        "scheduler": "s1",
        "decisions": 3,
        "conflicted": 1,
        "conflicts": 2,
        "given_up": 1,
    }
    assert (two["scheduler"], two["conflicts"]) == ("s2", 1)
    assert decided.read(lambda c: lost_claims(c, timedelta(seconds=15))) == [two]


def test_flavors_are_known_by_instances(database):
    guest = an_instance(a_uuid("g"), flavor_name="m1.small", host="h1", node="h1")
    database.write(lambda c: c.execute(sa.insert(instances).values(**guest)))
    assert database.read(lambda c: decision_search.sizes_of_flavor(c, "m1.small")) == {SMALL}
    assert database.read(lambda c: decision_search.sizes_of_flavor(c, "m1.large")) == set()
    assert database.read(flavor_names) == {"m1.small"}
    assert database.read(flavors_of_sizes) == {SMALL: ["m1.small"]}


def claim(connection, name, state, age, lease):
    """Write a claim of this age and lease in seconds."""
    now = connection.execute(sa.select(utc_moment())).scalar_one()
    row = {
        "instance_uuid": a_uuid(name),
        "slot": 0,
        "state": state,
        "compute_node_id": 1,
        "host": "h1",
        "node": "h1",
        "vcpus": 1,
        "memory_mb": 1024,
        "disk_mb": 10_240,
        "root_gb": 10,
        "ephemeral_gb": 0,
        "created_at": now - timedelta(seconds=age),
        "expires_at": now + timedelta(seconds=lease) if lease is not None else None,
    }
    connection.execute(sa.insert(allocations).values(**row))


def test_claims_have_ages_and_leases(database):
    def write(connection):
        claim(connection, "new", "pending", 5, 100)
        claim(connection, "old", "pending", 50, -5)
        claim(connection, "there", "confirmed", 500, None)

    database.write(write)
    rows = database.read(lambda c: claim_search.search(c, ClaimFilter(), 0, 10))
    assert [(each["instance_uuid"], each["overdue"]) for each in rows] == [
        (a_uuid("old"), True),
        (a_uuid("new"), False),
    ]
    assert 50 <= rows[0]["age"] < 110
    known = database.read(counts)
    assert (known.states, known.overdue) == ({"pending": 2, "confirmed": 1}, 1)
    assert 50 <= known.oldest < 110

    def names(wanted, start=0, limit=10):
        found = database.read(lambda c: claim_search.search(c, wanted, start, limit))
        return [each["instance_uuid"] for each in found]

    assert names(ClaimFilter(confirmed=True))[0] == a_uuid("there")
    assert names(ClaimFilter(instance_uuid=a_uuid("new"))) == [a_uuid("new")]
    assert names(ClaimFilter(host="h2")) == []
    assert names(ClaimFilter(), start=1) == [a_uuid("new")]


def test_the_fleet_has_shares_states_zones_and_aggregates(database):
    save(
        database,
        a_node("h1", vcpus_used=16, initial_cpu_allocation_ratio=2.0),
        a_node("h2", vcpus=0, memory_mb_used=65536, initial_ram_allocation_ratio=1.0),
        a_node("h3"),
        a_node("h4"),
    )
    serve(database, "h1", "h2", "h3")
    database.write(lambda c: aggregates.create(c, "east", ["h1"], {"availability_zone": "e"}))
    database.write(lambda c: aggregates.create(c, "ssd", ["h1", "h2"], {}))
    database.write(lambda c: service_operations.disable(c, ["h2"]))
    database.write(lambda c: service_operations.force_down(c, ["h3"]))
    first, second, third, fourth = database.read(lambda c: read_fleet(c, LIMIT, "nova"))
    assert (first.host, first.state, first.zones) == ("h1", "up", ("e",))
    assert (first.aggregates, second.aggregates) == (("east", "ssd"), ("ssd",))
    assert first.shares[0] == 0.5
    assert (second.state, second.zones, second.shares[:2]) == ("disabled", ("nova",), (0.0, 1.0))
    assert second.fullest == 1
    assert (third.state, fourth.state) == ("forced_down", "unserved")
