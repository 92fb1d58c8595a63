# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.places that look at one database only."""

from contextlib import closing

import sqlalchemy as sa

from inventory.claims.places import FreePlaces
from inventory.claims.types import ClaimRequest
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from tests.fixtures import agent


def test_free_places_are_found_by_an_index_not_among_all_claims(tmp_path):
    """Each round of claims asks for them, and there is a claim for every instance."""
    plan = []

    def explain(_connection, cursor, statement, parameters, *_):
        if "allocations" in statement:
            plan.extend(cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())

    with closing(agent.database(agent.options(tmp_path))) as database:
        new, request = NewReservation("r", "p1", (1, 1, 1)), ClaimRequest(None, "", [], 0)
        database.write(lambda each: reservation_operations.create(each, new, request))
        sa.event.listen(database.engine, "before_cursor_execute", explain)
        database.read(lambda connection: FreePlaces.read(connection, {"p1"}))
    steps = [row[-1] for row in plan if "allocations" in row[-1]]
    assert steps == [
        "SEARCH allocations USING INDEX ix_allocations_reservation_uuid (reservation_uuid=?)",
        "SEARCH allocations USING INDEX ix_allocations_next_reservation_uuid"
        " (next_reservation_uuid=?)",
    ]
