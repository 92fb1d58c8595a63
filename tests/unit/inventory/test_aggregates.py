# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.aggregates on SQLite."""

from inventory import aggregates
from tests.databases import execute, migrated


def test_what_is_left_of_an_aggregate_that_was_deleted_by_hand_does_not_count(tmp_path):
    database = migrated(tmp_path)
    for name in ("gone", "here"):
        database.write(lambda c, name=name: aggregates.create(c, name, ["h1"], {"of": name}))
    execute(database, "DELETE FROM aggregates WHERE name = 'gone'")
    (only,) = database.read(aggregates.everything)
    assert (only.name, only.hosts, only.metadata) == ("here", ["h1"], {"of": "here"})
    database.close()
