# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.instance_migrations."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import instance_migrations, instances
from inventory.dialects import utc_now
from inventory.instance_states import ENDED, MOVES
from inventory.rows import CHUNK
from tests.databases import an_instance
from tests.records import change_migration, manage, migrate, unmanage

RESIZED = {"vm_state": "resized"}


def under_way(database, *hosts, seen=None):
    return [
        row.id for row in database.read(lambda c: instance_migrations.under_way(c, hosts, seen))
    ]


def mirror(database, *uuids, host="h1"):
    """Write what an agent sees on a host's node."""
    seen = [an_instance(uuid) for uuid in uuids]
    database.write(lambda c: instances.replace(c, host, host, seen))


def before(database, hours):
    return database.read(lambda c: c.scalar(sa.select(utc_now()))) - timedelta(hours=hours)


@pytest.fixture
def moved(database):
    """Return the id of a resize from h1 to h2 that waits to be confirmed."""
    manage(database, "u1", "h2", "h2", **RESIZED)
    return migrate(database, "u1", "h1", "h2", status="finished")


def test_a_migration_is_found_at_both_ends(database, moved):
    assert under_way(database, "h1") == under_way(database, "h2") == [moved]
    assert under_way(database, "h1", "h2") == [moved]
    assert under_way(database, "h3") == []
    assert under_way(database) == []


@pytest.mark.parametrize("status", sorted(ENDED))
def test_what_has_ended_holds_nothing(database, moved, status):
    change_migration(database, moved, status=status)
    assert under_way(database, "h1") == []


@pytest.mark.parametrize(
    "status", ["accepted", "error", "finished", "migrating", "post-migrating", "pre-migrating"]
)
def test_what_has_not_ended_holds_room(database, moved, status):
    change_migration(database, moved, status=status)
    assert under_way(database, "h1") == [moved]


def test_only_moves_between_nodes_or_sizes_count(database, moved):
    for kind in sorted(MOVES):
        change_migration(database, moved, migration_type=kind)
        assert under_way(database, "h1") == [moved]
    change_migration(database, moved, migration_type="rebuild")
    assert under_way(database, "h1") == []


def test_a_deleted_row_is_no_migration(database, moved):
    change_migration(database, moved, deleted=moved)
    assert under_way(database, "h1") == []


def test_an_end_may_be_unknown_so_far(database):
    manage(database, "u1", "h1", "h1", task_state="resize_prep")
    found = migrate(database, "u1", "h1", None)
    assert under_way(database, "h1") == [found]


@pytest.mark.parametrize(
    ("vm_state", "task_state", "holds"),
    [
        ("resized", None, True),
        ("active", "resize_finish", True),
        ("active", "migrating", True),
        ("stopped", "resize_migrating", True),
        ("error", "rebuilding", True),
        ("active", None, False),
        ("stopped", "powering-on", False),
        ("error", None, False),
        ("deleted", None, False),
    ],
)
def test_an_instance_that_rests_holds_nothing(database, vm_state, task_state, holds):
    manage(database, "u1", "h1", "h1", vm_state=vm_state, task_state=task_state)
    found = migrate(database, "u1", "h1", "h2", status="error")
    assert under_way(database, "h2") == ([found] if holds else [])


def test_an_instance_that_is_gone_holds_nothing(database, moved):
    unmanage(database, "u1")
    assert under_way(database, "h1", "h2") == []
    migrate(database, "never there", "h1", "h2")
    assert under_way(database, "h1", "h2") == []


def test_an_instance_that_only_an_agent_knows_is_believed_to_move(database):
    found = migrate(database, "u1", "h1", "h2")
    assert under_way(database, "h2") == []
    mirror(database, "u1")
    assert under_way(database, "h2") == [found]
    mirror(database)
    assert under_way(database, "h2") == []


def test_what_an_agent_saw_does_not_outweigh_a_managed_row(database):
    manage(database, "u1", "h1", "h1")
    migrate(database, "u1", "h1", "h2")
    mirror(database, "u1", host="h2")
    assert under_way(database, "h1", "h2") == []


def test_one_of_several_managed_rows_that_moves_is_enough(database):
    manage(database, "u1", "h1", "h1", **RESIZED)
    manage(database, "u1", "h2", "h2")
    found = migrate(database, "u1", "h1", "h2")
    assert under_way(database, "h1") == [found]


def test_guests_that_are_seen_now_hold_instead_of_those_that_were(database):
    found = migrate(database, "u1", "h1", "h2")
    assert under_way(database, "h2", seen={("h1", "h1"): ["u1"]}) == [found]
    mirror(database, "u1")
    assert under_way(database, "h2", seen={("h1", "h1"): []}) == []
    assert under_way(database, "h2", seen={("h2", "h2"): []}) == [found]


def test_the_newest_comes_first(database):
    for number in range(4):
        manage(database, f"u{number}", "h1", "h1", **RESIZED)
    old = migrate(database, "u0", "h1", "h1", updated_at=before(database, 3))
    new = migrate(database, "u1", "h1", "h1", updated_at=before(database, 1))
    never_changed = {"created_at": before(database, 2), "updated_at": None}
    twins = [migrate(database, f"u{number}", "h1", "h1", **never_changed) for number in (2, 3)]
    assert under_way(database, "h1") == [new, *twins[::-1], old]


def test_of_one_instance_only_the_newest_counts(database, moved):
    newer = migrate(database, "u1", "h1", "h1")
    change_migration(database, moved, updated_at=before(database, 1))
    assert under_way(database, "h1") == [newer]
    # Nor does the old one hold anything at its other end, where the new one is of no matter.
    assert under_way(database, "h2") == []
    change_migration(database, newer, status="failed")
    assert under_way(database, "h1") == under_way(database, "h2") == [moved]


def test_many_instances_move_at_once(database):
    number = CHUNK + 10

    def write(connection):
        rows = [an_instance(f"u{each}") for each in range(number)]
        instances.replace(connection, "h1", "h1", rows)

    database.write(write)
    found = [migrate(database, f"u{each}", "h1", "h2") for each in range(number)]
    assert sorted(under_way(database, "h2")) == found
