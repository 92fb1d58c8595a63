# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims page by page, how many there are, and how often claims were lost."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.claims.types import CONFIRMED, COUNTED
from inventory.dialects import current_time
from inventory.rows import where_given
from inventory.tables import allocations, decisions

_COLUMNS = (
    *("instance_uuid", "state", "host", "node", "vcpus", "memory_mb", "disk_mb"),
    *("flavor_name", "project_id", "request_id", "created_at", "expires_at"),
)
GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class ClaimFilter:
    """Which claims to find: those of a host, of an instance, with confirmed ones or without."""

    host: str | None = None
    instance_uuid: str | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """How many claims there are by state, and the ages in seconds of those that wait.

    overdue are unconfirmed ones whose lease has ended; oldest is the age of the oldest one.
    """

    states: dict[str, int]
    overdue: int
    oldest: float | None


def search(connection: sa.Connection, wanted: ClaimFilter, start: int, limit: int) -> list[Any]:
    """Return some of the claims, the oldest first, with their ages and whether they are overdue."""
    c = allocations.c
    now = current_time(connection)
    query = sa.select(*(c[name] for name in _COLUMNS)).order_by(c.created_at, c.id)
    query = where_given(query, (c.host, wanted.host), (c.instance_uuid, wanted.instance_uuid))
    if not wanted.confirmed:
        query = query.where(c.state != CONFIRMED)
    return [
        {
            **row,
            "age": _seconds(now, row["created_at"]),
            "overdue": row["expires_at"] is not None and row["expires_at"] <= now,
        }
        for row in connection.execute(query.offset(start).limit(limit)).mappings()
    ]


def counts(connection: sa.Connection) -> ClaimCounts:
    """Return how many claims there are."""
    c = allocations.c
    now = current_time(connection)
    of_states = sa.select(c.state, sa.func.count()).group_by(c.state)
    waits = c.state.in_(COUNTED)
    late = sa.select(sa.func.count()).where(waits, c.expires_at <= now)
    first = connection.scalar(sa.select(sa.func.min(c.created_at)).where(waits))
    return ClaimCounts(
        {state: int(number) for state, number in connection.execute(of_states)},
        int(connection.scalar(late) or 0),
        _seconds(now, first),
    )


def lost_claims(connection: sa.Connection, age: timedelta) -> list[dict[str, Any]]:
    """Return for each scheduler how many decisions it has saved lately, and what it has lost.

    conflicted are those that lost claims, conflicts the claims, given_up those that lost them all.
    """
    c = decisions.c
    since = current_time(connection) - age
    sums = {
        "decisions": sa.func.count(),
        "conflicted": sa.func.sum(sa.case((c.conflicts > 0, 1), else_=0)),
        "conflicts": sa.func.sum(c.conflicts),
        "given_up": sa.func.sum(sa.case((c.outcome == GIVEN_UP, 1), else_=0)),
    }
    query = sa.select(c.scheduler, *(each.label(name) for name, each in sums.items()))
    query = query.where(c.decided_at >= since).group_by(c.scheduler).order_by(c.scheduler)
    return [
        {"scheduler": row["scheduler"], **{name: int(row[name] or 0) for name in sums}}
        for row in connection.execute(query).mappings()
    ]


def _seconds(now: datetime, moment: datetime | None) -> float | None:
    return None if moment is None else round((now - moment).total_seconds(), 1)
