# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of compute_nodes: one per schedulable unit of capacity, written by its agent's audit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import eligibility, named_rows
from inventory.chunks import chunks
from inventory.named_rows import columns, named
from inventory.tables import compute_nodes as table
from inventory.tables import utc_moment, utc_now

RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")


@dataclass(frozen=True, slots=True)
class Mark:
    """In which state a row is: two readings with equal generations have found the same."""

    id: int
    uuid: str
    generation: int
    age: timedelta


def marks(connection: sa.Connection, hosts: Iterable[str]) -> dict[tuple[str, str], Mark]:
    """Return {(host, node): mark} of the live rows of these hosts."""
    names = (table.c.host, table.c.hypervisor_hostname)
    written = sa.func.coalesce(table.c.updated_at, table.c.created_at)
    found: dict[tuple[str, str], Mark] = {}
    now = connection.scalar(sa.select(utc_moment())) or datetime.min
    for some in chunks(sorted(hosts)):
        query = sa.select(*names, table.c.id, table.c.uuid, table.c.generation, written).where(
            table.c.deleted == 0, table.c.host.in_(some)
        )
        for host, node, row_id, uuid, generation, moment in connection.execute(query):
            # A row that nobody stamped is as old as can be.
            found[host, node] = Mark(row_id, uuid, generation, now - (moment or datetime.min))
    return found


def differing(
    connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return those of the nodes, given as for save(), that save() would change something of."""
    found = of_hosts(connection, {node["host"] for node in nodes})
    rows = {_place(row._mapping): row._mapping for row in found}

    def differs(node: Mapping[str, Any]) -> bool:
        row = rows.get(_place(node))
        if row is None or any(not row[ratio] for ratio in _left_open(node)):
            return True
        return any(row[name] != each for name, each in _next_values(node).items())

    return [node for node in nodes if differs(node)]


def save(connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update the live rows of these nodes.

    Each mapping has column names as keys, the same ones in all of them; host and
    hypervisor_hostname identify the row and uuid is used for a new one only. An allocation ratio
    None keeps what the row has; initial_<ratio> is what a row gets then that is new or has none,
    the same one in all nodes. Every write counts generation up and stamps updated_at with the
    database's clock.
    """
    if not nodes:
        return
    nodes = [_with_exact_disk(node) for node in nodes]
    hosts = {node["host"] for node in nodes}
    ids = _ids(connection, hosts)
    eligibility.advance_services(
        connection, [node["host"] for node in nodes if _place(node) not in ids]
    )
    if _revive(connection, [node for node in nodes if _place(node) not in ids]):
        ids = _ids(connection, hosts)
    new = [node for node in nodes if _place(node) not in ids]
    old = [node for node in nodes if _place(node) in ids]
    if new:
        stamps = {"created_at": utc_now(), "updated_at": utc_moment(), "generation": 1}
        statement = sa.insert(table).values(**stamps)
        connection.execute(statement, [_first_values(node) for node in new])
    if old:
        rows = [{"row_id": ids[_place(node)], **_next_values(node)} for node in old]
        changes: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if name != "row_id"}
        changes |= {"updated_at": utc_moment(), "generation": table.c.generation + 1}
        for ratio, initial in _left_open(old[0]).items():
            # Schedulers would refuse the host for ever. 0.0 is Newton's word for none.
            changes[ratio] = sa.func.coalesce(sa.func.nullif(table.c[ratio], 0.0), initial)
        connection.execute(
            sa.update(table).where(table.c.id == sa.bindparam("row_id")).values(**changes), rows
        )


def lock(connection: sa.Connection, ids: Iterable[int]) -> list[sa.Row[Any]]:
    """Return (id, deleted, numa_topology, pci_stats) of these rows, which nobody else writes now.

    Called before anything is read in a transaction: what is read after it is as new as the rows.
    They are locked in the order of their ids, as by everyone who locks several.
    """
    columns = (table.c.id, table.c.deleted, table.c.numa_topology, table.c.pci_stats)
    rows: list[sa.Row[Any]] = []
    for some in chunks(sorted(ids)):
        query = sa.select(*columns).where(table.c.id.in_(some)).order_by(table.c.id)
        rows += connection.execute(query.with_for_update())
    return rows


def touch(connection: sa.Connection, ids: Iterable[int]) -> None:
    """Count the generation of these live rows up and stamp them, and change nothing else."""
    for some in chunks(sorted(ids)):
        connection.execute(
            sa.update(table)
            .where(table.c.id.in_(some), table.c.deleted == 0)
            .values(updated_at=utc_moment(), generation=table.c.generation + 1)
        )


