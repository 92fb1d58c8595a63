# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of shadows: what other configurations would have decided, one row for each shadow."""

from typing import Any

import sqlalchemy as sa

from inventory.dialects import current_time
from inventory.tables import shadow_reports as table

# Of older shadows the rows are deleted.
KEPT = 10


def begin(connection: sa.Connection, scheduler: str, config: str) -> int:
    """Add the row of a new shadow, by the host of its scheduler and its file; return its id."""
    now = current_time(connection)
    row = {"scheduler": scheduler, "config": config, "began_at": now, "written_at": now}
    found = connection.execute(sa.insert(table).values(**row, document="{}"))
    assert found.inserted_primary_key is not None
    number: int = found.inserted_primary_key[0]
    kept = sa.select(table.c.id).order_by(table.c.id.desc()).limit(KEPT)
    ids = connection.scalars(kept).all()
    connection.execute(sa.delete(table).where(table.c.id < min(ids)))
    return number


def write(connection: sa.Connection, number: int, document: str) -> None:
    """Write what a shadow has found so far, as JSON."""
    now = current_time(connection)
    row = sa.update(table).where(table.c.id == number)
    connection.execute(row.values(document=document, written_at=now))


def listed(connection: sa.Connection) -> list[sa.Row[Any]]:
    """Return the rows of shadows, the newest first; times are in UTC."""
    return [*connection.execute(sa.select(table).order_by(table.c.id.desc())).all()]
