# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Our aggregates are made those of Nova."""

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import aggregates, revisions
from inventory.aggregates import ZONE, AggregateRecord
from inventory.engine import Database
from inventory.operations.aggregate_mirror import Mirrored, mirror
from inventory.tables import compute_nodes
from tests.databases import a_node, a_uuid, empty, save

HOSTS = ("h1", "h2", "h3")


def an_aggregate(number: int, *hosts: str, name: str = "", **metadata: str) -> AggregateRecord:
    name = name or f"aggregate{number}"
    return AggregateRecord(number, a_uuid(str(number)), name, [*hosts], metadata)


def eligibility(database: Database) -> dict[str, int]:
    """Return how often each host has become eligible for other requests."""
    columns = compute_nodes.c.host, compute_nodes.c.eligibility_revision
    return dict(database.read(lambda each: each.execute(sa.select(*columns)).all()))


def revision(database: Database) -> int:
    return database.read(revisions.current)[0].get(revisions.AGGREGATES, 0)


@pytest.fixture
def fleet(database: Database) -> Database:
    save(database, *(a_node(host) for host in HOSTS))
    return database


def shown(database: Database) -> list[Any]:
    return [
        (each.id, each.uuid, each.name, sorted(each.hosts), each.metadata)
        for each in database.read(aggregates.everything)
    ]


def test_they_are_as_wanted_with_their_numbers(fleet: Database) -> None:
    wanted = [an_aggregate(3, "h1", **{ZONE: "z1"}), an_aggregate(7, "h2", "h3", ssd="true")]
    assert mirror(fleet, wanted) == Mirrored(["aggregate3", "aggregate7"], [])
    assert shown(fleet) == [
        (3, a_uuid("3"), "aggregate3", ["h1"], {ZONE: "z1"}),
        (7, a_uuid("7"), "aggregate7", ["h2", "h3"], {"ssd": "true"}),
    ]


def test_nothing_is_written_when_nothing_differs(fleet: Database) -> None:
    wanted = [an_aggregate(1, "h1", ssd="true")]
    mirror(fleet, wanted)
    before = revision(fleet), eligibility(fleet)
    assert mirror(fleet, wanted) == Mirrored()
    assert (revision(fleet), eligibility(fleet)) == before


def test_a_host_that_joins_is_the_only_one_whose_claims_are_decided_again(fleet: Database) -> None:
    mirror(fleet, [an_aggregate(1, "h1", ssd="true")])
    before = eligibility(fleet)
    mirror(fleet, [an_aggregate(1, "h1", "h2", ssd="true")])
    assert eligibility(fleet) == before | {"h2": before["h2"] + 1}
    mirror(fleet, [an_aggregate(1, "h1", "h2", ssd="false")])
    assert eligibility(fleet) == before | {"h1": before["h1"] + 1, "h2": before["h2"] + 2}


def test_hosts_set_aside_for_a_project_concern_all_hosts(fleet: Database) -> None:
    before = eligibility(fleet)
    mirror(fleet, [an_aggregate(1, "h1", filter_tenant_id="p1")])
    assert eligibility(fleet) == {host: number + 1 for host, number in before.items()}


def test_names_may_be_swapped_and_what_is_gone_is_said(fleet: Database) -> None:
    mirror(fleet, [an_aggregate(1, name="a"), an_aggregate(2, name="b"), an_aggregate(3, "h3")])
    swapped = [an_aggregate(1, name="b"), an_aggregate(2, name="a")]
    assert mirror(fleet, swapped) == Mirrored(["b", "a"], ["aggregate3"])
    assert [row[2] for row in shown(fleet)] == ["b", "a"]


RECORDS = st.dictionaries(
    st.integers(1, 4),
    st.tuples(
        st.sets(st.sampled_from(HOSTS)),
        st.dictionaries(st.sampled_from((ZONE, "ssd")), st.sampled_from(("x", "y"))),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(before=RECORDS, after=RECORDS)
def test_whatever_was_there_becomes_what_is_wanted(
    database: Database, before: Any, after: Any
) -> None:
    empty(database)
    for drawn in (before, after):
        wanted = [an_aggregate(key, *hosts, **more) for key, (hosts, more) in drawn.items()]
        mirror(database, wanted)
    assert shown(database) == [
        (key, a_uuid(str(key)), f"aggregate{key}", sorted(hosts), more)
        for key, (hosts, more) in sorted(after.items())
    ]
