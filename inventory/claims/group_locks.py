# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Lock server groups, read where their members are, and check policies against that."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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

# The hosts of each member of a group, by instance.
Members = dict[str, set[str]]
# Building a statement costs more than running it.
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_LISTED = sa.select(claimed_groups.c.uuid).where(claimed_groups.c.uuid.in_(_VALUES))
_LOCK = (
    sa.update(claimed_groups)
    .where(claimed_groups.c.uuid.in_(_VALUES))
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
def _claimed(column: str, alternates: bool) -> sa.Select[tuple[str, str, str]]:
    """Return the query for the claims with some values in a column."""
    c = allocations.c
    query = sa.select(c.group_uuid, c.instance_uuid, c.host).where(c[column].in_(_VALUES))
    return query if alternates else query.where(c.state != ALTERNATE)


def ensure(database: Database, uuids: Collection[str]) -> None:
    """Make the rows of groups that have none, in a transaction of its own to avoid deadlocks.

    None are made if another transaction makes one of them at the same time.
    """
    if missing := database.read(lambda connection: _unlisted(connection, uuids)):
        rows = [{"uuid": uuid, "claims": 0} for uuid in missing]
        with suppress(DBDuplicateEntry):
            database.write(lambda each: each.execute(sa.insert(claimed_groups), rows))


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


def lock(connection: sa.Connection, uuids: Collection[str]) -> None:
    """Lock groups against other claims until the transaction ends; raise GroupUnlisted.

    What is read after it is what the last claim has left. The rows are written, since a cluster of
    databases certifies writes only; they are locked in the order of their key.
    """
    if uuids and connection.execute(_LOCK, {"values": sorted(uuids)}).rowcount < len(uuids):
        raise GroupUnlisted(_unlisted(connection, uuids))


def lock_each(
    connection: sa.Connection, rules: Iterable[GroupRule | None]
) -> Mapping[str, Members]:
    """Lock the groups of rules; return their members by group. Raises GroupUnlisted."""
    found: dict[str, Members] = {}
    groups: dict[bool, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for rule in rules:
        if rule is not None:
            groups[rule.most is not None][rule.uuid].update(rule.members)
    lock(connection, {uuid for known in groups.values() for uuid in known})
    for apart, known in groups.items():
        found |= members_of_each(connection, known, apart)
    return found


def members(
    connection: sa.Connection, uuid: str, known: Collection[str], alternates: bool = True
) -> Members:
    """Return the hosts of each member of a group; see members_of_each()."""
    return members_of_each(connection, {uuid: known}, alternates)[uuid]


def members_of_each(
    connection: sa.Connection, groups: Mapping[str, Collection[str]], alternates: bool
) -> dict[str, Members]:
    """Return the members of groups by instance or claim, and of each its hosts.

    groups has the members that are known of each. alternates counts hosts of alternates too, which
    members have to be apart from, but cannot join.
    """
    found: dict[str, Members] = {uuid: {} for uuid in groups}
    groups_of: dict[str, set[str]] = defaultdict(set)
    for uuid, known in groups.items():
        for instance in known:
            groups_of[instance].add(uuid)
    for some in chunks(sorted(groups)):
        for row in connection.execute(_claimed("group_uuid", alternates), {"values": some}):
            groups_of[row.instance_uuid].add(row.group_uuid)
    for some in chunks(sorted(groups_of)):
        claimed = connection.execute(_claimed("instance_uuid", alternates), {"values": some})
        places = [(row.instance_uuid, row.host) for row in claimed] + [*_seen(connection, some)]
        for instance, host in places:
            for uuid in groups_of[instance]:
                found[uuid].setdefault(instance, set()).add(host)
    return found


def places(connection: sa.Connection, uuids: Sequence[str]) -> set[tuple[str, str]]:
    """Return (uuid, host) of these instances where they are, pending claims left out."""
    c, found = allocations.c, set()
    for some in chunks(uuids):
        confirmed = sa.select(c.instance_uuid, c.host).where(c.slot > 0, c.instance_uuid.in_(some))
        found |= {(row.instance_uuid, row.host) for row in connection.execute(confirmed)}
        found |= {*_seen(connection, some)}
    return found


def _unlisted(connection: sa.Connection, uuids: Collection[str]) -> list[str]:
    """Return the groups without rows, in the order in which they are locked."""
    return sorted({*uuids}.difference(connection.scalars(_LISTED, {"values": sorted(uuids)})))


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
    connection: sa.Connection, request: ClaimRequest, groups: Mapping[str, Members]
) -> ClaimRequest:
    """Return the request without the alternates that would break the rule of its group.

    groups is from lock_each(). Members that must share a host have no alternates. Raises ClaimLost
    for the chosen hosts.
    """
    rule = request.group
    if rule is None:
        return request
    apart, mine = rule.most is not None, {*request.identity.uuids}
    others = hosts_of(groups[rule.uuid], mine)
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
