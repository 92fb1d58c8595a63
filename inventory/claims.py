# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims: what an instance is going to take of a node, held from the decision until it is there.

One transaction claims for all instances of a request, or for none. It locks in this order, as all
who claim or audit do, so that none waits for one that waits for it: the row of the server group,
rows of nodes by their ids, rows of claims. Source: design, section 5.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import claimed_groups, claimed_nodes
from inventory.chunks import chunks
from inventory.claimed_groups import GroupRule
from inventory.claimed_nodes import NodeDocuments, NoRoom
from inventory.tables import allocations as table
from inventory.tables import utc_moment

PENDING, ALTERNATE, CONFIRMED = "pending", "alternate", "confirmed"
_ENDED = "an older claim was confirmed or has ended"
# An instance is one of the same request in these; the claim of an alternate answers nothing.
_ANSWERING = (PENDING, CONFIRMED)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one instance is to take of a node; disk in MB, documents as JSON.

    limits are {vcpu, memory_mb, disk_gb} as far as filters have set them. about holds columns that
    only describe the instance. An alternate has no documents, and is given up where it does not
    fit.
    """

    instance_uuid: str
    node_id: int
    host: str
    node: str
    vcpus: int
    memory_mb: int
    disk_mb: int
    limits: Mapping[str, float] = field(default_factory=dict)
    answer: str | None = None
    in_place: bool = False
    numa: str | None = None
    pci: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    alternate: bool = False

    @property
    def slot(self) -> int:
        """What makes it the only one of its kind."""
        return -self.node_id if self.alternate else 0


@dataclass(frozen=True, slots=True)
class Order:
    """The claims of one request; leases in seconds.

    The same request has the same id, the same instances and the same digest of all that it says.
    """

    request_id: str | None
    digest: str
    claims: Sequence[Claim]
    lease: float
    alternates_lease: float = 60.0
    group: GroupRule | None = None
    documents: Mapping[int, NodeDocuments] = field(default_factory=dict)

    @property
    def uuids(self) -> list[str]:
        """The instances, in the order of the request."""
        return [each.instance_uuid for each in self.claims if not each.alternate]


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer for each instance of the order; repeated: given before, and not claimed anew.

    left are the nodes on which older claims of the instances were given back.
    """

    answers: Sequence[str | None]
    repeated: bool = False
    left: Collection[int] = ()


class ClaimLost(Exception):
    """Somebody else was faster; nothing is claimed. nodes are those that have changed."""

    def __init__(self, nodes: Collection[int], reason: str) -> None:
        super().__init__(f"lost a race: {reason}")
        self.nodes = nodes
        self.reason = reason


