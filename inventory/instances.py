# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of instances: the guests that each agent saw on its node, and managed instances.

A service that builds instances may keep rows of its own here, marked as managed: agents count these
and write rows only for guests that have none.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.database_errors import execute_each
from inventory.dialects import current_time, utc_now
from inventory.instance_states import released
from inventory.rows import columns, named, named_in, select_in
from inventory.rows import written_since as query_since
from inventory.tables import compute_nodes
from inventory.tables import instances as table

LOG = logging.getLogger(__name__)
# Deleted rows are kept for readers that ask what changed; they reload everything more often.
KEPT = timedelta(days=1)
_FACTS = (
    *("display_name", "project_id", "flavor_id", "flavor_name", "image_properties", "os_type"),
    *("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb", "vm_state", "task_state"),
)
# Columns that are not NULL, for mappings without them.
_ZERO = {"ephemeral_gb": 0, "swap_mb": 0}


def replace(
    connection: sa.Connection, host: str, node: str, seen: Sequence[Mapping[str, Any]]
) -> set[str]:
    """Replace the rows of a node, but for managed ones, by the instances seen there.

    A managed row that is deleted, or has released the node, becomes an agent's when its instance is
    seen there again. Return the uuids of the rows that changed. Each mapping has the keys uuid,
    display_name, project_id, vcpus, memory_mb (MB), root_gb (GB) and vm_state; the others may be
    left out.
    """
    here = sa.and_(table.c.host == host, table.c.node == node)
    uuids = [each["uuid"] for each in seen]
    matter = sa.or_(table.c.deleted == 0, table.c.uuid.in_(uuids))
    found = connection.execute(sa.select(table).where(here, matter))
    # Who writes managed rows may write uuids in capitals.
    rows = {row.uuid.lower(): row for row in found}
    # Rows of one statement must all have the same columns.
    new_values = {
        each["uuid"].lower(): {name: each.get(name, _ZERO.get(name)) for name in _FACTS}
        for each in seen
    }
    for uuid, row in rows.items():
        if row.managed and not row.deleted and not released(row.vm_state, row.task_state):
            new_values.pop(uuid, None)
    new = new_values.keys() - rows.keys()
    changed = {
        uuid
        for uuid in new_values.keys() & rows.keys()
        if rows[uuid].deleted or rows[uuid].managed or _differs(rows[uuid], new_values[uuid])
    }
    gone = {
        uuid
        for uuid in rows.keys() - new_values.keys()
        if not (rows[uuid].deleted or rows[uuid].managed)
    }
    names = {"host": host, "node": node}
    _insert(connection, [{**names, "uuid": uuid, **new_values[uuid]} for uuid in sorted(new)])
    _update(connection, [{"row_id": rows[each].id, **new_values[each]} for each in sorted(changed)])
    _delete(connection, [rows[uuid].id for uuid in gone], here)
    return new | changed | gone


def managed(connection: sa.Connection, hosts: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """Return the live managed rows on these hosts."""
    here = sa.and_(table.c.host.in_(list(hosts)), table.c.deleted == 0, table.c.managed)
    return connection.execute(sa.select(table).where(here).order_by(table.c.uuid)).all()


def of_place(
    connection: sa.Connection, host: str, node: str, uuids: Iterable[str]
) -> Sequence[sa.Row[Any]]:
    """Return the rows of some instances on a node, deleted ones included."""
    here = sa.and_(table.c.host == host, table.c.node == node, table.c.uuid.in_(list(uuids)))
    return connection.execute(sa.select(table).where(here)).all()


def seen_on(connection: sa.Connection, uuids: Iterable[str]) -> set[tuple[str, int]]:
    """Return {(uuid in lower case, id of the node)} of the instances that use nodes."""
    c, node = table.c, compute_nodes.c
    here = sa.and_(node.host == c.host, node.hypervisor_hostname == c.node)
    query = sa.select(c.uuid, node.id, c.vm_state, c.task_state).join(compute_nodes, here)
    keys = {each.lower() for each in uuids}
    rows = select_in(connection, query.where(c.deleted == 0), c.uuid, keys)
    rows = [row for row in rows if not released(row.vm_state, row.task_state)]
    return {(row.uuid.lower(), row.id) for row in rows}


def places(connection: sa.Connection, hosts: Iterable[str]) -> set[tuple[str, str]]:
    """Return the (host, node) among these hosts that have live rows."""
    query = sa.select(table.c.host, table.c.node).where(
        table.c.deleted == 0, table.c.host.in_(list(hosts))
    )
    return {(row.host, row.node) for row in connection.execute(query.distinct())}


def all_live(connection: sa.Connection, names: Sequence[str] = ()) -> list[Any]:
    """Return these columns, or all, of all live rows."""
    query = sa.select(*columns(table, names)).where(table.c.deleted == 0)
    return named(connection.execute(query))


def of_hosts(
    connection: sa.Connection, hosts: Iterable[str], names: Sequence[str] = ()
) -> list[Any]:
    """Return these columns, or all, of the live rows of some hosts."""
    query = sa.select(*columns(table, names)).where(table.c.deleted == 0)
    return named_in(connection, query, table.c.host, hosts)


def written_since(
    connection: sa.Connection, moment: datetime, names: Sequence[str] = ()
) -> list[Any]:
    """Return these columns, or all, of the rows written since moment, deleted ones included."""
    return named(connection.execute(query_since(table, tuple(names)), {"moment": moment}))


def _differs(row: sa.Row[Any], instance: Mapping[str, Any]) -> bool:
    return any(getattr(row, name) != instance[name] for name in _FACTS)


def _insert(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        stamps = {"created_at": utc_now(), "updated_at": utc_now()}
        _execute(connection, sa.insert(table).values(**stamps), rows)


def _update(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows by their row_id; deleted ones become live again."""
    if rows:
        values: dict[str, Any] = {name: sa.bindparam(name) for name in _FACTS}
        values |= {"deleted": 0, "deleted_at": None, "managed": False, "updated_at": utc_now()}
        where = table.c.id == sa.bindparam("row_id")
        _execute(connection, sa.update(table).where(where).values(**values), rows)


def _execute(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows; one that the database refuses is written in ASCII, or left out."""
    for row, _ in execute_each(connection, statement, rows):
        in_ascii = {
            name: each.encode("ascii", "replace").decode() if isinstance(each, str) else each
            for name, each in row.items()
        }
        for _, reason in execute_each(connection, statement, [in_ascii]):
            which = row.get("uuid") or f"with the name {row['display_name']!r}"
            LOG.warning("Cannot store the row of instance %s, going on without: %s", which, reason)


def _delete(connection: sa.Connection, ids: Sequence[int], here: sa.ColumnElement[bool]) -> None:
    if not ids:
        return
    stamps = {"deleted": table.c.id, "deleted_at": utc_now(), "updated_at": utc_now()}
    connection.execute(sa.update(table).where(table.c.id.in_(ids)).values(**stamps))
    kept_since = current_time(connection, utc_now) - KEPT
    old = sa.and_(table.c.deleted != 0, table.c.deleted_at < kept_since)
    connection.execute(sa.delete(table).where(here, old, ~table.c.managed))
