# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What has changed since a moment, in one statement."""

from datetime import timedelta

import sqlalchemy as sa

from inventory import change_marks, compute_nodes, instances, revisions
from inventory.change_marks import RowMark
from inventory.dialects import utc_now
from inventory.tables import compute_nodes as nodes
from tests.databases import a_node, an_instance

HOUR = timedelta(hours=1)


def marks(database):
    """Return what has changed in the last hour."""
    now = database.read(lambda c: c.scalar(sa.select(utc_now())))
    return database.read(lambda c: change_marks.since(c, now - HOUR))


def backdate(database):
    """Let all rows be two hours old."""

    def work(connection):
        now = connection.scalar(sa.select(utc_now()))
        for table in (nodes, instances.table):
            connection.execute(sa.update(table).values(updated_at=now - 2 * HOUR))

    database.write(work)


def test_of_an_empty_database_there_is_nothing_but_its_time(database):
    before = database.read(lambda c: revisions.current(c)[1])
    found = marks(database)
    assert before <= found.now <= database.read(lambda c: revisions.current(c)[1])
    assert found[1:] == ({}, [], False)


def test_nodes_written_lately_have_marks(database):
    database.write(lambda c: compute_nodes.save(c, [a_node("h1"), a_node("h2")]))
    (one, two) = sorted(marks(database).nodes)
    assert (one, two) == (RowMark(one.id, 1, 0), RowMark(two.id, 1, 0))
    backdate(database)
    assert marks(database).nodes == []
    database.write(lambda c: compute_nodes.touch(c, [two.id]))
    assert marks(database).nodes == [RowMark(two.id, 2, 0)]


def test_revisions_are_those_of_all_tables(database):
    for name in ("one", "two", "two"):
        database.write(lambda c, name=name: revisions.advance(c, name))
    assert marks(database).revisions == database.read(revisions.current)[0]


def test_any_instance_that_was_written_shows(database):
    database.write(lambda c: instances.replace(c, "h1", "n1", [an_instance("u1")]))
    assert marks(database).has_instances
    backdate(database)
    assert not marks(database).has_instances
    database.write(lambda c: instances.replace(c, "h1", "n1", []))
    assert marks(database).has_instances