def of_hosts(connection: sa.Connection, hosts: Iterable[str]) -> list[sa.Row[Any]]:
    """Return the whole live rows of these hosts."""
    rows: list[sa.Row[Any]] = []
    for some in chunks(sorted(hosts)):
        rows += connection.execute(
            sa.select(table).where(table.c.deleted == 0, table.c.host.in_(some))
        )
    return rows


def claiming(connection: sa.Connection, host: str, uuid: str | None) -> list[sa.Row[Any]]:
    """Return the whole rows that have this uuid, dead ones included, or are a host's live ones."""
    here = sa.and_(table.c.host == host, table.c.deleted == 0)
    return list(connection.execute(sa.select(table).where(sa.or_(table.c.uuid == uuid, here))))


def with_uuids(connection: sa.Connection, uuids: Iterable[str]) -> list[sa.Row[Any]]:
    """Return the whole rows that have these uuids, dead ones included."""
    rows: list[sa.Row[Any]] = []
    for some in chunks(list(uuids)):
        rows += connection.execute(sa.select(table).where(table.c.uuid.in_(some)))
    return rows


def all_live(connection: sa.Connection, names: Sequence[str] = ()) -> list[Any]:
    """Return all live rows in the order of their ids: these columns of them, or whole ones."""
    query = sa.select(*columns(table, names)).where(table.c.deleted == 0).order_by(table.c.id)
    return named(connection.execute(query))


def by_ids(connection: sa.Connection, ids: Iterable[int], names: Sequence[str] = ()) -> list[Any]:
    """Return the rows with these ids, dead ones included: these columns of them, or whole ones."""
    rows: list[Any] = []
    for some in chunks(sorted(ids)):
        query = sa.select(*columns(table, names)).where(table.c.id.in_(some))
        rows += named(connection.execute(query))
    return rows


def written_since(connection: sa.Connection, moment: datetime) -> list[Any]:
    """Return the rows, dead ones included, that were written since moment.

    Of each its id, its generation and its eligibility_revision.
    """
    query = named_rows.written_since(table, ("id", "generation", eligibility.REVISION))
    return named(connection.execute(query, {"moment": moment}))


def delete(connection: sa.Connection, host: str, nodes: Iterable[str]) -> int:
    """Mark these nodes of a host as deleted; return how many there were."""
    result = connection.execute(
        sa.update(table)
        .where(
            table.c.host == host, table.c.hypervisor_hostname.in_(list(nodes)), table.c.deleted == 0
        )
        .values(
            claims=0,
            deleted=table.c.id,
            deleted_at=utc_now(),
            updated_at=utc_moment(),
            generation=table.c.generation + 1,
        )
    )
    return result.rowcount


def _ids(connection: sa.Connection, hosts: Iterable[str]) -> dict[tuple[str, str], int]:
    columns = (table.c.id, table.c.host, table.c.hypervisor_hostname)
    found: dict[tuple[str, str], int] = {}
    for some in chunks(sorted(hosts)):
        query = sa.select(*columns).where(table.c.deleted == 0, table.c.host.in_(some))
        found |= {(row.host, row.hypervisor_hostname): row.id for row in connection.execute(query)}
    return found


def _revive(connection: sa.Connection, nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Undo delete() for nodes that are back; tell whether there were any.

    A uuid is unique among dead rows too, so a new row could not have it.
    """
    names = {node.get("uuid"): _place(node) for node in nodes}
    names.pop(None, None)
    dead: list[int] = []
    for some in chunks(list(names)):
        query = sa.select(table).where(table.c.deleted != 0, table.c.uuid.in_(some))
        rows = connection.execute(query).mappings()
        dead += [row["id"] for row in rows if _place(row) == names[row["uuid"]]]
    for some in chunks(dead):
        connection.execute(
            sa.update(table).where(table.c.id.in_(some)).values(deleted=0, deleted_at=None)
        )
    return bool(dead)


def _first_values(node: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in node.items() if not name.startswith("initial_")}
    for ratio in RATIOS:
        if values.get(ratio) is None:
            values[ratio] = node.get(f"initial_{ratio}")
    values["uuid"] = values.get("uuid") or str(uuid4())
    return values


def _left_open(node: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratios that the options leave to the row, with what it gets if it has none."""
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


def _with_exact_disk(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a node with its figures in MB, made from those in GB where there are none."""
    if "disk_mb_used" in node:
        return node
    used, free = node["local_gb_used"], node.get("free_disk_gb")
    least = node.get("disk_available_least")
    if free is not None and least is not None:
        free = min(free, least)
    return {**node, "disk_mb_used": 1024 * used, "free_disk_mb": free and 1024 * free}


def _place(node: Mapping[Any, Any]) -> tuple[str, str]:
    return node["host"], node["hypervisor_hostname"]
