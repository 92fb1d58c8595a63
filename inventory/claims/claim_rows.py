# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Write the rows of claims."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import audit_log
from inventory.audit_log import ACTOR, Changed
from inventory.claims.types import (
    ALTERNATE,
    INSTANCE,
    LEAVING,
    PENDING,
    Claim,
    ClaimLost,
    ClaimRequest,
)
from inventory.rows import execute_in
from inventory.tables import allocations as table

# Building a statement costs more than running it.
_INSERT = sa.insert(table)
# An instance may have several leaving claims on a node: their slots are their ids plus this number,
# far below those of alternates.
_LEAVING_SLOTS = -(2**31)


def replace(
    connection: sa.Connection, old: Sequence[sa.Row[Any]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Replace old claims by new ones. Raises what insert() does."""
    # Pending claims are overwritten: deleting and inserting the same key would leave a gap, for
    # which other transactions wait.
    pending = {row.instance_uuid: row.id for row in old if row.state == PENDING}
    over: dict[int, Mapping[str, Any]] = {}
    new: list[Mapping[str, Any]] = []
    for row in sorted(rows, key=_row_order):
        if row["state"] == PENDING and row["instance_uuid"] in pending:
            over[pending[row["instance_uuid"]]] = row
        else:
            new.append(row)
    gone = [row.id for row in old if row.id not in over]
    execute_in(connection, sa.delete(table), table.c.id, gone)
    for row_id, row in over.items():
        connection.execute(sa.update(table).where(table.c.id == row_id).values(**row))
    insert(connection, new)


def leave(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> None:
    """Let claims hold what they do as those of instances that are moved from there."""
    leaving = sa.update(table).values(state=LEAVING, slot=table.c.id + _LEAVING_SLOTS)
    execute_in(connection, leaving, table.c.id, [row.id for row in rows])


def insert(connection: sa.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows of claims. Raises ClaimLost if one of their instances has a claim by now."""
    rows = sorted(rows, key=_row_order)
    try:
        if rows:
            # The statement for a list costs more than that for one row.
            connection.execute(_INSERT, rows if len(rows) > 1 else rows[0])
    except DBDuplicateEntry:
        reason = "the same instance was claimed for at the same time"
        raise ClaimLost((), reason, INSTANCE) from None


def log(
    connection: sa.Connection, old: Iterable[sa.Row[Any]], new: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Log the claims that end and those that are made, if the transaction has an actor."""
    # Asked here, since most claims are those of schedulers, which have none.
    if ACTOR not in connection.get_execution_options():
        return
    before, after = _by_instance(row._asdict() for row in old), _by_instance(new)
    changes = []
    for uuid in {**before, **after}:
        was, will_be = before.get(uuid, {}), after.get(uuid, {})
        hosts = {*chain.from_iterable((*was.values(), *will_be.values()))}
        changes.append(Changed(audit_log.CLAIM, uuid, was, will_be, hosts))
    audit_log.record(connection, changes)


def _by_instance(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return {instance: {state: hosts}} of the claims in some rows."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        states = found.setdefault(row["instance_uuid"], {})
        states.setdefault(row["state"], []).append(row["host"])
    return found


def _row_order(row: Mapping[str, Any]) -> tuple[str, int]:
    """Return the place of a row among those that are inserted together.

    There is one order, since requests for the same instances wait for each other.
    """
    return row["instance_uuid"], -row["slot"]


def build(request: ClaimRequest, claims: Iterable[Claim], now: datetime) -> list[dict[str, Any]]:
    """Return the rows of claims, all with the same columns."""
    until = now + timedelta(seconds=request.lease)
    return [
        {
            "instance_uuid": each.instance_uuid,
            "slot": each.slot,
            "state": ALTERNATE if each.alternate else PENDING,
            "compute_node_id": each.node_id,
            "host": each.host,
            "node": each.node,
            "request_id": request.request_id,
            "digest": request.digest,
            "attempt": request.attempt,
            "answer": None if each.alternate else each.answer,
            "group_uuid": request.group.uuid if request.group else None,
            "in_place": each.in_place,
            "vcpus": each.vcpus,
            "memory_mb": each.memory_mb,
            "disk_mb": each.disk_mb,
            "numa": each.numa,
            "pci": each.pci,
            "root_gb": 0,
            "ephemeral_gb": 0,
            "created_at": now,
            "expires_at": until,
            "place_uuid": each.place,
            **each.about,
        }
        for each in claims
    ]
