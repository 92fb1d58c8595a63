# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reservations: N places of a size that are held for a project, until a day or until deleted.

A reservation is its row; its places are rows of allocations, see inventory.claims.places.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from inventory.claims.types import RESERVED, WAITING
from inventory.dialects import utc_moment
from inventory.errors import NotFound, nearest
from inventory.tables import allocations
from inventory.tables import reservations as table

HELD, ENDED = "held", "ended"
_TIME = "%Y-%m-%d %H:%M:%S"


def projects(connection: sa.Connection) -> frozenset[str]:
    """Return the projects with reservations."""
    return frozenset(connection.scalars(sa.select(table.c.project_id).distinct()))


def rows(connection: sa.Connection) -> Sequence[sa.Row[Any]]:
    """Return all reservations by their names."""
    return connection.execute(sa.select(table).order_by(table.c.name, table.c.id)).all()


def find(found: Sequence[sa.Row[Any]], text: str) -> sa.Row[Any]:
    """Return the reservation of this name or uuid; raises NotFound."""
    text = text.strip()
    for row in found:
        if text in (row.name, row.uuid):
            return row
    hint = nearest(text, (row.name for row in found), "see 'reservation list'")
    raise NotFound(f"there is no reservation {text!r}; {hint}")


def listed(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return the reservations, and how many of their places are free and taken."""
    now = connection.execute(sa.select(utc_moment())).scalar_one()
    c = allocations.c
    query = sa.select(c.reservation_uuid, c.state, sa.func.count())
    query = query.where(c.reservation_uuid.is_not(None)).group_by(c.reservation_uuid, c.state)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for uuid, state, number in connection.execute(query):
        counts[uuid][state] = int(number)
    return [_listed(row, counts[row.uuid], now) for row in rows(connection)]


def show(connection: sa.Connection, text: str) -> dict[str, Any]:
    """Return the details of a reservation with its places; raises NotFound."""
    uuid = find(rows(connection), text).uuid
    (found,) = (each for each in listed(connection) if each["id"] == uuid)
    places = places_of(connection, [uuid])
    return found | {
        "places": [
            {
                "id": each.instance_uuid,
                "host": each.host,
                "node": each.node,
                "state": each.state,
                "taken_by": each.taken_by,
            }
            for each in places
        ]
    }


def places_of(connection: sa.Connection, uuids: Sequence[str]) -> Sequence[sa.Row[Any]]:
    """Return the places of reservations by their hosts."""
    c = allocations.c
    query = sa.select(allocations).where(c.reservation_uuid.in_(uuids))
    return connection.execute(query.order_by(c.host, c.node, c.id)).all()


def _listed(row: sa.Row[Any], counts: dict[str, int], now: datetime) -> dict[str, Any]:
    ended = row.ends_at is not None and row.ends_at <= now
    return {
        "id": row.uuid,
        "name": row.name,
        "project": row.project_id,
        "state": ENDED if ended else HELD,
        "flavor": row.flavor_name,
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mb,
        "disk_mb": row.disk_mb,
        "number": row.number,
        "free": 0 if ended else counts.get(RESERVED, 0),
        "taken": 0 if ended else counts.get(WAITING, 0),
        "availability_zone": row.availability_zone,
        "spread": row.spread,
        "until": None if row.ends_at is None else format(row.ends_at, _TIME),
        "created_at": format(row.created_at, _TIME),
    }
