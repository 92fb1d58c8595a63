# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of decision_trace: what was decided since a time, and what became of the instances."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from inventory import instances
from inventory.tables import decisions as decision_table
from scheduler.operators.decision_trace import read_trace
from scheduler.operators.simulation.arrival import TraceError
from tests.databases import a_conf, a_node, a_uuid, an_instance, execute, save, serve
from tests.fixtures.keeping import KeepingScheduler, uuids_of

LEASE = 900.0
OLD = a_uuid("there before")


def report(database, *uuids):
    """Write the guests of host h1, as its agent does."""
    found = [an_instance(uuid, root_gb=0) for uuid in uuids]
    database.write(lambda connection: instances.replace(connection, "h1", "h1", found))


def read(database, **kwargs):
    since = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    return database.read(lambda connection: read_trace(connection, since, LEASE, **kwargs))


@pytest.fixture
def cloud(database):
    """Two hosts, one with a guest."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    report(database, OLD)
    return database


@pytest.fixture
def asked(cloud):
    """The cloud after three requests: for two instances, for too much, and for one."""
    with KeepingScheduler(cloud, a_conf()) as scheduler:
        scheduler.ask("one", 2, memory_mb=1024)
        assert scheduler.ask("large", memory_mb=10_000_000) == []
        scheduler.ask("two", memory_mb=2048)
    return cloud


def leaving(arrival):
    """Return after how many seconds instances leave, by uuid."""
    return {uuid: time - arrival.time for uuid, time in arrival.leaves_at.items()}


def test_requests_come_in_their_order_with_the_hosts_before_the_first(asked):
    seen = []
    trace = read(asked, progress=seen.append)
    requested = [arrival.request.instance_uuids for arrival in trace.arrivals]
    assert requested == [uuids_of("one", 2), uuids_of("large"), uuids_of("two")]
    times = [arrival.time for arrival in trace.arrivals]
    assert times == sorted(times)
    assert len({*trace.fingerprints}) == 3
    row, _ = trace.hosts.rows()
    assert {*trace.hosts.instances.on(row)} == {OLD}
    assert (seen, trace.unreadable) == ([3], 0)


def test_instances_that_are_there_or_claimed_stay(asked):
    report(asked, OLD, *uuids_of("one", 1))
    trace = read(asked)
    assert trace.leaves_at == {}
    # The refused one was never there.
    placed = [
        arrival for arrival in trace.arrivals if arrival.request.instance_uuids != uuids_of("large")
    ]
    assert [arrival.leaves_at for arrival in placed] == [{}, {}]


def test_deleted_instances_leave_when_they_were_deleted(asked):
    report(asked, OLD, *uuids_of("two"))
    execute(asked, "DELETE FROM allocations")
    report(asked)
    later = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=100)
    gone = {"time": later, "uuid": uuids_of("two")[0]}
    execute(asked, "UPDATE instances SET deleted_at = :time WHERE uuid = :uuid", **gone)
    trace = read(asked)
    assert trace.leaves_at.keys() == {OLD}
    one, _, two = trace.arrivals
    assert leaving(two) == {uuids_of("two")[0]: pytest.approx(100, abs=5)}
    # Of these nothing is known any more.
    assert leaving(one) == dict.fromkeys(uuids_of("one", 2), pytest.approx(LEASE))


def test_decisions_of_another_release_are_counted_and_left_out(asked):
    (first, *_) = asked.read(lambda c: c.scalars(sa.select(decision_table.c.id)).all())
    execute(asked, "UPDATE decisions SET document = :odd WHERE id = :id", odd=b"odd", id=first)
    trace = read(asked)
    assert (len(trace.arrivals), trace.unreadable) == (2, 1)


def test_without_a_decision_there_is_no_trace(cloud):
    with pytest.raises(TraceError, match="no saved decision since that time whose hosts are known"):
        read(cloud)
