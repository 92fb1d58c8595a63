# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Existing claims, which are rows of allocations: read them, confirm, expire and delete them."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from inventory.claims import claim_rows
from inventory.claims.types import (
    ALTERNATE,
    COMING,
    CONFIRMED,
    COUNTED,
    INSTANCE,
    LEAVING,
    MAY_STAY,
    PENDING,
    ClaimLost,
    Identity,
    PendingClaim,
)
from inventory.dialects import current_time, utc_moment
from inventory.objects.node_json import guest_topology_to_json
from inventory.objects.numa import InstanceNUMATopology
from inventory.rows import chunks, execute_in, named, named_in, select_in
from inventory.tables import allocations as table

# Building a statement costs more than running it.
_COLUMNS = (
    *(table.c.id, table.c.instance_uuid, table.c.state, table.c.compute_node_id, table.c.host),
    *(table.c.request_id, table.c.digest, table.c.attempt, table.c.answer, table.c.created_at),
    *(table.c.vcpus, table.c.memory_mb, table.c.disk_mb, table.c.numa, table.c.pci),
    table.c.place_uuid,
)
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
# Reserved places are no claims of instances.
_OF_INSTANCES = sa.select(*_COLUMNS).where(
    table.c.instance_uuid.in_(_VALUES), table.c.reservation_uuid.is_(None)
)
_BY_IDS = sa.select(*_COLUMNS).where(table.c.id.in_(_VALUES))
# How many claims the instances have whose uuids are bound as uuids, and the time.
COUNT_AND_TIME = (
    sa.select(sa.func.count())
    .where(table.c.instance_uuid.in_(sa.bindparam("uuids", expanding=True)))
    .scalar_subquery()
    .label("claims_of_instances"),
    utc_moment().label("counted_at"),
)
_HOW_MANY = sa.select(*COUNT_AND_TIME)
_NOW = sa.select(utc_moment())
# At a member of a cluster the first query may wait until it has caught up with the others. If it
# takes longer than this, the time is read again. Seconds.
_WAITED = 0.1


def of_instances(
    connection: sa.Connection, uuids: Collection[str], counted: tuple[int, datetime] | None = None
) -> tuple[list[sa.Row[Any]], datetime]:
    """Return the claims of instances, and the database's time when time.monotonic() was 0.

    Most requests are new, so that counting the claims is enough; counted is both where they are
    known. The time is never too early: an audit takes older claims for confirmed by the instances
    that it has seen.
    """
    number, zero = counted or (0, datetime.min)
    for some in chunks([*uuids]) if counted is None else ():
        began = time.monotonic()
        found, now = connection.execute(_HOW_MANY, {"uuids": some}).one()
        number, zero = number + found, zero_at(connection, now, began)
    return _all(connection, _OF_INSTANCES, [*uuids]) if number else [], zero


def zero_at(connection: sa.Connection, now: datetime, began: float) -> datetime:
    """Return the database's time when time.monotonic() was 0.

    now is what it was in a statement that has begun at a time of the monotonic clock, and may have
    waited since.
    """
    if time.monotonic() - began > _WAITED:
        began, now = time.monotonic(), connection.execute(_NOW).scalar_one()
    return now - timedelta(seconds=began)


