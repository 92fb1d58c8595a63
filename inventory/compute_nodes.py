# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of compute_nodes: one per schedulable unit of capacity, written by its agent's audit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import revisions
from inventory.dialects import current_time, utc_moment, utc_now
from inventory.rows import columns, execute_in, named, named_in, select_in
from inventory.tables import compute_nodes as table

# The columns of what a node has of a resource, of what is used, and of the allocation ratio.
RESOURCES = {
    "vcpus": ("vcpus", "vcpus_used", "cpu_allocation_ratio"),
    "memory": ("memory_mb", "memory_mb_used", "ram_allocation_ratio"),
    "disk": ("local_gb", "local_gb_used", "disk_allocation_ratio"),
}
RATIOS = tuple(ratio for _, _, ratio in RESOURCES.values())
_LIVE = sa.select(table).where(table.c.deleted == 0)


@dataclass(frozen=True, slots=True)
class RowVersion:
    """The version of a row: it has not changed between two reads of equal generations."""

    id: int
    uuid: str
    generation: int
    age: timedelta


def row_versions(
    connection: sa.Connection, hosts: Iterable[str]
) -> dict[tuple[str, str], RowVersion]:
    """Return {(host, node): version} of the live rows of these hosts."""
    c = table.c
    written = sa.func.coalesce(c.updated_at, c.created_at).label("written")
    names = (c.host, c.hypervisor_hostname)
    query = _LIVE.with_only_columns(*names, c.id, c.uuid, c.generation, written)
    now = current_time(connection)
    return {
        # A row without a time counts as very old.
        (row.host, row.hypervisor_hostname): RowVersion(
            row.id, row.uuid, row.generation, now - (row.written or datetime.min)
        )
        for row in select_in(connection, query, c.host, hosts)
    }


