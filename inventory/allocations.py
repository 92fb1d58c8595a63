# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of allocations as audits and schedulers read them, and what an audit makes of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from inventory.chunks import chunks
from inventory.named_rows import named
from inventory.orders import ALTERNATE, CONFIRMED
from inventory.tables import allocations as table
from inventory.tables import utc_moment

# Of an instance that is confirmed elsewhere by a claim of the same request, or of a later one. An
# instance that is on a move has the later claim where it goes to.
_OTHER = table.alias("other")
_SUPERSEDED = sa.and_(
    table.c.state != CONFIRMED,
    sa.exists().where(
        _OTHER.c.instance_uuid == table.c.instance_uuid,
        _OTHER.c.compute_node_id != table.c.compute_node_id,
        _OTHER.c.state == CONFIRMED,
        _OTHER.c.created_at >= table.c.created_at,
    ),
)
# By the uuids of the instances that were seen on a node, as hypervisors spell them: how many vCPUs
# and how much memory, in MB, each has. Not disk: one that boots from a volume claims none, and
# nobody who sees it can tell.
Seen = Mapping[str, tuple[int, int]]


@dataclass(slots=True)
class Settlement:
    """What an audit makes of the claims on a node, as ids; pending are the rows that count on."""

    confirmed: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    pending: list[Any] = field(default_factory=list)

    @property
    def is_news(self) -> bool:
        """Tell whether anything is to be written."""
        return bool(self.confirmed or self.ended)


def settled(
    rows: Iterable[Any], seen: Seen, now: datetime, superseded: Collection[int] = ()
) -> Settlement:
    """Return what becomes of the claims on a node when these instances were seen on it.

    A claim is confirmed by its instance, and ends with it; one that waits for longer than its
    lease, or whose id is superseded, ends as well. An instance that is resized where it is was seen
    there before: its claim waits until it has the size that was claimed.
    """
    found = Settlement()
    rows = list(rows)
    confirmed: set[str] = set()
    for row in rows:
        size = seen.get(row.instance_uuid.lower())
        if row.state == CONFIRMED:
            continue
        claimed = (row.vcpus, row.memory_mb)
        there = size is not None and (not row.in_place or size == claimed)
        if there and row.instance_uuid not in confirmed:
            found.confirmed.append(row.id)
            confirmed.add(row.instance_uuid)
        elif there or row.id in superseded or _is_overdue(row, now):
            found.ended.append(row.id)
        else:
            found.pending.append(row)
    for row in rows:
        gone = row.instance_uuid.lower() not in seen
        if row.state == CONFIRMED and (gone or row.instance_uuid in confirmed):
            found.ended.append(row.id)
    return found


def _is_overdue(row: Any, now: datetime) -> bool:
    return row.expires_at is not None and bool(row.expires_at <= now)


def settle(connection: sa.Connection, settlement: Settlement) -> None:
    """Write what became of the claims on nodes whose rows are locked."""
    for some in chunks(sorted(settlement.ended)):
        connection.execute(sa.delete(table).where(table.c.id.in_(some)))
    for some in chunks(sorted(settlement.confirmed)):
        connection.execute(
            sa.update(table)
            .where(table.c.id.in_(some))
            .values(state=CONFIRMED, slot=table.c.compute_node_id, expires_at=None)
        )


def on_nodes(connection: sa.Connection, ids: Collection[int]) -> tuple[list[sa.Row[Any]], datetime]:
    """Return all claims on some nodes in the order of their ids, and the time now."""
    rows: list[sa.Row[Any]] = []
    for some in chunks(sorted(ids)):
        query = sa.select(table).where(table.c.compute_node_id.in_(some))
        rows += connection.execute(query.order_by(table.c.id))
    return rows, connection.scalar(sa.select(utc_moment())) or datetime.min


def states(
    connection: sa.Connection, instance_uuids: Collection[str]
) -> dict[tuple[str, int], str]:
    """Return the state of every claim of some instances, by its instance and the id of its node.

    Where an instance is resized in place, that of the newer claim.
    """
    found: dict[tuple[str, int], str] = {}
    columns = table.c.instance_uuid, table.c.compute_node_id, table.c.state
    for some in chunks(sorted(instance_uuids)):
        query = sa.select(*columns).where(table.c.instance_uuid.in_(some)).order_by(table.c.id)
        found.update(((uuid, node_id), state) for uuid, node_id, state in connection.execute(query))
    return found


def overdue(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Return those of the nodes on which some claim is not to wait any longer.

    Its lease has ended, or its instance has come elsewhere.
    """
    found: set[int] = set()
    for some in chunks(sorted(ids)):
        late = sa.or_(table.c.expires_at <= utc_moment(), _SUPERSEDED)
        here = sa.and_(table.c.compute_node_id.in_(some), late)
        found |= {*connection.scalars(sa.select(table.c.compute_node_id).where(here))}
    return found


def superseded(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Return the ids of the claims on some nodes whose instances have come elsewhere instead."""
    found: set[int] = set()
    for some in chunks(sorted(ids)):
        here = sa.and_(table.c.compute_node_id.in_(some), _SUPERSEDED)
        found |= {*connection.scalars(sa.select(table.c.id).where(here))}
    return found


def forget(connection: sa.Connection, ids: Collection[int]) -> None:
    """Delete the claims on nodes that are gone."""
    for some in chunks(sorted(ids)):
        connection.execute(sa.delete(table).where(table.c.compute_node_id.in_(some)))


def counted(connection: sa.Connection, ids: Collection[int] | None = None) -> list[Any]:
    """Return the claims that count, on some nodes or all, with the columns of instances.

    So many as a node's column claims says; they stand for instances that are being built. The task
    of an instance is ALTERNATE where it goes only if others fail.
    """
    counts = table.c.state != CONFIRMED
    if ids is None:
        return named(connection.execute(_as_instances().where(counts)))
    rows: list[Any] = []
    for some in chunks(sorted(ids)):
        here = table.c.compute_node_id.in_(some)
        rows += named(connection.execute(_as_instances().where(here, counts)))
    return rows


def listed(
    connection: sa.Connection, host: str | None, instance_uuid: str | None, confirmed: bool
) -> list[dict[str, Any]]:
    """Return claims, the oldest first: of a host or an instance, confirmed ones as well or not."""
    query = sa.select(table).order_by(table.c.created_at, table.c.id)
    if host is not None:
        query = query.where(table.c.host == host)
    if instance_uuid is not None:
        query = query.where(table.c.instance_uuid == instance_uuid)
    if not confirmed:
        query = query.where(table.c.state != CONFIRMED)
    return [dict(row) for row in connection.execute(query).mappings()]


def _as_instances() -> sa.Select[Any]:
    same = (
        "compute_node_id host node project_id vcpus memory_mb root_gb ephemeral_gb"
        " flavor_id flavor_name image_properties"
    )
    nothing = sa.null()
    return sa.select(
        table.c.instance_uuid.label("uuid"),
        *(table.c[name] for name in same.split()),
        sa.literal("building").label("vm_state"),
        sa.case((table.c.state == ALTERNATE, ALTERNATE)).label("task_state"),
        nothing.label("os_type"),
    ).order_by(table.c.id)