def reread(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> list[sa.Row[Any]]:
    """Return claims as they are now, without deleted ones."""
    return _all(connection, _BY_IDS, [row.id for row in rows])


def no_later_than(these: Iterable[sa.Row[Any]], rows: Iterable[sa.Row[Any]]) -> list[sa.Row[Any]]:
    """Return the claims that are not younger than one of these for the same instance."""
    latest: dict[str, datetime] = {}
    for row in these:
        latest[row.instance_uuid] = max(row.created_at, latest.get(row.instance_uuid, datetime.min))
    return [row for row in rows if row.created_at <= latest.get(row.instance_uuid, datetime.min)]


def check_none_pending(earlier: Sequence[sa.Row[Any]]) -> None:
    """Raise PendingClaim for a claim whose instance has not come to a host since."""
    over = no_later_than([row for row in earlier if row.state == CONFIRMED], earlier)
    for row in earlier:
        if row not in over:
            raise PendingClaim(row.instance_uuid, row.host)


def check_unchanged(connection: sa.Connection, old: Sequence[sa.Row[Any]]) -> None:
    """Raise ClaimLost unless the claims, whose nodes are locked, are as they were read."""
    if old and {*reread(connection, old)} != {*old}:
        raise ClaimLost((), "an older claim has changed or ended", INSTANCE)


def leaving(
    rows: Iterable[sa.Row[Any]], identity: Identity, more: Collection[tuple[str, int]] = ()
) -> list[sa.Row[Any]]:
    """Return the claims where instances are to be moved from that no agent has seen there yet.

    That is on the host that the request leaves, and on more nodes, by instance and id. If the
    instance may stay, it may be on any host that earlier requests have chosen.
    """

    def is_left(row: sa.Row[Any]) -> bool:
        if identity.leaves == MAY_STAY and row.request_id != identity.request_id:
            return True
        is_more = (row.instance_uuid, row.compute_node_id) in more
        return row.host.lower() == identity.leaves or is_more

    return [row for row in rows if row.state == LEAVING or (row.state in COMING and is_left(row))]


def _all(
    connection: sa.Connection, query: sa.Select[Any], values: Sequence[Any]
) -> list[sa.Row[Any]]:
    rows: list[sa.Row[Any]] = []
    for some in chunks(values):
        rows += connection.execute(query, {"values": some})
    return rows


# Claims of instances that are confirmed elsewhere by a claim of the same request or a later one. An
# instance on a move has the later claim at its destination.
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
# (vCPUs, memory in MB) of the instances seen on a node, by lower-case uuid. Disk is not compared:
# an instance that boots from a volume claims none, which the hypervisor does not show.
Seen = Mapping[str, tuple[int, int]]


@dataclass(slots=True)
class Reconciliation:
    """The result of an audit for the claims on a node: ids, and the rows that stay pending.

    leaving are confirmed ones that an instance may need again, which is resized on this node. cells
    are those in which guests are where the claims, by ids, said otherwise.
    """

    confirmed: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    pending: list[Any] = field(default_factory=list)
    leaving: list[Any] = field(default_factory=list)
    cells: Mapping[int, InstanceNUMATopology] = field(default_factory=dict)


def reconcile(
    rows: Iterable[Any],
    seen: Seen,
    now: datetime,
    superseded: Collection[int] = (),
    lacking: Collection[int] = (),
) -> Reconciliation:
    """Return which claims on a node are confirmed and which end, given the instances seen on it.

    A claim is confirmed by its instance and ends with it. A pending one also ends when its lease is
    over or its id is superseded. The claim of an instance that is resized in place waits until the
    instance has the claimed size, and all else that is claimed: lacking are the ids of those of
    which it has not.
    """
    found = Reconciliation()
    # A guest that has the size of a newer claim is there for that one, and not for the leaving one.
    rows = sorted(rows, key=lambda row: row.state == LEAVING)
    confirmed: set[str] = set()
    for row in rows:
        if row.state == CONFIRMED:
            continue
        size = seen.get(row.instance_uuid.lower())
        has_all = size == (row.vcpus, row.memory_mb) and row.id not in lacking
        there = size is not None and (not row.in_place or has_all)
        overdue = row.expires_at is not None and row.expires_at <= now
        if there and row.instance_uuid not in confirmed:
            found.confirmed.append(row.id)
            confirmed.add(row.instance_uuid)
        elif there or row.id in superseded or overdue:
            found.ended.append(row.id)
        else:
            found.pending.append(row)
    for row in rows:
        gone = row.instance_uuid.lower() not in seen
        if row.state == CONFIRMED and (gone or row.instance_uuid in confirmed):
            found.ended.append(row.id)
    return found


def apply_reconciliation(connection: sa.Connection, result: Reconciliation) -> None:
    """Write the result of reconcile(); the rows of the nodes are locked."""
    execute_in(connection, sa.delete(table), table.c.id, result.ended)
    # An instance has one confirmed claim on a node at most.
    claim_rows.leave(connection, result.leaving)
    confirm = {"state": CONFIRMED, "slot": table.c.compute_node_id, "expires_at": None}
    execute_in(connection, sa.update(table).values(**confirm), table.c.id, result.confirmed)
    for row_id, cells in result.cells.items():
        text = guest_topology_to_json(cells)
        connection.execute(sa.update(table).where(table.c.id == row_id).values(numa=text))


def on_nodes(connection: sa.Connection, ids: Collection[int]) -> tuple[list[sa.Row[Any]], datetime]:
    """Return all claims on some nodes in the order of their ids, and the database's time."""
    query = sa.select(table).order_by(table.c.id)
    rows = select_in(connection, query, table.c.compute_node_id, ids)
    return rows, connection.execute(_NOW).scalar_one()


def states(
    connection: sa.Connection, instance_uuids: Collection[str]
) -> dict[tuple[str, int], str]:
    """Return {(instance, node id): state of its newest claim} of some instances."""
    columns = table.c.instance_uuid, table.c.compute_node_id, table.c.state
    query = sa.select(*columns).order_by(table.c.id)
    found = select_in(connection, query, table.c.instance_uuid, instance_uuids)
    return {(row.instance_uuid, row.compute_node_id): row.state for row in found}


def overdue(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Return those of the nodes that have claims whose lease has ended, or superseded ones."""
    node_id = table.c.compute_node_id
    query = sa.select(node_id).where(sa.or_(table.c.expires_at <= utc_moment(), _SUPERSEDED))
    return {row.compute_node_id for row in select_in(connection, query, node_id, ids)}


class PendingClaims(NamedTuple):
    """How many claims wait for their instances, and how many longer than their lease; seconds."""

    number: int
    overdue: int
    oldest_age: float


def pending(connection: sa.Connection) -> PendingClaims:
    """Return figures of the pending claims of all nodes, without alternates.

    Their ids come from the index of slots. All of that is read, but not the rows of other claims,
    which are wide.
    """
    ids = connection.scalars(sa.select(table.c.id).where(table.c.slot == 0)).all()
    now = current_time(connection)
    query = sa.select(table.c.created_at, table.c.expires_at).where(table.c.state == PENDING)
    rows = select_in(connection, query, table.c.id, ids)
    oldest = min((row.created_at for row in rows), default=now)
    overdue = sum(row.expires_at <= now for row in rows)
    return PendingClaims(len(rows), overdue, max(0.0, (now - oldest).total_seconds()))


def waiting(connection: sa.Connection) -> dict[str, float]:
    """Return the ages in seconds of the pending claims, by their instances."""
    ids = connection.scalars(sa.select(table.c.id).where(table.c.slot == 0)).all()
    now = connection.execute(_NOW).scalar_one()
    query = sa.select(table.c.instance_uuid, table.c.created_at).where(table.c.state == PENDING)
    rows = select_in(connection, query, table.c.id, ids)
    return {row.instance_uuid: (now - row.created_at).total_seconds() for row in rows}


def superseded(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Return the ids of the claims on some nodes whose instances are confirmed elsewhere."""
    query = sa.select(table.c.id).where(_SUPERSEDED)
    return {row.id for row in select_in(connection, query, table.c.compute_node_id, ids)}


def delete_on_nodes(connection: sa.Connection, ids: Collection[int]) -> None:
    """Delete the claims on deleted nodes."""
    execute_in(connection, sa.delete(table), table.c.compute_node_id, ids)


def as_instances(connection: sa.Connection, ids: Collection[int] | None = None) -> list[Any]:
    """Return the unconfirmed claims, on some nodes or all, with the columns of instances.

    They are the claims that count in the usage of nodes, and stand for instances that are being
    built. task_state is ALTERNATE for alternates.
    """
    c = table.c
    query = sa.select(
        c.instance_uuid.label("uuid"),
        *(c.compute_node_id, c.host, c.node, c.project_id, c.vcpus, c.memory_mb, c.root_gb),
        *(c.ephemeral_gb, c.flavor_id, c.flavor_name, c.image_properties),
        sa.literal("building").label("vm_state"),
        sa.case((c.state == ALTERNATE, ALTERNATE)).label("task_state"),
        sa.null().label("os_type"),
    )
    query = query.where(c.state.in_(COUNTED)).order_by(c.id)
    if ids is None:
        return named(connection.execute(query))
    return named_in(connection, query, c.compute_node_id, ids)


def listed(
    connection: sa.Connection, host: str | None, instance_uuid: str | None, confirmed: bool
) -> list[dict[str, Any]]:
    """Return the claims of a host or an instance, the oldest first, with confirmed ones or not."""
    query = sa.select(table).order_by(table.c.created_at, table.c.id)
    if host is not None:
        query = query.where(table.c.host == host)
    if instance_uuid is not None:
        query = query.where(table.c.instance_uuid == instance_uuid)
    if not confirmed:
        query = query.where(table.c.state != CONFIRMED)
    return [dict(row) for row in connection.execute(query).mappings()]
