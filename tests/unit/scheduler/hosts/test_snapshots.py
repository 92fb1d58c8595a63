# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.snapshots: the table as it was at each decision."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.hosts import snapshots
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.flavor_mix import make_mix
from scheduler.hosts.row_index import MAX_NOTED, MAX_ROWS
from scheduler.hosts.snapshots import COLUMNS, Snapshot, SnapshotLog, restore
from scheduler.objects.instance import Instance
from tests.contract.drawn.drawn_lives import lives
from tests.hosts import a_host, a_table

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def contents(table):
    """Return all that decisions can see of a table, to the very bit."""
    numbers = {name: getattr(table, name).tobytes() for name in NUMBERS}
    objects = {name: [repr(table.get(row, name)) for row in range(table.size)] for name in OBJECTS}
    places = {row: (table.get(row, "host"), table.get(row, "nodename")) for row in table.rows()}
    instances = [
        [(uuid, repr(each)) for uuid, each in table.instances.on(row).items()]
        for row in range(table.size)
    ]
    rest = table.size, len(table), table.time, table.numa_packing, table.present.tolist()
    rest = *rest, table.flavor_mix
    return numbers, objects, dict(sorted(places.items())), instances, rest


@settings(suppress_health_check=SLOW)
@given(lives(), st.integers(2, 5))
def test_each_snapshot_restores_the_table_as_it_was(life, count):
    log, taken = SnapshotLog(), []
    for _ in range(count):
        life.happen()
        taken.append((log.take(life.table), contents(life.table)))
    series = [snapshot for snapshot, _ in taken]
    for number, (_, before) in enumerate(taken):
        assert contents(restore(series[: number + 1])) == before


def a_fleet():
    table = a_table(a_host("h1"), a_host("h2"), a_host("h3"))
    table.set_time(5.0)
    return table


def test_a_further_snapshot_has_what_has_changed_and_no_more():
    table, log = a_fleet(), SnapshotLog()
    first = log.take(table)
    assert (first.log_id, first.number, first.size) == (1, 0, 3)
    assert {*first.columns} == {*COLUMNS}
    assert first.instances == {0: {}, 1: {}, 2: {}}
    table.set(1, "free_ram_mb", 5)
    table.set(1, "cell_uuid", "c1")
    table.set_time(7.0)
    snapshot = log.take(table)
    assert (snapshot.log_id, snapshot.number, snapshot.time) == (1, 1, 7.0)
    assert snapshot.elements == [("free_ram_mb", 1, 5), ("cell_uuid", 1, "c1")]
    assert (snapshot.columns, snapshot.instances, snapshot.instance_changes) == ({}, {}, {})
    assert log.take(table).elements == []


def test_a_further_snapshot_has_the_flavor_mix_if_it_has_changed():
    table, log = a_fleet(), SnapshotLog()
    mix = make_mix({(1, 2048, 0): 1.0})
    table.set_flavor_mix(mix)
    first = log.take(table)
    assert (first.flavor_mix, log.take(table).flavor_mix) == (mix, None)
    table.set_flavor_mix(())
    last = log.take(table)
    assert last.flavor_mix == ()
    assert restore([first]).flavor_mix == mix


def test_a_further_snapshot_has_the_instances_of_rows_that_have_changed():
    table, log = a_fleet(), SnapshotLog()
    instance = Instance("u2")
    table.instances.add(0, "u1", Instance("u1"))
    log.take(table)
    table.instances.add(1, "u2", instance)
    assert log.take(table).instance_changes == {1: {"u2": instance}}
    table.instances.change(1, {"u3": instance}, ["u2"])
    assert log.take(table).instance_changes == {1: {"u2": None, "u3": instance}}
    assert log.take(table).instance_changes == {}


def test_instances_that_come_in_another_order_are_taken_with_all_of_their_row():
    table, log = a_fleet(), SnapshotLog()
    for name in ("u1", "u2"):
        table.instances.add(0, name, Instance(name))
    series = [log.take(table)]
    table.instances.change(0, {}, ["u1"])
    table.instances.add(0, "u1", Instance("u1"))
    series.append(log.take(table))
    assert [*series[1].instances[0]] == ["u2", "u1"]
    assert contents(restore(series)) == contents(table)


