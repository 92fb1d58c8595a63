# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.compute_nodes."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import change_marks, compute_nodes
from inventory.dialects import utc_now
from inventory.rows import CHUNK
from inventory.tables import compute_nodes as table
from tests.databases import a_node, a_uuid, save

HOUR = timedelta(hours=1)
OLD = "2001-01-01 00:00:00.000000"


def live(database):
    return database.read(compute_nodes.all_live)


def backdate(database):
    """Let all rows look as if they were written long ago."""
    database.write(lambda c: c.execute(sa.text(f"UPDATE compute_nodes SET updated_at = '{OLD}'")))


def now(database):
    return database.read(lambda c: c.scalar(sa.select(utc_now())))


def test_a_new_node_gets_a_row_with_the_database_s_time(database):
    save(database, a_node("h1", "n1", memory_mb=4096, free_ram_mb=-100))
    (row,) = live(database)
    assert (row.host, row.hypervisor_hostname, row.uuid) == ("h1", "n1", a_uuid("h1 n1"))
    assert (row.memory_mb, row.free_ram_mb, row.generation, row.deleted) == (4096, -100, 1, 0)
    # The one in whole seconds, as Nova has it; the other tells apart what happened within one.
    assert row.created_at == row.updated_at.replace(microsecond=0)
    assert abs(now(database) - row.updated_at) <= timedelta(seconds=5)


def test_every_write_counts_the_generation_and_stamps_the_row(database):
    save(database, a_node(vcpus_used=1))
    backdate(database)
    save(database, a_node(vcpus_used=2))
    save(database, a_node(vcpus_used=2))
    (row,) = live(database)
    assert (row.vcpus_used, row.generation) == (2, 3)
    assert row.updated_at > row.created_at - timedelta(seconds=1)


def test_the_uuid_and_the_names_of_a_row_stay(database):
    save(database, a_node())
    save(database, a_node(uuid=a_uuid("another")))
    assert [row.uuid for row in live(database)] == [a_uuid("h1 h1")]


def test_a_node_without_uuid_gets_one(database):
    save(database, a_node(uuid=None))
    assert len(live(database)[0].uuid) == 36


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        # Unset: the row starts with the initial ratio, and an operator may change it.
        (None, None, 4.0),
        (None, 8.0, 8.0),
        (8.0, None, 8.0),
        (8.0, 1.1, 1.1),
    ],
)
def test_ratios(database, first, then, expected):
    save(database, a_node(cpu_allocation_ratio=first))
    assert live(database)[0].cpu_allocation_ratio == (first or 4.0)
    save(database, a_node(cpu_allocation_ratio=then))
    assert live(database)[0].cpu_allocation_ratio == expected


@pytest.mark.parametrize("none", [None, 0.0])
def test_a_row_that_lost_its_ratios_gets_the_initial_ones(database, none):
    save(database, a_node("h1", cpu_allocation_ratio=8.0), a_node("h2"))
    ratios = dict.fromkeys(("cpu_allocation_ratio", "ram_allocation_ratio"), none)
    database.write(lambda c: c.execute(sa.update(table).values(**ratios)))
    wanted = [a_node("h1", disk_allocation_ratio=1.0), a_node("h2", disk_allocation_ratio=1.0)]
    assert differing(database, *wanted) == ["h1", "h2"]
    save(database, *wanted)
    found = [(row.cpu_allocation_ratio, row.ram_allocation_ratio) for row in live(database)]
    assert found == [(4.0, 1.5), (4.0, 1.5)]
    assert differing(database, *wanted) == []
    # An initial ratio of 0.0 is none, either: nothing that would be written again and again.
    database.write(lambda c: c.execute(sa.update(table).values(**ratios)))
    nothing = {f"initial_{ratio}": 0.0 for ratio in ratios}
    assert differing(database, a_node("h1", **nothing)) == []


def test_a_ratio_that_an_operator_wrote_is_kept(database):
    save(database, a_node())
    database.write(lambda c: c.execute(sa.update(table).values(ram_allocation_ratio=1.1)))
    save(database, a_node())
    assert live(database)[0].ram_allocation_ratio == 1.1
    # Found by its value, too: the column is of double precision.
    query = sa.select(table.c.id).where(table.c.ram_allocation_ratio == 1.1)
    assert database.read(lambda c: c.execute(query).all())


