# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Server groups whose members are claimed for: who else is where, and one claim at a time."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.chunks import chunks
from inventory.engine import Database
from inventory.instance_states import released
from inventory.tables import allocations, claimed_groups, instances

# Made once: making a statement costs more than to run it.
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_LOCK = (
    sa.update(claimed_groups)
    .where(claimed_groups.c.uuid == sa.bindparam("group_uuid"))
    .values(claims=claimed_groups.c.claims + 1)
)
_SEEN = sa.select(
    instances.c.uuid, instances.c.host, instances.c.vm_state, instances.c.task_state
).where(instances.c.uuid.in_(_VALUES), instances.c.deleted == 0)


@cache
def _claimed(column: str, alternates: bool) -> sa.Select[tuple[str, str]]:
    """Return a query for the claims with some values in a column."""
    c = allocations.c
    query = sa.select(c.instance_uuid, c.host).where(c[column].in_(_VALUES))
    return query if alternates else query.where(c.state != "alternate")


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The members of a group may share a host only so many at a time, or must all share one.

    most is None for those that must. hosts are those that callers take for the group's own, which
    counts where nobody else knows of any member. A rule that is not enforced, as for a forced host,
    lets others know of the members that are claimed for.
    """

    uuid: str
    members: Collection[str]
    most: int | None = None
    hosts: Collection[str] = ()
    enforced: bool = True


def ensure(database: Database, uuid: str) -> None:
    """Make the row that stands for a group, unless it is there.

    In a transaction of its own: two that wait for each other to make a row would never end.
    """

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
    """Delete the rows of groups for whose members nothing is claimed; return how many.

    A row only serves as a lock, so that none is missed: it goes when nobody holds it, and who waits
    for it finds it gone and makes it again.
    """
    needed = sa.select(allocations.c.id).where(allocations.c.group_uuid == claimed_groups.c.uuid)
    query = sa.select(claimed_groups.c.uuid).where(~needed.exists())
    idle = database.read(lambda connection: connection.scalars(query).all())
    for some in chunks(sorted(idle)):
        statement = sa.delete(claimed_groups).where(claimed_groups.c.uuid.in_(some))
        database.write(partial(sa.Connection.execute, statement=statement))
    return len(idle)


def lock(connection: sa.Connection, uuid: str) -> bool:
    """Let nobody else claim for a group until the transaction ends; False if it has no row.

    What is read after it is what the last one has left. The row is written, since a cluster of
    databases sees no other locks of its members than those.
    """
    return connection.execute(_LOCK, {"group_uuid": uuid}).rowcount == 1


def members(
    connection: sa.Connection, uuid: str, known: Iterable[str], alternates: bool = True
) -> dict[str, set[str]]:
    """Return the hosts of each member of a group, seen there or claimed for there.

    alternates tells whether to count the hosts to which they may have to go: to keep apart from
    those is wise, to join them is not.
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
    """Return (uuid, host) of these instances where they are, not where they are claimed for."""
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
    """Return how many members of a group each host has, but for some."""
    return Counter(host for each, hosts in members.items() if each not in but for host in hosts)


def broken(rule: GroupRule, others: Counter[str], chosen: Iterable[str]) -> list[str]:
    """Return the chosen hosts, one name for each instance, on which the rule would not hold."""
    mine = Counter(chosen)
    if rule.most is not None:
        return sorted(host for host in mine if others[host] + mine[host] > rule.most)
    there = others.keys() or set(rule.hosts)
    return sorted(mine.keys() - there) if there else sorted(mine)[1:]
