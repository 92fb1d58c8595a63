# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.view and of the rows that it reads."""

import pytest

from benchmarks import inventory_rows, view
from benchmarks.figures import FLOOR, OURS, find
from benchmarks.fleet import a_fleet
from scheduler.host_cache.cache import HostCache
from tests.databases import migrated

SIZE = 12
SAME = (
    "host nodename uuid free_ram_mb free_disk_mb vcpus_used num_instances num_io_ops"
    " cpu_info cpu_allocation_ratio total_usable_ram_mb stats supported_instances"
)


@pytest.fixture
def database(tmp_path):
    found = migrated(tmp_path)
    inventory_rows.store(found, SIZE)
    yield found
    found.close()


def test_what_is_stored_is_the_fleet(database):
    fleet = a_fleet(SIZE)
    with HostCache(database).current() as hosts:
        for row in fleet.rows():
            found = hosts.row_of(fleet.get(row, "host"), fleet.get(row, "nodename"))
            for name in SAME.split():
                assert hosts.get(found, name) == fleet.get(row, name), name
            names = [each.name for each in hosts.get(found, "aggregates")]
            assert names == [fleet.get(row, "aggregates")[0].name]
            assert (hosts.get(found, "numa_topology") is None) == (row % 4 != 0)
            traits = [
                {each.flavor_name for each in table.instances.on(at).values()}
                for table, at in ((fleet, row), (hosts, found))
            ]
            assert traits[0] == traits[1]
        assert hosts.served.all()
        assert (hosts.heartbeat_age < 60).all()


@pytest.mark.parametrize(("every", "changed"), [(1, SIZE), (5, 2)])
def test_an_audit_changes_so_many_nodes(database, every, changed):
    kept = HostCache(database)
    with kept.current() as hosts:
        before = hosts.free_ram_mb.copy()
    inventory_rows.audit(database, every)
    with kept.current() as hosts:
        assert (hosts.free_ram_mb != before).sum() == changed
    inventory_rows.age_nodes(database)
    assert (
        database.read(lambda c: view.refresh_queries.read_changes(c, kept._last, WANTED)).nodes
        == []
    )


WANTED = view.refresh_queries.DeltaQuery({})


def test_every_turn_is_a_figure(database):
    turns = {view.FULL: 2, view.NOTHING: 3, view.SOME: 1, view.ALL: 1}
    found = list(view.figures(database, SIZE, turns))
    assert [(each.what, each.who, len(each.turns)) for each in found] == [
        (view.FULL, OURS, 2),
        (view.FULL, FLOOR, 2),
        (view.NOTHING, OURS, 3),
        (view.SOME, OURS, 1),
        (view.ALL, OURS, 1),
        (view.MEMORY, OURS, 1),
    ]
    assert all(least > 0 for each in found for least in each.turns)
    memory = find(found, view.MEMORY, hosts=SIZE)
    assert memory is not None
    assert memory.unit == "kB"
