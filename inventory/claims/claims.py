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
    INSTANCE,
    PENDING,
    Changes,
    Claim,
    ClaimLost,
    ClaimRequest,
    ClaimResult,
    Identity,
    PendingClaim,
    with_alternates,
)
from inventory.claims.usage_update import LockedNodes
from inventory.database_clock import utc_moment
from inventory.errors import counted
from inventory.rows import execute_in
from inventory.tables import allocations as table

# Building a statement costs more than running it.
_INSERT = sa.insert(table)


class Outdated(Exception):
    """A later attempt of the same request has claimed already."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"a later attempt of the same request holds the claim of instance {uuid}")
        self.uuid = uuid


class PartlyAnswered(Exception):
    """Some instances of the request have an answer already: {uuid: answer}."""

    def __init__(self, answers: Mapping[str, str | None]) -> None:
        many = counted(len(answers), "instance of the request has", "instances of the request have")
        super().__init__(f"{many} been answered before")
        self.answers = answers


def claim(connection: sa.Connection, request: ClaimRequest) -> ClaimResult:
    """Claim for all instances of a request, in place of their pending claims.

    Raises ClaimLost, PendingClaim, Outdated, PartlyAnswered and GroupUnlisted, after which the
    transaction is to be rolled back.
    """
    groups = group_locks.lock_each(connection, [request.group])
    identity = request.identity
    earlier, zero = existing.of_instances(connection, identity.uuids)
    repeated = _repeated(connection, earlier, identity, request.lease)
    if repeated is not None:
        return repeated
    number = len(request.claims)
    request = group_locks.within_policy(connection, request, groups)
    old = [row for row in earlier if row.state != CONFIRMED]
    if not request.replaces:
        _check_none_pending(earlier)
    locked = {row.compute_node_id for row in old} | {each.node_id for each in request.claims}
    nodes = LockedNodes(connection, locked)
    places = {(row.instance_uuid, row.compute_node_id) for row in earlier}
    # A claim that follows another one on the same node: an instance seen there may be the old one.
    made = [
        replace(each, in_place=True) if (each.instance_uuid, each.node_id) in places else each
        for each in _made(nodes, request, old)
    ]
    nodes.write()
    _check_unchanged(connection, old)
    now = zero + timedelta(seconds=time.monotonic())
    _replace(connection, old, sorted(_rows(request, made, now), key=_row_order))
    refused, changes = number - len(made), nodes.changed(made, old)
    return ClaimResult(_answers(made), False, refused, _nodes(made), changes)


def claim_each(
    connection: sa.Connection, requests: Sequence[ClaimRequest]
) -> tuple[list[ClaimResult | ClaimLost | None], Changes]:
    """Claim for requests as claim() does for one after the other, with the statements of one.

    Return their results, and what has changed for all together. None stands for a request that is
    to be claimed by itself, since its instances have claims already. A request that has lost
    changes nothing. Raises GroupUnlisted.
    """
    groups = group_locks.lock_each(connection, [each.group for each in requests])
    uuids = [uuid for each in requests for uuid in each.identity.uuids]
    earlier, zero = existing.of_instances(connection, uuids)
    claimed = {row.instance_uuid for row in earlier}
    nodes = LockedNodes(connection, {each.node_id for one in requests for each in one.claims})
    now = zero + timedelta(seconds=time.monotonic())
    results: list[ClaimResult | ClaimLost | None] = []
    rows: list[dict[str, Any]] = []
    every: list[Claim] = []
    for request in requests:
        mine, number = {*request.identity.uuids}, len(request.claims)
        if mine & claimed:
            results.append(None)
            continue
        try:
            request = group_locks.within_policy(connection, request, groups)
            made = _made(nodes, request)
        except ClaimLost as lost:
            results.append(lost)
            continue
        claimed |= mine
        groups.add(replace(request, claims=made))
        every += made
        rows += _rows(request, made, now)
        refused = number - len(made)
        results.append(ClaimResult(_answers(made), refused=refused, nodes=_nodes(made)))
    nodes.write()
    _insert(connection, sorted(rows, key=_row_order))
    return results, nodes.changed(every)


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
    changes = release_rows(connection, earlier)
    return ClaimResult([], changes=changes) if changes else None


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


def release(connection: sa.Connection, uuids: Collection[str]) -> Changes:
    """Release the unconfirmed claims of these instances; return what has changed.

    Raises ClaimLost in a race.
    """
    earlier, _ = existing.of_instances(connection, uuids)
    return release_rows(connection, earlier)


def release_lost(
    connection: sa.Connection, lost: Collection[tuple[str, str]]
) -> tuple[list[sa.Row[Any]], Changes]:
    """Release the unconfirmed claims of instances that hosts have lost, by host and uuid.

    That is those on the host, and those elsewhere that were claimed with them or before, since such
    an instance goes to no alternate. Return the claims and what has changed; raises ClaimLost in a
    race.
    """
    waiting, _ = existing.of_instances(connection, {uuid for _, uuid in lost})
    waiting = [row for row in waiting if row.state != CONFIRMED]
    here = [row for row in waiting if (row.host, row.instance_uuid) in lost]
    over = _no_later_than(here, waiting)
    return over, release_rows(connection, over)


def release_elsewhere(connection: sa.Connection, uuids: Collection[str]) -> Changes:
    """Release what confirmed instances have claimed elsewhere; return what has changed.

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


