# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Orders that are carried out once, also where nobody knows whether they were committed.

A connection that is lost during a commit does not say what has become of it, and the transaction is
tried again: it would find its own work done and refuse, as with "there is an aggregate already".
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import sqlalchemy as sa

from inventory.engine import Database
from inventory.tables import idempotency_keys as table
from inventory.tables import utc_now

T = TypeVar("T")
# Nobody tries a transaction again for longer.
_KEPT = timedelta(days=1)


def write_once(database: Database, work: Callable[[sa.Connection], T]) -> T:
    """Return work(connection), committed once; raises as Database.write() does.

    Each attempt leaves a key, by which a later one knows that this one was committed.
    """
    key = str(uuid4())
    results: list[T] = []

    def attempt(connection: sa.Connection) -> T:
        known = sa.select(table.c.key).where(table.c.key == key)
        if results and connection.scalar(known) is not None:
            return results[-1]
        now = connection.scalar(sa.select(utc_now()))
        assert now is not None
        connection.execute(sa.delete(table).where(table.c.created_at < now - _KEPT))
        connection.execute(sa.insert(table).values(key=key, created_at=now))
        results.append(work(connection))
        return results[-1]

    return database.write(attempt)
