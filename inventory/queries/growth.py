# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances of each size have come and stayed lately, and how many have left."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from inventory.dialects import current_time
from inventory.instances import KEPT
from inventory.queries.instance_ends import instance_ends
from inventory.queries.requested_sizes import SIZE_COLUMNS, Size
from inventory.tables import decision_instances, decisions, instances, migrations

_DAY = timedelta(days=1)
_PLACED = "placed"


@dataclass(frozen=True, slots=True)
class Growth:
    """Numbers of instances by size, and of how many days these are.

    come are those that were placed in that time and are there or claimed; what came and left again
    is in neither. left are those that were there before.
    """

    come: Mapping[Size, int]
    come_days: float
    left: Mapping[Size, int]
    left_days: float


def read_growth(connection: sa.Connection, since: datetime) -> Growth | None:
    """Return the growth since a time in UTC, None where no decision of that time is saved.

    Instances that have moved since count as if they had always been there.
    """
    now = current_time(connection)
    c = decisions.c
    first = connection.scalar(sa.select(sa.func.min(c.decided_at)).where(c.decided_at >= since))
    if first is None:
        return None
    sizes = _placed(connection, since)
    for uuid in connection.scalars(
        sa.select(migrations.c.instance_uuid).where(migrations.c.created_at >= since)
    ):
        sizes.pop(uuid.lower(), None)
    ends = instance_ends(connection, sizes)
    come = Counter(size for uuid, size in sizes.items() if uuid in ends.there)
    left = _left(connection, now - KEPT)
    gone = instance_ends(connection, left).deleted_at
    return Growth(
        come=come,
        come_days=(now - first) / _DAY,
        left=Counter(size for uuid, size in left.items() if uuid in gone and uuid not in sizes),
        left_days=KEPT / _DAY,
    )


def _placed(connection: sa.Connection, since: datetime) -> dict[str, Size]:
    """Return the sizes of instances that were placed since, by uuid in lower case."""
    c, of = decisions.c, decision_instances.c
    query = (
        sa.select(of.instance_uuid, c.vcpus, c.memory_mb, c.disk_mb)
        .join(decisions, c.id == of.decision_id)
        .where(c.decided_at >= since, c.outcome == _PLACED, c.vcpus.is_not(None))
        .order_by(c.id)
    )
    return {
        row.instance_uuid.lower(): (int(row.vcpus), int(row.memory_mb), int(row.disk_mb))
        for row in connection.execute(query)
    }


def _left(connection: sa.Connection, since: datetime) -> dict[str, Size]:
    """Return the sizes of instances that a row was deleted of since, by uuid in lower case."""
    c = instances.c
    query = sa.select(c.uuid, *SIZE_COLUMNS).where(c.deleted != 0, c.deleted_at >= since)
    return {uuid.lower(): (*size,) for uuid, *size in connection.execute(query)}