def test_many_nodes_at_once_new_and_old(database):
    some = CHUNK + 10
    save(database, *(a_node(f"h{each}") for each in range(0, some, 2)))
    save(database, *(a_node(f"h{each}", vcpus_used=each) for each in range(some)))
    rows = {row.host: row for row in live(database)}
    assert len(rows) == some
    for each in range(some):
        row = rows[f"h{each}"]
        assert (row.vcpus_used, row.generation) == (each, 1 if each % 2 else 2)
    save(database)
    assert len(live(database)) == some


def test_several_nodes_of_one_host(database):
    save(database, a_node("h1", "n1", vcpus=1), a_node("h1", "n2", vcpus=2))
    save(database, a_node("h1", "n2", vcpus=3))
    found = {row.hypervisor_hostname: row.vcpus for row in live(database)}
    assert found == {"n1": 1, "n2": 3}
    assert len(database.read(lambda c: compute_nodes.of_hosts(c, ["h1", "h9"]))) == 2
    assert database.read(lambda c: compute_nodes.of_hosts(c, [])) == []


def test_deleted_nodes_are_kept_as_dead_rows(database):
    save(database, a_node("h1", "n1"), a_node("h1", "n2"), a_node("h2", "n1"))
    gone = database.write(lambda c: compute_nodes.delete(c, "h1", ["n1", "n9"]))
    assert gone == 1
    assert {(r.host, r.hypervisor_hostname) for r in live(database)} == {("h1", "n2"), ("h2", "n1")}
    everything = database.read(lambda c: change_marks.since(c, now(database) - HOUR).nodes)
    dead = {row.id: row.generation for row in everything if row.generation == 2}
    (row,) = database.read(lambda c: compute_nodes.by_ids(c, dead))
    assert (row.deleted, row.hypervisor_hostname) == (row.id, "n1")
    assert row.deleted_at is not None
    assert database.write(lambda c: compute_nodes.delete(c, "h1", ["n1"])) == 0


def test_a_deleted_node_that_is_back_gets_its_row_again(database):
    save(database, a_node())
    (before,) = live(database)
    database.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    save(database, a_node(vcpus=8))
    (row,) = live(database)
    assert (row.id, row.vcpus, row.generation, row.deleted_at) == (before.id, 8, 3, None)


def test_a_deleted_node_of_the_same_name_and_another_uuid_is_another_node(database):
    save(database, a_node())
    database.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    save(database, a_node(uuid=a_uuid("another")))
    (row,) = live(database)
    assert (row.uuid, row.generation) == (a_uuid("another"), 1)


def test_written_since_tells_what_to_read_again(database):
    save(database, a_node("h1"), a_node("h2"))
    backdate(database)
    assert database.read(lambda c: change_marks.since(c, now(database) - HOUR).nodes) == []
    save(database, a_node("h2"))
    (row,) = database.read(lambda c: change_marks.since(c, now(database) - HOUR).nodes)
    assert row.generation == 2


def test_claiming_finds_the_uuid_and_the_host(database):
    save(database, a_node("h1", "n1"), a_node("h1", "n2"), a_node("h2", "n3"))
    database.write(lambda c: compute_nodes.delete(c, "h2", ["n3"]))
    found = database.read(lambda c: compute_nodes.of_host_or_uuid(c, "h1", a_uuid("h2 n3")))
    assert {row.hypervisor_hostname for row in found} == {"n1", "n2", "n3"}
    assert database.read(lambda c: compute_nodes.of_host_or_uuid(c, "h9", None)) == []


def marks(database, *hosts):
    return database.read(lambda c: compute_nodes.row_versions(c, hosts))


def test_marks_tell_the_state_of_rows(database):
    save(database, a_node("h1", "n1"), a_node("h1", "n2"), a_node("h2"), a_node("h3"))
    save(database, a_node("h1", "n2", vcpus=8))
    database.write(lambda c: compute_nodes.delete(c, "h2", ["h2"]))
    found = marks(database, "h1", "h2")
    assert found.keys() == {("h1", "n1"), ("h1", "n2")}
    assert [found["h1", node].generation for node in ("n1", "n2")] == [1, 2]
    assert found["h1", "n1"].uuid == a_uuid("h1 n1")
    assert {mark.id for mark in found.values()} == {row.id for row in live(database)[:2]}
    assert all(timedelta(0) <= mark.age < HOUR for mark in found.values())
    assert marks(database) == {}
    backdate(database)
    assert all(mark.age > 1000 * HOUR for mark in marks(database, "h1").values())


def test_a_row_that_nobody_stamped_is_as_old_as_can_be(database):
    save(database, a_node())
    database.write(lambda c: c.execute(sa.update(table).values(updated_at=None)))
    assert timedelta(0) <= marks(database, "h1")["h1", "h1"].age < HOUR
    database.write(lambda c: c.execute(sa.update(table).values(created_at=None)))
    assert marks(database, "h1")["h1", "h1"].age > 1000 * HOUR


