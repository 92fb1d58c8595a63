# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.requested_sizes."""

import time
from datetime import timedelta

import pytest

from inventory import decisions, instances
from inventory.decisions import DecisionRow, SnapshotBatch
from inventory.queries import requested_sizes
from inventory.queries.requested_sizes import INTERVAL
from tests.databases import a_uuid, an_instance, execute

HALF_LIFE = 7200
SMALL, LARGE = (1, 2048, 10240), (16, 65536, 0)


def save(database, size, ago, instances=1, outcome="placed"):
    """Save a decision that was made so many seconds ago."""
    name = f"{size} {ago} {instances} {outcome}"
    vcpus, memory_mb, disk_mb = size if size else (None, None, None)
    row = DecisionRow(
        snapshot_log=name[:64],
        snapshot_number=0,
        ended=time.monotonic() - ago,
        scheduler="s1",
        outcome=outcome,
        milliseconds=1.0,
        conflicts=0,
        document=b"what was decided",
        instance_uuids=[a_uuid(f"{name} {each}") for each in range(instances)],
        vcpus=vcpus,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
    )
    batch = SnapshotBatch(row.snapshot_log, 0, b"snapshots")
    database.write(lambda connection: decisions.add(connection, [row], [batch]))


def requested(database, half_life=HALF_LIFE):
    def work(connection):
        until = requested_sizes.counted_until(connection)
        return requested_sizes.requested(connection, until, half_life)

    return database.read(work)


def test_instances_count_by_their_size_refused_ones_too(database):
    save(database, SMALL, 1000, instances=3)
    save(database, SMALL, 1001, outcome="refused")
    save(database, LARGE, 1002)
    # A rebuild takes nothing.
    save(database, None, 1003)
    found = requested(database)
    assert {*found} == {SMALL, LARGE}
    assert found[SMALL] == pytest.approx(4 * found[LARGE])


def test_a_request_counts_half_as_much_after_a_half_life(database):
    for number, age in enumerate((0, HALF_LIFE, 2 * HALF_LIFE)):
        save(database, (number + 1, 1, 1), age + 2 * INTERVAL)
    # Longer ago than anything that is asked for.
    save(database, (9, 9, 9), 8 * HALF_LIFE)
    found = requested(database)
    assert {*found} == {(1, 1, 1), (2, 1, 1), (3, 1, 1)}
    assert found[1, 1, 1] == pytest.approx(2 * found[2, 1, 1])
    assert found[1, 1, 1] == pytest.approx(4 * found[3, 1, 1])


def test_all_who_count_within_some_minutes_find_the_same(database):
    save(database, SMALL, 3600)
    until = database.read(requested_sizes.counted_until)
    assert (until.minute % 10, until.second, until.microsecond) == (0, 0, 0)
    # What may not be saved yet does not count.
    save(database, LARGE, 0)
    later = until + timedelta(seconds=INTERVAL)
    counts = [
        database.read(lambda c, at=at: requested_sizes.requested(c, at, HALF_LIFE))
        for at in (until, until, later)
    ]
    assert counts[0] == counts[1]
    assert {*counts[0]} == {SMALL}
    assert {*counts[2]} >= {SMALL}


def test_nothing_was_asked_for_yet(database):
    assert requested(database) == {}
    assert database.read(requested_sizes.present) == {}


def test_instances_that_are_there_count_by_what_they_take(database):
    sizes = [
        {"vcpus": 1, "memory_mb": 2048, "root_gb": 10},
        {"vcpus": 1, "memory_mb": 2048, "root_gb": 4, "ephemeral_gb": 6},
        {"vcpus": 2, "memory_mb": 4096, "root_gb": 0, "swap_mb": 512},
        {"vcpus": 8, "memory_mb": 4096, "root_gb": 0},
    ]
    rows = [an_instance(a_uuid(f"i{number}"), **size) for number, size in enumerate(sizes)]
    database.write(lambda connection: instances.replace(connection, "h1", "h1", rows))
    gone = a_uuid("i3")
    execute(database, "UPDATE instances SET deleted = id WHERE uuid = :uuid", uuid=gone)
    expected = {(1, 2048, 10240): 2, (2, 4096, 512): 1}
    assert database.read(requested_sizes.present) == expected
