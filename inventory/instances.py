# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of instances: the guests that each agent saw on its node, and those that others manage.

Whoever builds instances may keep rows of its own here, marked as managed: agents count these, and
write rows only for guests that have none.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.tables import instances as table
from inventory.tables import utc_now

# Dead rows are kept for readers that ask what changed; they reload everything more often than this.
KEPT = timedelta(days=1)
_FACTS = (
    "display_name",
    "project_id",
    "vcpus",
    "memory_mb",
    "root_gb",
    "vm_state",
    "flavor_id",
    "flavor_name",
    "image_properties",
    "task_state",
    "os_type",
    "ephemeral_gb",
    "swap_mb",
)
# Not NULL, where a mapping says nothing.
_ZERO = {"ephemeral_gb": 0, "swap_mb": 0}


def replace(
    connection: sa.Connection, host: str, node: str, seen: Sequence[Mapping[str, Any]]
) -> set[str]:
    """Make the rows of a node that are nobody's own those of the instances seen.

    Return the uuids of those that changed. Each mapping has the keys uuid, display_name,
    project_id, vcpus, memory_mb (MB), root_gb (GB) and vm_state; the other facts may be left out.
    """
    here = sa.and_(table.c.host == host, table.c.node == node)
    found = connection.execute(sa.select(table).where(here)).all()
    kept = {row.uuid for row in found if row.managed and not row.deleted}
    rows = {row.uuid: row for row in found if row.uuid not in kept}
    # Rows of one statement must all have the same columns.
    wanted = {
        each["uuid"]: {name: each.get(name, _ZERO.get(name)) for name in _FACTS}
        for each in seen
        if each["uuid"] not in kept
    }
    new = [
        {"host": host, "node": node, "uuid": uuid, **wanted[uuid]}
        for uuid in wanted.keys() - rows.keys()
    ]
    changed = [
        {"row_id": row.id, **wanted[uuid]}
        for uuid, row in rows.items()
        if uuid in wanted and (row.deleted or _differs(row, wanted[uuid]))
    ]
    gone = {uuid: row.id for uuid, row in rows.items() if uuid not in wanted and not row.deleted}
    if new:
        stamps = {"created_at": utc_now(), "updated_at": utc_now()}
        connection.execute(sa.insert(table).values(**stamps), new)
    if changed:
        values: dict[str, Any] = {name: sa.bindparam(name) for name in _FACTS}
        connection.execute(
            sa.update(table)
            .where(table.c.id == sa.bindparam("row_id"))
            .values(deleted=0, deleted_at=None, managed=False, updated_at=utc_now(), **values),
            changed,
        )
    if gone:
        connection.execute(
            sa.update(table)
            .where(table.c.id.in_(gone.values()))
            .values(deleted=table.c.id, deleted_at=utc_now(), updated_at=utc_now())
        )
        _forget(connection, here)
    ids = {each["row_id"] for each in changed}
    return {
        *(each["uuid"] for each in new),
        *(uuid for uuid, row in rows.items() if row.id in ids),
        *gone,
    }


def managed(connection: sa.Connection, hosts: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """Return the live rows on these hosts that others than agents keep."""
    here = sa.and_(table.c.host.in_(list(hosts)), table.c.deleted == 0, table.c.managed)
    return connection.execute(sa.select(table).where(here)).all()


def of_place(
    connection: sa.Connection, host: str, node: str, uuids: Iterable[str]
) -> Sequence[sa.Row[Any]]:
    """Return the rows of some instances on a node, dead ones included."""
    here = sa.and_(table.c.host == host, table.c.node == node)
    query = sa.select(table).where(here, table.c.uuid.in_(list(uuids)))
    return connection.execute(query).all()


def places(connection: sa.Connection, hosts: Iterable[str]) -> set[tuple[str, str]]:
    """Return the (host, node) among these hosts that have live rows."""
    query = sa.select(table.c.host, table.c.node).where(
        table.c.deleted == 0, table.c.host.in_(list(hosts))
    )
    return {(row.host, row.node) for row in connection.execute(query.distinct())}


def all_live(connection: sa.Connection) -> Sequence[sa.Row[Any]]:
    """Return all live rows."""
    return connection.execute(sa.select(table).where(table.c.deleted == 0)).all()


def written_since(connection: sa.Connection, moment: datetime) -> Sequence[sa.Row[Any]]:
    """Return the rows, dead ones included, that were written since moment."""
    return connection.execute(sa.select(table).where(table.c.updated_at >= moment)).all()


def _differs(row: sa.Row[Any], instance: Mapping[str, Any]) -> bool:
    return any(getattr(row, name) != instance[name] for name in _FACTS)


def _forget(connection: sa.Connection, here: sa.ColumnElement[bool]) -> None:
    now = connection.scalar(sa.select(utc_now()))
    if now is not None:
        connection.execute(
            sa.delete(table).where(here, table.c.deleted != 0, table.c.deleted_at < now - KEPT)
        )
