# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Lock server groups, read where their members are, and check policies against that."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.claims.types import ALTERNATE, GROUP, Claim, ClaimLost, ClaimRequest, GroupRule
from inventory.engine import Database
from inventory.instance_states import released
from inventory.rows import chunks
from inventory.tables import allocations, claimed_groups, instances

# Building a statement costs more than running it.
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_LOCK = (
    sa.update(claimed_groups)
    .where(claimed_groups.c.uuid == sa.bindparam("group_uuid"))
    .values(claims=claimed_groups.c.claims + 1)
)
_SEEN = sa.select(
    instances.c.uuid, instances.c.host, instances.c.vm_state, instances.c.task_state
).where(instances.c.uuid.in_(_VALUES), instances.c.deleted == 0)


class GroupUnlisted(Exception):
    """Server groups have no rows to lock; ensure() makes them."""

    def __init__(self, uuids: Collection[str]) -> None:
        super().__init__(f"no row to lock yet: server group {', '.join(uuids)}")
        self.uuids = uuids


@cache
def _claimed(column: str, alternates: bool) -> sa.Select[tuple[str, str]]:
    """Return the query for the claims with some values in a column."""
    c = allocations.c
    query = sa.select(c.instance_uuid, c.host).where(c[column].in_(_VALUES))
    return query if alternates else query.where(c.state != ALTERNATE)


def ensure(database: Database, uuid: str) -> None:
    """Make the row of a group, unless it exists, in a transaction of its own to avoid deadlocks."""

    def exists(connection: sa.Connection) -> bool:
        query = sa.select(claimed_groups.c.uuid).where(claimed_groups.c.uuid == uuid)
        return connection.scalar(query) is not None

    if not database.read(exists):
        try:
            statement = sa.insert(claimed_groups).values(uuid=uuid, claims=0)
            database.write(lambda connection: connection.execute(statement))
        except DBDuplicateEntry:
            return


def prune(database: Database) -> int:
    """Delete the rows of groups without claims; return how many.

    A row is only a lock: it is deleted when it is not held, and made again when it is needed.
    """
    needed = sa.select(allocations.c.id).where(allocations.c.group_uuid == claimed_groups.c.uuid)
    query = sa.select(claimed_groups.c.uuid).where(~needed.exists())
    idle = database.read(lambda connection: connection.scalars(query).all())
    for some in chunks(sorted(idle)):
        statement = sa.delete(claimed_groups).where(claimed_groups.c.uuid.in_(some))
        database.write(partial(sa.Connection.execute, statement=statement))
    return len(idle)


def lock(connection: sa.Connection, uuid: str) -> bool:
    """Lock a group against other claims until the transaction ends; return False if it has no row.

    What is read after it is what the last claim has left. The row is written, since a cluster of
    databases certifies writes only.
    """
    return connection.execute(_LOCK, {"group_uuid": uuid}).rowcount == 1


def lock_each(connection: sa.Connection, rules: Iterable[GroupRule | None]) -> None:
    """Lock the groups of rules, always in one order; raise GroupUnlisted."""
    uuids = sorted({each.uuid for each in rules if each})
    if unlisted := [uuid for uuid in uuids if not lock(connection, uuid)]:
        raise GroupUnlisted(unlisted)


def members(
    connection: sa.Connection, uuid: str, known: Iterable[str], alternates: bool = True
) -> dict[str, set[str]]:
    """Return the hosts of each member of a group, by instance or claim.

    alternates counts hosts of alternates too, which members have to be apart from, but cannot join.
    """
    found: dict[str, set[str]] = {}
    for row in connection.execute(_claimed("group_uuid", alternates), {"values": [uuid]}):
        found.setdefault(row.instance_uuid, set()).add(row.host)
    for some in chunks(sorted({*known, *found})):
        query = _claimed("instance_uuid", alternates)
        for row in connection.execute(query, {"values": some}):
            found.setdefault(row.instance_uuid, set()).add(row.host)
        for instance, host in _seen(connection, some):
            found.setdefault(instance, set()).add(host)
    return found


def places(connection: sa.Connection, uuids: Sequence[str]) -> set[tuple[str, str]]:
    """Return (uuid, host) of these instances where they are, pending claims left out."""
    c, found = allocations.c, set()
    for some in chunks(uuids):
        confirmed = sa.select(c.instance_uuid, c.host).where(c.slot > 0, c.instance_uuid.in_(some))
        found |= {(row.instance_uuid, row.host) for row in connection.execute(confirmed)}
        found |= {*_seen(connection, some)}
    return found


def _seen(connection: sa.Connection, uuids: Collection[str]) -> Iterator[tuple[str, str]]:
    for row in connection.execute(_SEEN, {"values": uuids}):
        if not released(row.vm_state, row.task_state):
            yield row.uuid, row.host


def hosts_of(members: Mapping[str, Collection[str]], but: Collection[str]) -> Counter[str]:
    """Return how many members of a group each host has, leaving out those in but."""
    return Counter(host for each, hosts in members.items() if each not in but for host in hosts)


def broken(rule: GroupRule, others: Counter[str], chosen: Iterable[str]) -> list[str]:
    """Return those of the chosen hosts, one for each instance, that would break the rule."""
    mine = Counter(chosen)
    if rule.most is not None:
        return sorted(host for host in mine if others[host] + mine[host] > rule.most)
    there = others.keys() or set(rule.hosts)
    return sorted(mine.keys() - there) if there else sorted(mine)[1:]


def within_policy(
    connection: sa.Connection, request: ClaimRequest, rule: GroupRule
) -> ClaimRequest:
    """Return the request without the alternates that would break the rule of its group.

    Members that must share a host have no alternates. Raises ClaimLost for the chosen hosts.
    """
    apart, mine = rule.most is not None, {*request.identity.uuids}
    others = hosts_of(members(connection, rule.uuid, rule.members, apart), mine)
    chosen = [each for each in request.claims if not each.alternate]
    if rule.enforced and broken(rule, others, (each.host for each in chosen)):
        _check_moving(connection, rule, others, chosen)
    found, taken = chosen, others + Counter(each.host for each in chosen)
    for each in request.claims:
        if each.alternate and apart and not broken(rule, taken, [each.host]):
            found.append(each)
            taken[each.host] += 1
    return replace(request, claims=found)


def _check_moving(
    connection: sa.Connection, rule: GroupRule, others: Counter[str], chosen: Collection[Claim]
) -> None:
    """Raise ClaimLost unless the rule holds without the instances that stay on their hosts."""
    # With anti-affinity these may be resized next to any other, as in the filter.
    uuids = [each.instance_uuid for each in chosen]
    there = places(connection, uuids) if rule.most is not None else set()
    moving = [each for each in chosen if (each.instance_uuid, each.host) not in there]
    hosts = broken(rule, others, (each.host for each in moving))
    if hosts:
        nodes = {each.node_id for each in moving if each.host in hosts}
        raise ClaimLost(nodes, f"the server group has come to {', '.join(hosts[:3])}", GROUP)
