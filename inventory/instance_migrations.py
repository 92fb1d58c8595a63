# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of migrations: moves of instances to another node or another size."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from inventory.instance_states import ENDED, MOVES, moving
from inventory.rows import select_in
from inventory.tables import instances
from inventory.tables import migrations as table

Seen = Mapping[tuple[str, str], Collection[str]]


def under_way(
    connection: sa.Connection, hosts: Iterable[str], seen: Seen | None = None
) -> list[sa.Row[Any]]:
    """Return the rows from or to these hosts that still use resources, the newest first.

    Only the newest migration of an instance uses any. One whose instance is deleted, or not moving
    by its managed row, uses none, however old it is. An instance that only an agent knows is taken
    to move. seen are the uuids of the guests that are on some (host, node) now, and replaces what
    is recorded of these nodes.
    """
    names = list(hosts)
    here = sa.or_(table.c.source_compute.in_(names), table.c.dest_compute.in_(names))
    rows = connection.execute(_live().where(here)).all()
    if not rows:
        return []
    uuids = sorted({row.instance_uuid for row in rows})
    newest = _newest(connection, uuids)
    held = _moving(connection, uuids, seen or {})
    return [
        row for row in rows if newest[row.instance_uuid] == row.id and row.instance_uuid in held
    ]


def _live() -> sa.Select[Any]:
    newest = (sa.func.coalesce(table.c.updated_at, table.c.created_at).desc(), table.c.id.desc())
    return (
        sa.select(table)
        .where(table.c.deleted == 0)
        .where(table.c.status.not_in(ENDED), table.c.migration_type.in_(MOVES))
        .order_by(*newest)
    )


def _newest(connection: sa.Connection, uuids: list[str]) -> dict[str, int]:
    """Return the id of the newest migration under way of each of these instances."""
    found: dict[str, int] = {}
    for row in select_in(connection, _live(), table.c.instance_uuid, uuids):
        found.setdefault(row.instance_uuid, row.id)
    return found


def _moving(connection: sa.Connection, uuids: list[str], seen: Seen) -> set[str]:
    """Return those of the instances that move, as far as is known."""
    there = {uuid for guests in seen.values() for uuid in guests}
    managed: dict[str, bool] = {}
    c = instances.c
    query = sa.select(c.uuid, c.host, c.node, c.managed, c.vm_state, c.task_state)
    for row in select_in(connection, query.where(c.deleted == 0), c.uuid, uuids):
        if row.managed:
            moves = moving(row.vm_state, row.task_state)
            managed[row.uuid] = moves or managed.get(row.uuid, False)
        elif (row.host, row.node) not in seen:
            there.add(row.uuid)
    return {uuid for uuid in uuids if managed.get(uuid, uuid in there)}
