# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of migrations: instances on their way from one node to another, or to another size."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from inventory.instance_states import ENDED, MOVES, moving
from inventory.tables import instances
from inventory.tables import migrations as table


def under_way(connection: sa.Connection, hosts: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """Return the rows from or to these hosts that still hold resources, the newest first.

    A migration whose instance is gone, or is not moving by what its managed row says, holds none,
    however long it has been forgotten. An instance that only an agent knows is believed to move.
    """
    names = list(hosts)
    end = sa.or_(table.c.source_compute.in_(names), table.c.dest_compute.in_(names))
    live = sa.and_(
        table.c.deleted == 0, table.c.status.not_in(ENDED), table.c.migration_type.in_(MOVES)
    )
    newest = (sa.func.coalesce(table.c.updated_at, table.c.created_at).desc(), table.c.id.desc())
    rows = connection.execute(sa.select(table).where(end, live).order_by(*newest)).all()
    if not rows:
        return rows
    resting = _resting(connection, {row.instance_uuid for row in rows})
    return [row for row in rows if not resting.get(row.instance_uuid, True)]


def _resting(connection: sa.Connection, uuids: Iterable[str]) -> dict[str, bool]:
    """Return which of these instances are there, and whether they rest."""
    columns = (
        instances.c.uuid,
        instances.c.managed,
        instances.c.vm_state,
        instances.c.task_state,
    )
    query = sa.select(*columns).where(instances.c.uuid.in_(list(uuids)), instances.c.deleted == 0)
    found: dict[str, bool] = {}
    for row in connection.execute(query.order_by(instances.c.managed)):
        # Managed rows come last and so have the last word.
        found[row.uuid] = bool(row.managed) and not moving(row.vm_state, row.task_state)
    return found
