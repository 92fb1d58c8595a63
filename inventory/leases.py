# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Leases: of several processes that could do the same work, one does it at a time.

The holder of a lease renews it long before it expires. A holder that cannot has to stop its work
by itself, which it knows from its own clock: the lease ends for all others on the database's.
"""

from datetime import timedelta

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.dialects import current_time
from inventory.engine import Database
from inventory.tables import leases as table


def hold(database: Database, name: str, owner: str, seconds: float) -> str:
    """Take or renew a lease for these seconds; return its owner, who may be another.

    Raises DatabaseUnavailable.
    """
    try:
        return database.write(lambda each: _hold(each, name, owner, seconds))
    # Another process has taken it for the first time at this moment.
    except DBDuplicateEntry:
        return database.write(lambda each: _hold(each, name, owner, seconds))


def release(database: Database, name: str, owner: str) -> None:
    """Give up a lease if this owner has it, so that another need not wait for its end."""
    own = sa.and_(table.c.name == name, table.c.owner == owner)
    database.write(lambda connection: connection.execute(sa.delete(table).where(own)))


def listed(connection: sa.Connection) -> dict[str, tuple[str, float]]:
    """Return by name the owner of each lease, and for how many more seconds, which may be < 0."""
    now = current_time(connection)
    rows = connection.execute(sa.select(table.c.name, table.c.owner, table.c.expires_at))
    return {row.name: (row.owner, (row.expires_at - now).total_seconds()) for row in rows}


def _hold(connection: sa.Connection, name: str, owner: str, seconds: float) -> str:
    now = current_time(connection)
    values = {"owner": owner, "expires_at": now + timedelta(seconds=seconds)}
    is_free = sa.or_(table.c.owner == owner, table.c.expires_at < now)
    taken = sa.update(table).where(table.c.name == name, is_free).values(**values)
    if connection.execute(taken).rowcount:
        return owner
    found: str | None = connection.scalar(sa.select(table.c.owner).where(table.c.name == name))
    if found is None:
        connection.execute(sa.insert(table).values(name=name, **values))
        return owner
    return found
