# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers that say whether a rarely written table has changed."""

import sqlalchemy as sa

from inventory.tables import revisions

SERVICES = "services"
AGGREGATES = "aggregates"


def current(connection: sa.Connection) -> dict[str, int]:
    """Return {name: revision}; a table that was never written is absent."""
    return {row.name: row.revision for row in connection.execute(sa.select(revisions))}


def advance(connection: sa.Connection, name: str) -> None:
    """Count one more change of the named table, in the transaction that makes it."""
    changed = connection.execute(
        sa.update(revisions)
        .where(revisions.c.name == name)
        .values(revision=revisions.c.revision + 1)
    )
    if not changed.rowcount:
        connection.execute(sa.insert(revisions).values(name=name, revision=1))
