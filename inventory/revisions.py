# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers that say whether a rarely written table has changed."""

from datetime import datetime

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.tables import revisions, utc_moment

SERVICES = "services"
AGGREGATES = "aggregates"


def current(connection: sa.Connection) -> dict[str, int]:
    """Return {name: revision}; a table that was never written is absent."""
    return current_and_now(connection)[0]


# The clock's row is there whatever has been written.
_CLOCK = sa.select(utc_moment().label("now")).subquery()
_CURRENT = sa.select(_CLOCK.c.now, revisions).select_from(_CLOCK.outerjoin(revisions, sa.true()))


def current_and_now(connection: sa.Connection) -> tuple[dict[str, int], datetime]:
    """Return {name: revision} and the database's time, which is one question to it."""
    rows = connection.execute(_CURRENT).all()
    return {row.name: row.revision for row in rows if row.name is not None}, rows[0].now


def lock(connection: sa.Connection, name: str) -> None:
    """Let nobody else count changes of the named table until the transaction ends.

    It only keeps to the order in which rows are locked: a cluster does not replicate it.
    """
    query = sa.select(revisions.c.revision).where(revisions.c.name == name)
    connection.execute(query.with_for_update())


def advance(connection: sa.Connection, name: str) -> None:
    """Count one more change of the named table, in the transaction that makes it."""
    statement = (
        sa.update(revisions)
        .where(revisions.c.name == name)
        .values(revision=revisions.c.revision + 1)
    )
    if not connection.execute(statement).rowcount:
        try:
            connection.execute(sa.insert(revisions).values(name=name, revision=1))
        # Somebody else has counted the first one meanwhile.
        except DBDuplicateEntry:
            connection.execute(statement)