def test_with_more_writes_than_their_log_holds_all_columns_are_taken():
    table, log = a_fleet(), SnapshotLog()
    series = [log.take(table)]
    for number in range(MAX_NOTED // 2):
        table.set(number % 2, "free_ram_mb", number)
        table.set(number % 2, "metrics", [number])
    series.append(log.take(table))
    assert {*series[1].columns} == {*COLUMNS}
    last = MAX_NOTED // 2 - 1
    assert [*series[1].columns["free_ram_mb"]] == [last - 1, last, 65536]
    assert [*series[1].columns["metrics"]] == [[last - 1], [last], None]
    table.set(0, "free_ram_mb", 1)
    assert contents(restore(series)) != contents(table)
    series.append(log.take(table))
    assert contents(restore(series)) == contents(table)


def test_a_column_of_which_many_rows_were_written_is_taken_as_a_whole():
    table = a_table(*(a_host(f"h{number}") for number in range(MAX_ROWS + 1)))
    table.set_time(5.0)
    log = SnapshotLog()
    series = [log.take(table)]
    table.write(range(MAX_ROWS + 1), "free_ram_mb", range(MAX_ROWS + 1))
    series.append(log.take(table))
    assert ([*series[1].columns], [*series[1].elements]) == (["free_ram_mb"], [])
    assert contents(restore(series)) == contents(table)


def test_another_log_begins_when_it_is_long_or_on_request(monkeypatch):
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOTS", 3)
    table, log = a_fleet(), SnapshotLog()
    taken = [log.take(table) for _ in range(4)]
    assert [(each.log_id, each.number) for each in taken] == [(1, 0), (1, 1), (1, 2), (2, 0)]
    log.restart()
    log.restart()
    table.remove(0)
    snapshot = log.take(table)
    assert (snapshot.log_id, snapshot.number) == (3, 0)
    assert contents(restore([snapshot])) == contents(table)
    assert log.take(table).number == 1


def test_a_row_without_a_host_stays_one():
    table = a_fleet()
    table.remove(1)
    log = SnapshotLog()
    series = [log.take(table)]
    found = restore(series)
    assert found.present.tolist() == [True, False, True]
    assert found.row_of("h3", "h3") == 2
    row = table.add("h4", "n")
    series.append(log.take(table))
    assert restore(series).row_of("h4", "n") == row == 1


NAMES = ("host", "nodename")


@pytest.mark.parametrize(
    ("series", "complaint"),
    [
        ([], "the log has no snapshots"),
        ([Snapshot(1, 1, 0, 0.0)], "snapshot 0 is missing, the next one is 1"),
        (
            [Snapshot(1, 0, 0, 0.0), Snapshot(1, 2, 0, 0.0)],
            "snapshot 1 is missing, the next one is 2",
        ),
        ([Snapshot(1, 0, 0, 0.0), Snapshot(2, 1, 0, 0.0)], "snapshot 1 is of another log"),
        (
            [Snapshot(1, 0, 1, 0.0), Snapshot(1, 1, 0, 0.0)],
            "snapshot 1 has fewer rows than the one before",
        ),
        ([Snapshot(1, 0, 2, 0.0, columns={"free_ram_mb": [1]})], "zip"),
        (
            [Snapshot(1, 0, 2, 0.0, columns={each: ["h", "h"] for each in NAMES})],
            "two rows are of the same node",
        ),
    ],
)
def test_snapshots_that_do_not_belong_together_are_refused(series, complaint):
    with pytest.raises(ValueError, match=complaint):
        restore(series)


def test_columns_without_changes_are_unset():
    names = {name: ["h"] for name in NAMES}
    found = restore([Snapshot(1, 0, 1, 0.0, columns=names)])
    assert found.get(0, "cell_uuid") is None
    assert found.get(0, "cpu_allocation_ratio") is None
    assert np.isnan(found.last_seen[0])
    assert found.get(0, "free_ram_mb") == 0
