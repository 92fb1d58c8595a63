# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claim the resources of nodes for instances, from the decision until the instance is seen there.

One transaction claims for all instances of a request, or for none. To avoid deadlocks every claim
and audit locks in this order: the row of the server group, rows of nodes by id, rows of claims.
Source: design, sections 5 and 11.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import compute_nodes
from inventory.claims import existing, group_locks, usage_update
from inventory.claims.types import (
    ALTERNATE,
    CONFIRMED,
    PENDING,
    Claim,
    ClaimLost,
    ClaimRequest,
    ClaimResult,
    Identity,
    with_alternates,
)
from inventory.rows import execute_in
from inventory.tables import allocations as table
from inventory.tables import utc_moment

# Building a statement costs more than running it.
_INSERT = sa.insert(table)


class Outdated(Exception):
    """A later attempt of the same request has claimed already."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"a later attempt of the same request holds the claim of instance {uuid}")
        self.uuid = uuid


class GroupUnlisted(Exception):
    """A server group has no row to lock; group_locks.ensure() makes one."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"server group {uuid} has no row to lock yet")
        self.uuid = uuid


class PartlyAnswered(Exception):
    """Some instances of the request have an answer already: {uuid: answer}."""

    def __init__(self, answers: Mapping[str, str | None]) -> None:
        super().__init__(f"{len(answers)} instances of the request have been answered before")
        self.answers = answers


def claim(connection: sa.Connection, request: ClaimRequest) -> ClaimResult:
    """Claim for all instances of a request, in place of their pending claims.

    Raises ClaimLost, Outdated, PartlyAnswered and GroupUnlisted, after which the transaction is to
    be rolled back.
    """
    if request.group and not group_locks.lock(connection, request.group.uuid):
        raise GroupUnlisted(request.group.uuid)
    identity = request.identity
    earlier, zero = existing.of_instances(connection, identity.uuids)
    repeated = _repeated(connection, earlier, identity, request.lease)
    if repeated is not None:
        return repeated
    number = len(request.claims)
    if request.group:
        request = group_locks.within_policy(connection, request, request.group)
    old = [row for row in earlier if row.state != CONFIRMED]
    places = {(row.instance_uuid, row.compute_node_id) for row in earlier}
    # A claim that follows another one on the same node: an instance seen there may be the old one.
    made = [
        replace(each, in_place=True) if (each.instance_uuid, each.node_id) in places else each
        for each in with_alternates(_write_usage(connection, request, old))
    ]
    _check_unchanged(connection, old)
    now = zero + timedelta(seconds=time.monotonic())
    _replace(connection, old, _rows(request, made, now))
    left = {row.compute_node_id for row in old}
    answers = [each.answer for each in made if not each.alternate]
    return ClaimResult(answers, refused=number - len(made), left=left)


def release_stale(
    connection: sa.Connection, identity: Identity, lease: float
) -> ClaimResult | None:
    """Return the answer to the same request, else release the pending claims of its instances.

    A new request replaces those anyway. Return None where there was neither. Raises ClaimLost,
    Outdated and PartlyAnswered.
    """
    earlier, _ = existing.of_instances(connection, identity.uuids)
    repeated = _repeated(connection, earlier, identity, lease)
    if repeated is not None:
        return repeated
    left = release_rows(connection, earlier)
    return ClaimResult([], left=left) if left else None


def _repeated(
    connection: sa.Connection, earlier: Sequence[sa.Row[Any]], identity: Identity, lease: float
) -> ClaimResult | None:
    """Return the answer to the same request and renew its leases, None if it is a new one."""
    same: list[sa.Row[Any]] = []
    # Requests without an id cannot be compared.
    for row in earlier if identity.request_id is not None else ():
        if (row.request_id, row.digest) == (identity.request_id, identity.digest):
            same.append(row)
        elif row.request_id == identity.request_id and row.attempt > identity.attempt:
            raise Outdated(row.instance_uuid)
    # Alternates have no answer of their own.
    answers = {row.instance_uuid: row.answer for row in same if row.answer is not None}
    if not answers:
        return None
    if answers.keys() < {*identity.uuids}:
        raise PartlyAnswered(answers)
    pending = [row for row in same if row.state != CONFIRMED]
    if pending:
        # A lease is ended by a transaction that has locked the node.
        compute_nodes.lock(connection, {row.compute_node_id for row in pending})
        _check_unchanged(connection, pending)
        until = connection.execute(sa.select(utc_moment())).scalar_one() + timedelta(seconds=lease)
        renewal = sa.update(table).values(expires_at=until)
        execute_in(connection, renewal, table.c.id, [row.id for row in pending])
    return ClaimResult([answers[uuid] for uuid in identity.uuids], repeated=True)


