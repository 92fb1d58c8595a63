# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.growth."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from inventory import decisions, instances
from inventory.decisions import DecisionRow, SnapshotBatch
from inventory.queries.growth import read_growth
from tests.databases import a_uuid, an_instance, execute

SMALL, LARGE = (1, 1024, 10240), (8, 16384, 0)
DAY = 86_400


def save(database, name, size=SMALL, ago=3600.0, outcome="placed", instances=1):
    """Save a decision that was made so many seconds ago, about instances "name 0" and so on."""
    row = DecisionRow(
        snapshot_log=name,
        snapshot_number=0,
        ended=time.monotonic() - ago,
        scheduler="s1",
        outcome=outcome,
        milliseconds=1.0,
        conflicts=0,
        document=b"what was decided",
        instance_uuids=[a_uuid(f"{name} {each}") for each in range(instances)],
        **dict(zip(("vcpus", "memory_mb", "disk_mb"), size, strict=True)),
    )
    batch = SnapshotBatch(row.snapshot_log, 0, b"snapshots")
    database.write(lambda connection: decisions.add(connection, [row], [batch]))


def report(database, *names, host="h1"):
    """Write the guests of a host, as its agent does."""
    found = [an_instance(a_uuid(name)) for name in names]
    database.write(lambda connection: instances.replace(connection, host, host, found))


def growth(database, days=7):
    since = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days)
    return database.read(lambda connection: read_growth(connection, since))


def test_without_a_decision_nothing_is_known(database):
    save(database, "old", ago=8 * DAY)
    assert growth(database) is None


def test_what_has_come_and_is_there_counts(database):
    save(database, "two", ago=2 * DAY, instances=3)
    save(database, "large", LARGE)
    save(database, "refused", LARGE, outcome="refused")
    save(database, "rebuilt", (None, None, None))
    save(database, "before", ago=9 * DAY)
    there = ("two 0", "two 1", "large 0", "refused 0", "rebuilt 0", "before 0", "never asked for")
    report(database, *there)
    found = growth(database)
    assert found.come == {SMALL: 2, LARGE: 1}
    assert found.come_days == pytest.approx(2, abs=0.01)
    assert (found.left, found.left_days) == ({}, 1)


def test_what_has_left_counts_if_it_was_there_before(database):
    save(database, "new")
    report(database, "new 0", "old 0", "old 1", "moved")
    report(database)
    report(database, "moved", host="h2")
    found = growth(database)
    # What came in that time and left again is neither.
    assert (found.come, found.left) == ({}, {SMALL: 2})
    execute(database, "UPDATE instances SET deleted_at = '2020-01-01' WHERE deleted <> 0")
    assert growth(database).left == {}


def test_moves_are_no_growth(database):
    save(database, "moved")
    save(database, "new")
    report(database, "moved 0", "new 0")
    now = datetime.now(UTC).replace(tzinfo=None)
    execute(
        database,
        "INSERT INTO migrations (uuid, instance_uuid, migration_type, status, created_at)"
        " VALUES (:id, :uuid, 'resize', 'finished', :now)",
        id=a_uuid("migration"),
        uuid=a_uuid("moved 0"),
        now=now,
    )
    assert growth(database).come == {SMALL: 1}
