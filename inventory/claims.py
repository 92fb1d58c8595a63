# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims: what an instance is going to take of a node, held from the decision until it is there.

One transaction claims for all instances of a request, or for none. It locks in this order, as all
who claim or audit do, so that none waits for one that waits for it: the row of the server group,
rows of nodes by their ids, rows of claims. Source: design, sections 5 and 11.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import (
    claimed_groups,
    claimed_nodes,
    compute_nodes,
    group_claims,
    standing_claims,
)
from inventory.chunks import chunks
from inventory.claimed_groups import GroupRule
from inventory.claimed_nodes import NoRoom
from inventory.orders import (
    ALTERNATE,
    CONFIRMED,
    PENDING,
    Claim,
    Claimed,
    Identity,
    Order,
    with_alternates,
)
from inventory.tables import allocations as table
from inventory.tables import utc_moment

# Made once: making a statement costs more than to run it.
_INSERT = sa.insert(table)


class ClaimLost(Exception):
    """Somebody else was faster; nothing is claimed. nodes are those that have changed."""

    def __init__(self, nodes: Collection[int], reason: str) -> None:
        super().__init__(f"lost a race: {reason}")
        self.nodes = nodes
        self.reason = reason


class Outdated(Exception):
    """The caller has asked anew since, and got an answer: this request is one that was late."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"a later attempt of the same request holds the claim of instance {uuid}")
        self.uuid = uuid


class GroupUnlisted(Exception):
    """There is no row to lock for a server group yet: claimed_groups.ensure() makes one."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"nobody has claimed for server group {uuid} yet")
        self.uuid = uuid


class PartlyAnswered(Exception):
    """Some instances of the request have the answer to it, {uuid: answer}; it is for the others."""

    def __init__(self, answers: Mapping[str, str | None]) -> None:
        super().__init__(f"{len(answers)} instances of the request have been answered before")
        self.answers = answers


def claim(connection: sa.Connection, order: Order) -> Claimed:
    """Claim for all instances of an order, in the place of what was pending for them.

    Raises ClaimLost, Outdated, PartlyAnswered and GroupUnlisted, after which the transaction is to
    be rolled back.
    """
    if order.group and not claimed_groups.lock(connection, order.group.uuid):
        raise GroupUnlisted(order.group.uuid)
    identity = order.identity
    standing, zero = standing_claims.of(connection, identity.uuids)
    repeated = _repeated(connection, standing, identity, order.lease)
    if repeated is not None:
        return repeated
    wanted = len(order.claims)
    if order.group:
        order = replace(order, claims=_as_group(connection, order, order.group))
    old = [row for row in standing if row.state != CONFIRMED]
    fitting = with_alternates(_write_usage(connection, order, old))
    kept = [_in_place(each, standing) for each in fitting]
    _check_unchanged(connection, old)
    moment = zero + timedelta(seconds=time.monotonic())
    _replace(connection, old, _rows(order, kept, moment))
    left = {row.compute_node_id for row in old}
    answers = [each.answer for each in kept if not each.alternate]
    return Claimed(answers, refused=wanted - len(kept), left=left)


def make_way(connection: sa.Connection, identity: Identity, lease: float) -> Claimed | None:
    """Return what was answered to the same request; else give back what is in its way.

    That is what is pending for its instances, which a new request takes the place of anyway. None
    where there was nothing of either. Raises ClaimLost, Outdated and PartlyAnswered.
    """
    standing, _ = standing_claims.of(connection, identity.uuids)
    repeated = _repeated(connection, standing, identity, lease)
    if repeated is not None:
        return repeated
    left = give_back(connection, standing)
    return Claimed([], left=left) if left else None


