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

from inventory import named_rows
from inventory.chunks import chunks
from inventory.instance_states import released
from inventory.named_rows import columns, named
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

    A managed row that is dead, or has released the node, becomes an agent's when its instance is
    seen there all the same; until then it is left alone. Return the uuids of the rows that
    changed. Each mapping has the keys uuid, display_name, project_id, vcpus, memory_mb (MB),
    root_gb (GB) and vm_state; the other facts may be left out.
    """
    here = sa.and_(table.c.host == host, table.c.node == node)
    uuids = [each["uuid"] for each in seen]
    matter = sa.or_(table.c.deleted == 0, table.c.uuid.in_(uuids))
    found = connection.execute(sa.select(table).where(here, matter))
    # MariaDB's keys let in only one of those that differ by letter case.
    rows = {row.uuid.lower(): row for row in found}
    kept = {uuid for uuid, row in rows.items() if _is_kept(row)}
    # Rows of one statement must all have the same columns.
    wanted = {
        each["uuid"].lower(): {name: each.get(name, _ZERO.get(name)) for name in _FACTS}
        for each in seen
        if each["uuid"].lower() not in kept
    }
    new = wanted.keys() - rows.keys()
    changed = {
        uuid
        for uuid in wanted.keys() & rows.keys()
        if rows[uuid].deleted or rows[uuid].managed or _differs(rows[uuid], wanted[uuid])
    }
    gone = {
        uuid
        for uuid in rows.keys() - wanted.keys()
        if not (rows[uuid].deleted or rows[uuid].managed)
    }
    _insert(connection, [{"host": host, "node": node, "uuid": u, **wanted[u]} for u in sorted(new)])
    _update(connection, [{"row_id": rows[uuid].id, **wanted[uuid]} for uuid in sorted(changed)])
    _delete(connection, [rows[uuid].id for uuid in gone], here)
    return new | changed | gone


def managed(connection: sa.Connection, hosts: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """Return the live rows on these hosts that others than agents keep."""
    here = sa.and_(table.c.host.in_(list(hosts)), table.c.deleted == 0, table.c.managed)
    return connection.execute(sa.select(table).where(here).order_by(table.c.uuid)).all()


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


def all_live(connection: sa.Connection, names: Sequence[str] = ()) -> list[Any]:
    """Return all live rows: these columns of them, or whole ones."""
    query = sa.select(*columns(table, names)).where(table.c.deleted == 0)
    return named(connection.execute(query))


def of_hosts(
    connection: sa.Connection, hosts: Iterable[str], names: Sequence[str] = ()
) -> list[Any]:
    """Return the live rows of some hosts: these columns of them, or whole ones."""
    found: list[Any] = []
    for some in chunks(sorted(hosts)):
        here = sa.and_(table.c.host.in_(some), table.c.deleted == 0)
        found += named(connection.execute(sa.select(*columns(table, names)).where(here)))
    return found


def written_since(
    connection: sa.Connection, moment: datetime, names: Sequence[str] = ()
) -> list[Any]:
    """Return the rows, dead ones included, that were written since moment; see all_live()."""
    query = named_rows.written_since(table, tuple(names))
    return named(connection.execute(query, {"moment": moment}))


def _is_kept(row: sa.Row[Any]) -> bool:
    """Tell whether somebody else keeps a row, and no agent may write it."""
    return row.managed and not row.deleted and not released(row.vm_state, row.task_state)


def _differs(row: sa.Row[Any], instance: Mapping[str, Any]) -> bool:
    return any(getattr(row, name) != instance[name] for name in _FACTS)


def _insert(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        stamps = {"created_at": utc_now(), "updated_at": utc_now()}
        connection.execute(sa.insert(table).values(**stamps), rows)


def _update(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows whose ids are their row_id; dead ones live again."""
    if rows:
        values: dict[str, Any] = {name: sa.bindparam(name) for name in _FACTS}
        values |= {"deleted": 0, "deleted_at": None, "managed": False, "updated_at": utc_now()}
        where = table.c.id == sa.bindparam("row_id")
        connection.execute(sa.update(table).where(where).values(**values), rows)


def _delete(connection: sa.Connection, ids: Sequence[int], here: sa.ColumnElement[bool]) -> None:
    if ids:
        connection.execute(
            sa.update(table)
            .where(table.c.id.in_(ids))
            .values(deleted=table.c.id, deleted_at=utc_now(), updated_at=utc_now())
        )
        _forget(connection, here)


def _forget(connection: sa.Connection, here: sa.ColumnElement[bool]) -> None:
    """Delete what has been dead for long; managed rows are somebody else's matter, then too."""
    now = connection.scalar(sa.select(utc_now()))
    if now is not None:
        long_dead = sa.and_(table.c.deleted != 0, table.c.deleted_at < now - KEPT)
        connection.execute(sa.delete(table).where(here, long_dead, ~table.c.managed))
