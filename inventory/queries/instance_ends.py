# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""When instances have gone, as far as the database knows."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from inventory.rows import select_in
from inventory.tables import allocations, instances


class InstanceEnds(NamedTuple):
    """Which of some instances are there or claimed, and when others were deleted, in UTC.

    Of all others nothing is known any more. uuids are in lower case.
    """

    there: frozenset[str]
    deleted_at: dict[str, datetime]


def instance_ends(connection: sa.Connection, uuids: Collection[str]) -> InstanceEnds:
    """Return what has become of instances; rows of deleted ones are kept for a day."""
    c = instances.c
    query = sa.select(c.uuid, c.deleted, c.deleted_at)
    rows = select_in(connection, query, c.uuid, uuids)
    there = {row.uuid.lower() for row in rows if not row.deleted}
    claims = sa.select(allocations.c.instance_uuid.label("uuid"))
    there |= {
        row.uuid.lower()
        for row in select_in(connection, claims, allocations.c.instance_uuid, uuids)
    }
    deleted_at: dict[str, datetime] = {}
    for row in rows:
        uuid = row.uuid.lower()
        if uuid not in there and row.deleted_at is not None:
            deleted_at[uuid] = max(row.deleted_at, deleted_at.get(uuid, row.deleted_at))
    return InstanceEnds(frozenset(there), deleted_at)