def _repeated(
    connection: sa.Connection, standing: Sequence[sa.Row[Any]], identity: Identity, lease: float
) -> Claimed | None:
    """Return what was answered to the same request, whose leases begin anew, if it was.

    Raises Outdated and PartlyAnswered.
    """
    same: list[sa.Row[Any]] = []
    for row in standing:
        # Without an id nobody can tell whether it is the same.
        if identity.request_id is None:
            continue
        if (row.request_id, row.digest) == (identity.request_id, identity.digest):
            same.append(row)
        elif row.request_id == identity.request_id and row.attempt > identity.attempt:
            raise Outdated(row.instance_uuid)
    # An alternate answers nothing.
    answers = {row.instance_uuid: row.answer for row in same if row.answer is not None}
    if not answers:
        return None
    if answers.keys() < {*identity.uuids}:
        raise PartlyAnswered(answers)
    _renew(connection, [row for row in same if row.state != CONFIRMED], lease)
    return Claimed([answers[uuid] for uuid in identity.uuids], repeated=True)


def _renew(connection: sa.Connection, pending: Sequence[sa.Row[Any]], lease: float) -> None:
    """Let the leases of claims begin anew; raises ClaimLost if one has just ended."""
    if not pending:
        return
    # Who ends a lease has locked the node.
    compute_nodes.lock(connection, {row.compute_node_id for row in pending})
    _check_unchanged(connection, pending)
    until = _now(connection) + timedelta(seconds=lease)
    for some in chunks([row.id for row in pending]):
        where = table.c.id.in_(some)
        connection.execute(sa.update(table).where(where).values(expires_at=until))


def release(connection: sa.Connection, uuids: Collection[str], host: str | None = None) -> set[int]:
    """Give back what is claimed for these instances; return the nodes that have changed.

    With a host, what is claimed there, and what was claimed with it or before for elsewhere: an
    instance that the host has lost goes to no alternate either. Confirmed claims stay: the instance
    is there. Raises ClaimLost when somebody else is at it.
    """
    standing, _ = standing_claims.of(connection, uuids)
    if host is not None:
        here = [row for row in standing if row.host == host and row.state != CONFIRMED]
        standing = _no_later_than(here, standing)
    return give_back(connection, standing)


def release_elsewhere(connection: sa.Connection, uuids: Collection[str]) -> set[int]:
    """Give back what instances that are confirmed somewhere have claimed elsewhere.

    That is what was claimed together with the claim that is confirmed, or before: where they are on
    a move from there, the claim of the move is later. Return the nodes that have changed. Raises
    ClaimLost when somebody else is at it.
    """
    standing, _ = standing_claims.of(connection, uuids)
    confirmed = [row for row in standing if row.state == CONFIRMED]
    return give_back(connection, _no_later_than(confirmed, standing))


def _no_later_than(
    these: Iterable[sa.Row[Any]], standing: Iterable[sa.Row[Any]]
) -> list[sa.Row[Any]]:
    """Return the claims that are no younger than one of these for the same instance."""
    latest: dict[str, datetime] = {}
    for row in these:
        latest[row.instance_uuid] = max(row.created_at, latest.get(row.instance_uuid, datetime.min))
    return [
        row for row in standing if row.created_at <= latest.get(row.instance_uuid, datetime.min)
    ]


def give_back(connection: sa.Connection, standing: Iterable[sa.Row[Any]]) -> set[int]:
    """Give back claims that were read before, but for confirmed ones; return the changed nodes.

    Raises ClaimLost when one of them has changed or ended since.
    """
    old = [row for row in standing if row.state != CONFIRMED]
    changes = claimed_nodes.changes(old)
    claimed_nodes.write(connection, changes, old)
    _check_unchanged(connection, old)
    _delete(connection, [row.id for row in old])
    return set(changes)


def _check_unchanged(connection: sa.Connection, old: Sequence[sa.Row[Any]]) -> None:
    """Raise ClaimLost unless claims still are what they were; called with their nodes locked.

    Whoever changes a claim has locked its node, so from now on nobody does.
    """
    if old and {*standing_claims.again(connection, old)} != {*old}:
        raise ClaimLost((), "an older claim has changed or ended")