class GroupUnlisted(Exception):
    """There is no row to lock for a server group yet: claimed_groups.ensure() makes one."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"nobody has claimed for server group {uuid} yet")
        self.uuid = uuid


def claim(connection: sa.Connection, order: Order) -> Claimed:
    """Claim for all instances of an order, in the place of what was pending for them.

    Raises ClaimLost and GroupUnlisted, after which the transaction is to be rolled back.
    """
    if order.group and not claimed_groups.lock(connection, order.group.uuid):
        raise GroupUnlisted(order.group.uuid)
    standing = _standing(connection, order.uuids)
    answers = _answered(standing, (order.request_id, order.digest), order.uuids)
    if answers is not None:
        return Claimed(answers, repeated=True)
    if order.group:
        order = replace(order, claims=_check_group(connection, order, order.group))
    old = [row for row in standing if row.state != CONFIRMED]
    kept = _write_usage(connection, order, old)
    _replace(connection, old, _rows(connection, order, kept))
    left = {row.compute_node_id for row in old}
    return Claimed([each.answer for each in kept if not each.alternate], left=left)


def lookup(
    connection: sa.Connection, request_id: str | None, digest: str, uuids: Sequence[str]
) -> tuple[Sequence[str | None] | None, bool]:
    """Return what was answered to the same request, if anything, and whether claims are pending."""
    standing = _standing(connection, uuids)
    pending = any(row.state != CONFIRMED for row in standing)
    return _answered(standing, (request_id, digest), uuids), pending


def _answered(
    standing: Iterable[sa.Row[Any]], request: tuple[str | None, str], uuids: Sequence[str]
) -> list[str | None] | None:
    """Return the answers to the same request, None if it is a new one."""
    same = {
        row.instance_uuid: row.answer
        for row in standing
        if (row.request_id, row.digest) == request and row.state in _ANSWERING
    }
    return [same[uuid] for uuid in uuids] if same.keys() >= {*uuids} else None


def release(connection: sa.Connection, uuids: Collection[str], host: str | None = None) -> set[int]:
    """Give back what is claimed for these instances, on one host only if one is named.

    Return the nodes that have changed. Confirmed claims stay: the instance is there. Raises
    ClaimLost when somebody else is at it.
    """
    old = [
        row
        for row in _standing(connection, uuids)
        if row.state != CONFIRMED and host in (None, row.host)
    ]
    changes = claimed_nodes.changes(old)
    claimed_nodes.write(connection, changes, old)
    _delete(connection, [row.id for row in old])
    return set(changes)


def _standing(connection: sa.Connection, uuids: Collection[str]) -> list[sa.Row[Any]]:
    names = (
        "id instance_uuid state compute_node_id host request_id digest answer"
        " vcpus memory_mb disk_mb numa pci"
    )
    columns = [table.c[name] for name in names.split()]
    rows: list[sa.Row[Any]] = []
    for some in chunks(list(uuids)):
        rows += connection.execute(sa.select(*columns).where(table.c.instance_uuid.in_(some)))
    return rows


def _check_group(connection: sa.Connection, order: Order, rule: GroupRule) -> list[Claim]:
    """Return the claims without those alternates on which the rule would not hold.

    Who must share a host has no other one to go to. Raises ClaimLost for what was chosen.
    """
    apart = rule.most is not None
    others = claimed_groups.others(connection, rule.uuid, rule.members, {*order.uuids}, apart)
    chosen = [each for each in order.claims if not each.alternate]
    hosts = [each.host for each in chosen]
    broken = claimed_groups.broken(rule, others, hosts)
    if broken:
        nodes = {each.node_id for each in chosen if each.host in broken}
        raise ClaimLost(nodes, f"the server group has come to {', '.join(broken[:3])}")
    kept, taken = chosen, others + Counter(hosts)
    for each in order.claims:
        if each.alternate and apart and not claimed_groups.broken(rule, taken, [each.host]):
            kept.append(each)
            taken[each.host] += 1
    return kept


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
        raise ClaimLost({error.node_id}, "a host has less room than it had") from None
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
        where = sa.and_(table.c.id == row_id, table.c.state == PENDING)
        if connection.execute(sa.update(table).where(where).values(**row)).rowcount != 1:
            raise ClaimLost((), _ENDED)
    new = [row for row in rows if not _is_over(row, pending)]
    try:
        if new:
            connection.execute(sa.insert(table), new)
    except DBDuplicateEntry:
        raise ClaimLost((), "the same instance was claimed for at the same time") from None


def _is_over(row: Mapping[str, Any], pending: Collection[str]) -> bool:
    return row["state"] == PENDING and row["instance_uuid"] in pending


def _delete(connection: sa.Connection, ids: Sequence[int]) -> None:
    """Delete rows that were there when the transaction began."""
    for some in chunks(sorted(ids)):
        where = sa.and_(table.c.id.in_(some), table.c.state != CONFIRMED)
        if connection.execute(sa.delete(table).where(where)).rowcount != len(some):
            raise ClaimLost((), _ENDED)


def _rows(connection: sa.Connection, order: Order, claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the rows of claims. Those of all claims of an order have the same columns."""
    moment = connection.scalar(sa.select(utc_moment()))
    assert moment is not None
    lease = {False: timedelta(seconds=order.lease), True: timedelta(seconds=order.alternates_lease)}
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
            "expires_at": moment + lease[each.alternate],
            **each.about,
        }
        # Two requests for the same instances wait for each other in one order only.
        for each in sorted(claims, key=lambda each: (each.instance_uuid, -each.slot))
    ]