def changed(
    connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return those of the nodes, given as for save(), of which save() would change a column."""
    found = of_hosts(connection, {node["host"] for node in nodes})
    stored = {_place(row._mapping): row._mapping for row in found}

    def differs(node: Mapping[str, Any]) -> bool:
        row = stored.get(_place(node))
        if row is None or any(not row[ratio] for ratio in _initial_ratios(node)):
            return True
        return any(row[name] != each for name, each in _next_values(node).items())

    return [node for node in nodes if differs(node)]


def save(connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update the live rows of these nodes.

    Each mapping has column names as keys, the same ones in all of them; host and
    hypervisor_hostname identify the row and uuid is used for a new one only. An allocation ratio
    None keeps the row's; where the row is new or has none it gets initial_<ratio>, which is the
    same in all nodes. Every write counts generation up and stamps updated_at with the database's
    clock.
    """
    if not nodes:
        return
    hosts = {node["host"] for node in nodes}
    ids = _ids(connection, hosts)
    missing = [node for node in nodes if _place(node) not in ids]
    revisions.advance_services(connection, [node["host"] for node in missing])
    if _revive(connection, missing):
        ids = _ids(connection, hosts)
    new = [_first_values(node) for node in nodes if _place(node) not in ids]
    old = [node for node in nodes if _place(node) in ids]
    if new:
        stamps = {"created_at": utc_now(), "updated_at": utc_moment(), "generation": 1}
        connection.execute(sa.insert(table).values(**stamps), new)
    if old:
        values = [{"row_id": ids[_place(node)], **_next_values(node)} for node in old]
        changes: dict[str, Any] = {name: sa.bindparam(name) for name in _next_values(old[0])}
        changes |= _written()
        for ratio, initial in _initial_ratios(old[0]).items():
            # Without a ratio schedulers would always refuse the host. Newton writes 0.0 for none.
            changes[ratio] = sa.func.coalesce(sa.func.nullif(table.c[ratio], 0.0), initial)
        statement = sa.update(table).where(table.c.id == sa.bindparam("row_id")).values(**changes)
        connection.execute(statement, values)


def lock(connection: sa.Connection, ids: Iterable[int]) -> list[sa.Row[Any]]:
    """Lock rows until the transaction ends; return their (id, deleted, numa_topology, pci_stats).

    Called before anything else is read: what is read after it is as new as the rows. Every
    transaction that locks several does so in the order of their ids.
    """
    c = table.c
    query = sa.select(c.id, c.deleted, c.numa_topology, c.pci_stats).order_by(c.id)
    return select_in(connection, query.with_for_update(), c.id, ids)


def touch(connection: sa.Connection, ids: Iterable[int]) -> None:
    """Count the generation of these live rows up and stamp them, and change nothing else."""
    statement = sa.update(table).where(table.c.deleted == 0).values(**_written())
    execute_in(connection, statement, table.c.id, ids)


def of_hosts(connection: sa.Connection, hosts: Iterable[str]) -> list[sa.Row[Any]]:
    """Return the whole live rows of these hosts."""
    return select_in(connection, _LIVE, table.c.host, hosts)


def of_host_or_uuid(connection: sa.Connection, host: str, uuid: str | None) -> list[sa.Row[Any]]:
    """Return the live rows of a host, and rows with this uuid, deleted or not."""
    here = sa.and_(table.c.host == host, table.c.deleted == 0)
    return list(connection.execute(sa.select(table).where(sa.or_(table.c.uuid == uuid, here))))


def with_uuids(connection: sa.Connection, uuids: Iterable[str]) -> list[sa.Row[Any]]:
    """Return the whole rows that have these uuids, deleted ones included."""
    return select_in(connection, sa.select(table), table.c.uuid, uuids)


def all_live(connection: sa.Connection, names: Sequence[str] = ()) -> list[Any]:
    """Return these columns, or all, of all live rows in the order of their ids."""
    query = sa.select(*columns(table, names)).where(table.c.deleted == 0).order_by(table.c.id)
    return named(connection.execute(query))


def by_ids(connection: sa.Connection, ids: Iterable[int], names: Sequence[str] = ()) -> list[Any]:
    """Return these columns, or all, of the rows with these ids, deleted ones included."""
    return named_in(connection, sa.select(*columns(table, names)), table.c.id, ids)


def delete(connection: sa.Connection, host: str, nodes: Iterable[str]) -> int:
    """Mark these nodes of a host as deleted; return how many there were."""
    here = sa.and_(table.c.host == host, table.c.hypervisor_hostname.in_(list(nodes)))
    marks = {"claims": 0, "deleted": table.c.id, "deleted_at": utc_now()}
    return connection.execute(
        sa.update(table).where(here, table.c.deleted == 0).values(**marks, **_written())
    ).rowcount


def _written() -> dict[str, Any]:
    """Return what every write of a row changes."""
    return {"updated_at": utc_moment(), "generation": table.c.generation + 1}


def _ids(connection: sa.Connection, hosts: Iterable[str]) -> dict[tuple[str, str], int]:
    query = _LIVE.with_only_columns(table.c.id, table.c.host, table.c.hypervisor_hostname)
    return {
        (row.host, row.hypervisor_hostname): row.id
        for row in select_in(connection, query, table.c.host, hosts)
    }


def _revive(connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Undo delete() for nodes that are back; return whether there were any."""
    # A uuid is unique among deleted rows too, so a new row could not have it.
    places = {node["uuid"]: _place(node) for node in nodes if node.get("uuid") is not None}
    dead = [
        row.id
        for row in with_uuids(connection, places)
        if row.deleted and _place(row._mapping) == places[row.uuid]
    ]
    statement = sa.update(table).values(deleted=0, deleted_at=None)
    execute_in(connection, statement, table.c.id, dead)
    return bool(dead)


def _first_values(node: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in node.items() if not name.startswith("initial_")}
    for ratio in RATIOS:
        if values.get(ratio) is None:
            values[ratio] = node.get(f"initial_{ratio}")
    values["uuid"] = values.get("uuid") or str(uuid4())
    return values


def _initial_ratios(node: Mapping[str, Any]) -> dict[str, float]:
    """Return the initial values of the ratios that the options leave to the row."""
    initial = {ratio: node.get(f"initial_{ratio}") for ratio in RATIOS if node.get(ratio) is None}
    return {ratio: value for ratio, value in initial.items() if value}


def _next_values(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in node.items()
        if not name.startswith("initial_")
        and name not in ("uuid", "host", "hypervisor_hostname")
        and not (name in RATIOS and value is None)
    }


def _place(node: Mapping[Any, Any]) -> tuple[str, str]:
    return node["host"], node["hypervisor_hostname"]