def _check_none_pending(earlier: Sequence[sa.Row[Any]]) -> None:
    """Raise PendingClaim for a claim whose instance has not come to a host since."""
    over = _no_later_than([row for row in earlier if row.state == CONFIRMED], earlier)
    for row in earlier:
        if row not in over:
            raise PendingClaim(row.instance_uuid, row.host)


def release_rows(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> Changes:
    """Release unconfirmed claims; return what has changed. Raises ClaimLost if one has changed."""
    old = [row for row in rows if row.state != CONFIRMED]
    changes = usage_update.changes(old)
    nodes = LockedNodes(connection, changes)
    nodes.change(changes, old)
    nodes.write()
    _check_unchanged(connection, old)
    execute_in(connection, sa.delete(table), table.c.id, [row.id for row in old])
    return nodes.changed((), old)


def _check_unchanged(connection: sa.Connection, old: Sequence[sa.Row[Any]]) -> None:
    """Raise ClaimLost unless the claims, whose nodes are locked, are as they were read."""
    if old and {*existing.reread(connection, old)} != {*old}:
        raise ClaimLost((), "an older claim has changed or ended", INSTANCE)


def _made(
    nodes: LockedNodes, request: ClaimRequest, old: Sequence[sa.Row[Any]] = ()
) -> list[Claim]:
    """Change the usage of the nodes of a request; return the claims that fit, with answers."""
    chosen = [each for each in request.claims if not each.alternate]
    alternates = [each for each in request.claims if each.alternate]
    changes = usage_update.changes(old, request.claims, request.documents)
    without = usage_update.changes(old, chosen, request.documents) if alternates else {}
    instead = {each.node_id: without.get(each.node_id) for each in alternates}
    refused = nodes.change(changes, old, instead)
    return with_alternates(chosen + [each for each in alternates if each.node_id not in refused])


def _answers(made: Iterable[Claim]) -> list[str | None]:
    return [each.answer for each in made if not each.alternate]


def _nodes(made: Iterable[Claim]) -> set[int]:
    return {each.node_id for each in made}


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
    _insert(connection, new)


def _insert(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        if rows:
            # The statement for a list costs more than that for one row.
            connection.execute(_INSERT, rows if len(rows) > 1 else rows[0])
    except DBDuplicateEntry:
        reason = "the same instance was claimed for at the same time"
        raise ClaimLost((), reason, INSTANCE) from None


def _row_order(row: Mapping[str, Any]) -> tuple[str, int]:
    """Return the place of a row among those that are inserted together.

    There is one order, since requests for the same instances wait for each other.
    """
    return row["instance_uuid"], -row["slot"]


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
        for each in claims
    ]