def _as_group(connection: sa.Connection, order: Order, rule: GroupRule) -> list[Claim]:
    """Return the claims of an order that keep to the rule of its group; raises ClaimLost."""
    try:
        return group_claims.kept(connection, order, rule)
    except group_claims.RuleBroken as error:
        raise ClaimLost(error.nodes, str(error)) from None


def _write_usage(
    connection: sa.Connection, order: Order, old: Sequence[sa.Row[Any]]
) -> Sequence[Claim]:
    """Change the usage of all nodes that are concerned; return the claims that fitted."""
    chosen = [each for each in order.claims if not each.alternate]
    alternates = [each for each in order.claims if each.alternate]
    changes = claimed_nodes.changes(old, order.claims, order.documents)
    without = claimed_nodes.changes(old, chosen, order.documents)
    instead = {each.node_id: without.get(each.node_id) for each in alternates}
    try:
        refused = claimed_nodes.write(connection, changes, old, instead)
    except NoRoom as error:
        reason = "a host has less room or other rules than it had"
        raise ClaimLost({error.node_id}, reason) from None
    return chosen + [each for each in alternates if each.node_id not in refused]


def _replace(
    connection: sa.Connection, old: Sequence[sa.Row[Any]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows in the place of old ones.

    A pending claim is written over: a row that goes and comes again under the same key leaves a
    gap, which others would wait for.
    """
    pending = {row.instance_uuid: row.id for row in old if row.state == PENDING}
    over = {pending[row["instance_uuid"]]: row for row in rows if _is_over(row, pending)}
    _delete(connection, [row.id for row in old if row.id not in over])
    for row_id, row in over.items():
        connection.execute(sa.update(table).where(table.c.id == row_id).values(**row))
    new = [row for row in rows if not _is_over(row, pending)]
    try:
        if new:
            # A list of one would be taken for many, which costs more.
            connection.execute(_INSERT, new if len(new) > 1 else new[0])
    except DBDuplicateEntry:
        raise ClaimLost((), "the same instance was claimed for at the same time") from None


def _in_place(claim: Claim, standing: Iterable[sa.Row[Any]]) -> Claim:
    """Return a claim that follows another of its instance on the same node, as one that does.

    What is there, or comes there, may still be what the other was for.
    """
    places = {(row.instance_uuid, row.compute_node_id) for row in standing}
    there = (claim.instance_uuid, claim.node_id) in places
    return replace(claim, in_place=True) if there else claim


def _is_over(row: Mapping[str, Any], pending: Collection[str]) -> bool:
    return row["state"] == PENDING and row["instance_uuid"] in pending


def _delete(connection: sa.Connection, ids: Sequence[int]) -> None:
    for some in chunks(sorted(ids)):
        connection.execute(sa.delete(table).where(table.c.id.in_(some)))


def _now(connection: sa.Connection) -> datetime:
    moment: datetime | None = connection.scalar(sa.select(utc_moment()))
    assert moment is not None
    return moment


def _rows(order: Order, claims: Sequence[Claim], moment: datetime) -> list[dict[str, Any]]:
    """Return the rows of claims. Those of all claims of an order have the same columns."""
    until = moment + timedelta(seconds=order.lease)
    return [
        {
            "instance_uuid": each.instance_uuid,
            "slot": each.slot,
            "state": ALTERNATE if each.alternate else PENDING,
            "compute_node_id": each.node_id,
            "host": each.host,
            "node": each.node,
            "request_id": order.request_id,
            "digest": order.digest,
            "attempt": order.attempt,
            "answer": each.answer,
            "group_uuid": order.group.uuid if order.group else None,
            "in_place": each.in_place,
            "vcpus": each.vcpus,
            "memory_mb": each.memory_mb,
            "disk_mb": each.disk_mb,
            "numa": each.numa,
            "pci": each.pci,
            "root_gb": 0,
            "ephemeral_gb": 0,
            "created_at": moment,
            "expires_at": until,
            **each.about,
        }
        # Two requests for the same instances wait for each other in one order only.
        for each in sorted(claims, key=lambda each: (each.instance_uuid, -each.slot))
    ]