def test_marks_of_very_many_hosts(database):
    names = [f"h{each}" for each in range(CHUNK + 10)]
    save(database, *(a_node(name) for name in names))
    assert {host for host, _ in marks(database, *names)} == set(names)


def differing(database, *nodes):
    return [node["host"] for node in database.read(lambda c: compute_nodes.changed(c, nodes))]


@pytest.mark.parametrize(
    "change",
    [
        {"vcpus_used": 1},
        {"free_ram_mb": -1},
        {"disk_available_least": 0},
        {"stats": "{}"},
        {"host_ip": "192.0.2.2"},
        {"service_id": 7},
        {"numa_topology": "{}"},
        {"cpu_allocation_ratio": 1.1},
    ],
)
def test_differing_finds_what_save_would_change(database, change):
    save(database, a_node("h1"), a_node("h2"))
    assert differing(database, a_node("h1"), a_node("h2")) == []
    assert differing(database, a_node("h1", **change), a_node("h2"), a_node("h3")) == ["h1", "h3"]
    save(database, a_node("h1", **change))
    assert differing(database, a_node("h1", **change)) == []


def test_differing_leaves_alone_what_save_does(database):
    save(database, a_node("h1"))
    database.write(lambda c: c.execute(sa.update(table).values(ram_allocation_ratio=1.1)))
    # The row keeps its uuid, and a ratio that the options leave open.
    assert differing(database, a_node("h1", uuid=a_uuid("another"))) == []
    assert differing(database, a_node("h1", initial_ram_allocation_ratio=9.0)) == []
    assert differing(database, a_node("h1", ram_allocation_ratio=1.2)) == ["h1"]


def test_a_dead_row_differs(database):
    save(database, a_node("h1"))
    database.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    assert differing(database, a_node("h1")) == ["h1"]


def test_touched_rows_count_as_written(database):
    save(database, a_node("h1"), a_node("h2"), a_node("h3"))
    database.write(lambda c: compute_nodes.delete(c, "h3", ["h3"]))
    backdate(database)
    ids = {row.host: row.id for row in database.read(lambda c: c.execute(sa.select(table)).all())}
    database.write(lambda c: compute_nodes.touch(c, [ids["h1"], ids["h3"]]))
    rows = {row.host: row for row in live(database)}
    assert (rows["h1"].generation, rows["h2"].generation) == (2, 1)
    assert rows["h1"].updated_at > rows["h2"].updated_at
    recent = database.read(lambda c: change_marks.since(c, now(database) - HOUR).nodes)
    assert [row.id for row in recent] == [ids["h1"]]


def test_with_uuids_finds_dead_rows_too(database):
    names = [f"h{each}" for each in range(CHUNK + 10)]
    save(database, *(a_node(name) for name in names))
    database.write(lambda c: compute_nodes.delete(c, "h0", ["h0"]))
    uuids = [a_uuid(f"{name} {name}") for name in names[::-1]]
    found = database.read(lambda c: compute_nodes.with_uuids(c, uuids))
    assert {row.host for row in found} == set(names)
    assert {row.host for row in found if row.deleted} == {"h0"}
    assert database.read(lambda c: compute_nodes.with_uuids(c, [a_uuid("nobody")])) == []


def test_one_of_several_nodes_of_a_host_comes_back(database):
    save(database, *(a_node("h1", f"n{each}") for each in range(3)))
    database.write(lambda c: compute_nodes.delete(c, "h1", ["n1"]))
    save(database, a_node("h1", "n1"))
    assert {row.hypervisor_hostname for row in live(database)} == {"n0", "n1", "n2"}


def test_a_dead_row_stays_so_while_another_one_has_its_name(database):
    save(database, a_node("h1", "n1"))
    database.write(lambda c: compute_nodes.delete(c, "h1", ["n1"]))
    save(database, a_node("h1", "n1", uuid=a_uuid("another")))
    save(database, a_node("h1", "n1"), a_node("h1", "n2"))
    found = {row.hypervisor_hostname: row.uuid for row in live(database)}
    assert found == {"n1": a_uuid("another"), "n2": a_uuid("h1 n2")}


def test_long_documents_are_kept_whole(database):
    # Nova's columns end at 64 KB: some thirteen hundred projects in stats.
    text = "x" * 200_000
    save(database, a_node(stats=text, numa_topology=text, pci_stats=text))
    (row,) = live(database)
    assert row.stats == row.numa_topology == row.pci_stats == text
