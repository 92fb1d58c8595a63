# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reservations: N places of a size that are held for a project, until a day or until deleted.

A reservation is its row; its places are rows of allocations, see inventory.claims.places. One that
starts later has free room from its creation on, or the places of others when these end.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from inventory.claims.types import RESERVED, WAITING
from inventory.dialects import current_time
from inventory.errors import NotFound, nearest
from inventory.rows import select_in
from inventory.tables import allocations, compute_nodes, standbys
from inventory.tables import reservations as table

SCHEDULED, HELD, ENDED = "scheduled", "held", "ended"
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
    now = current_time(connection)
    c = allocations.c
    kinds = c.reservation_uuid, c.next_reservation_uuid, c.state
    query = sa.select(*kinds, sa.func.count()).where(c.reservation_uuid.is_not(None))
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for *uuids, state, number in connection.execute(query.group_by(*kinds)):
        for uuid in uuids:
            counts[uuid][state] += int(number)
    others = Counter(uuid for uuid, _ in _taken_by_others(connection))
    of_place = standbys.c.instance_uuid == c.instance_uuid
    protected = {*connection.scalars(sa.select(c.reservation_uuid).join(standbys, of_place))}
    return [
        _listed(row, counts[row.uuid], others[row.uuid], now) | {"failover": row.uuid in protected}
        for row in rows(connection)
    ]


def taken_by_others(connection: sa.Connection) -> int:
    """Return the number of places that instances of other projects are in."""
    return len(_taken_by_others(connection))


def _taken_by_others(connection: sa.Connection) -> list[tuple[str, str]]:
    """Return the reservation and the place where an instance of another project is in it.

    It was there before the reservation got the place.
    """
    claim = allocations.alias()
    query = (
        sa.select(table.c.uuid, allocations.c.instance_uuid)
        .join(allocations, allocations.c.reservation_uuid == table.c.uuid)
        .join(claim, claim.c.instance_uuid == allocations.c.taken_by)
        .where(claim.c.project_id != table.c.project_id)
        .distinct()
    )
    return [(uuid, place) for uuid, place in connection.execute(query)]


def show(connection: sa.Connection, text: str) -> dict[str, Any]:
    """Return the details of a reservation with its places; raises NotFound."""
    known = rows(connection)
    uuid, names = find(known, text).uuid, {row.uuid: row.name for row in known}
    others = {place for _, place in _taken_by_others(connection)}
    (found,) = (each for each in listed(connection) if each["id"] == uuid)
    places = places_of(connection, [uuid])
    held = _standbys_of(connection, [each.instance_uuid for each in places])
    return found | {
        "places": [
            {
                "id": each.instance_uuid,
                "host": each.host,
                "node": each.node,
                "state": each.state,
                "taken_by": each.taken_by,
                "by_other_project": each.instance_uuid in others,
                "after": None if (at := each.reservation_uuid) == uuid else names.get(at),
                **held.get(each.instance_uuid, {"standby": None, "reason": None}),
            }
            for each in places
        ]
    }


def _standbys_of(
    connection: sa.Connection, places: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """Return the hosts of the standbys of places, or why they have none."""
    c, node = standbys.c, compute_nodes.c
    query = sa.select(c.instance_uuid, node.host, c.reason)
    query = query.join(compute_nodes, node.id == c.compute_node_id, isouter=True)
    found = select_in(connection, query, c.instance_uuid, places)
    return {row.instance_uuid: {"standby": row.host, "reason": row.reason} for row in found}


def places_of(connection: sa.Connection, uuids: Sequence[str]) -> Sequence[sa.Row[Any]]:
    """Return the places of reservations by their hosts, with those that they have next."""
    c = allocations.c
    belongs = sa.or_(c.reservation_uuid.in_(uuids), c.next_reservation_uuid.in_(uuids))
    query = sa.select(allocations).where(belongs)
    return connection.execute(query.order_by(c.host, c.node, c.id)).all()


def _listed(row: sa.Row[Any], counts: Counter[str], others: int, now: datetime) -> dict[str, Any]:
    ended = row.ends_at is not None and row.ends_at <= now
    later = row.starts_at is not None and row.starts_at > now
    return {
        "id": row.uuid,
        "name": row.name,
        "project": row.project_id,
        "state": ENDED if ended else SCHEDULED if later else HELD,
        "flavor": row.flavor_name,
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mb,
        "disk_mb": row.disk_mb,
        "number": row.number,
        "free": 0 if ended else counts[RESERVED],
        "taken": 0 if ended else counts[WAITING],
        "taken_by_others": 0 if ended else others,
        "availability_zone": row.availability_zone,
        "spread": row.spread,
        "from": None if row.starts_at is None else format(row.starts_at, _TIME),
        "until": None if row.ends_at is None else format(row.ends_at, _TIME),
        "created_at": format(row.created_at, _TIME),
    }