def release(connection: sa.Connection, uuids: Collection[str], host: str | None = None) -> set[int]:
    """Release the unconfirmed claims of these instances; return the nodes that have changed.

    With a host: those on it, and those elsewhere that were claimed with them or before, since an
    instance that the host has lost goes to no alternate. Raises ClaimLost in a race.
    """
    earlier, _ = existing.of_instances(connection, uuids)
    if host is not None:
        here = [row for row in earlier if row.host == host and row.state != CONFIRMED]
        earlier = _no_later_than(here, earlier)
    return release_rows(connection, earlier)


def release_elsewhere(connection: sa.Connection, uuids: Collection[str]) -> set[int]:
    """Release what confirmed instances have claimed elsewhere; return the changed nodes.

    That is what was claimed with the confirmed claim or before: the claim of a move from there is
    later. Raises ClaimLost in a race.
    """
    earlier, _ = existing.of_instances(connection, uuids)
    confirmed = [row for row in earlier if row.state == CONFIRMED]
    return release_rows(connection, _no_later_than(confirmed, earlier))


def _no_later_than(these: Iterable[sa.Row[Any]], rows: Iterable[sa.Row[Any]]) -> list[sa.Row[Any]]:
    """Return the claims that are not younger than one of these for the same instance."""
    latest: dict[str, datetime] = {}
    for row in these:
        latest[row.instance_uuid] = max(row.created_at, latest.get(row.instance_uuid, datetime.min))
    return [row for row in rows if row.created_at <= latest.get(row.instance_uuid, datetime.min)]


def release_rows(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> set[int]:
    """Release unconfirmed claims; return the changed nodes. Raises ClaimLost if one has changed."""
    old = [row for row in rows if row.state != CONFIRMED]
    changes = usage_update.changes(old)
    usage_update.write(connection, changes, old)
    _check_unchanged(connection, old)
    execute_in(connection, sa.delete(table), table.c.id, [row.id for row in old])
    return set(changes)


def _check_unchanged(connection: sa.Connection, old: Sequence[sa.Row[Any]]) -> None:
    """Raise ClaimLost unless the claims, whose nodes are locked, are as they were read."""
    if old and {*existing.reread(connection, old)} != {*old}:
        raise ClaimLost((), "an older claim has changed or ended")


def _write_usage(
    connection: sa.Connection, request: ClaimRequest, old: Sequence[sa.Row[Any]]
) -> Sequence[Claim]:
    """Change the usage of all nodes of a request; return the claims that fit."""
    chosen = [each for each in request.claims if not each.alternate]
    alternates = [each for each in request.claims if each.alternate]
    changes = usage_update.changes(old, request.claims, request.documents)
    without = usage_update.changes(old, chosen, request.documents)
    instead = {each.node_id: without.get(each.node_id) for each in alternates}
    refused = usage_update.write(connection, changes, old, instead)
    return chosen + [each for each in alternates if each.node_id not in refused]


def _replace(
    connection: sa.Connection, old: Sequence[sa.Row[Any]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Replace old rows."""
    # Pending claims are overwritten: deleting and inserting the same key would leave a gap, for
    # which other transactions wait.
    pending = {row.instance_uuid: row.id for row in old if row.state == PENDING}
    over: dict[int, Mapping[str, Any]] = {}
    new: list[Mapping[str, Any]] = []
    for row in rows:
        if row["state"] == PENDING and row["instance_uuid"] in pending:
            over[pending[row["instance_uuid"]]] = row
        else:
            new.append(row)
    gone = [row.id for row in old if row.id not in over]
    execute_in(connection, sa.delete(table), table.c.id, gone)
    for row_id, row in over.items():
        connection.execute(sa.update(table).where(table.c.id == row_id).values(**row))
    try:
        if new:
            # The statement for a list costs more than that for one row.
            connection.execute(_INSERT, new if len(new) > 1 else new[0])
    except DBDuplicateEntry:
        raise ClaimLost((), "the same instance was claimed for at the same time") from None


def _rows(request: ClaimRequest, claims: Sequence[Claim], now: datetime) -> list[dict[str, Any]]:
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
            "answer": each.answer,
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
            **each.about,
        }
        # In one order, since requests for the same instances wait for each other.
        for each in sorted(claims, key=lambda each: (each.instance_uuid, -each.slot))
    ]
