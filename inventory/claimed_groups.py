# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Server groups whose members are claimed for: who else is where, and one claim at a time."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.chunks import chunks
from inventory.engine import Database
from inventory.instance_states import released
from inventory.tables import allocations, claimed_groups, instances


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The members of a group may share a host only so many at a time, or must all share one.

    most is None for those that must. hosts are those that callers take for the group's own, which
    counts where nobody else knows of any member.
    """

    uuid: str
    members: Collection[str]
    most: int | None = None
    hosts: Collection[str] = ()


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


def lock(connection: sa.Connection, uuid: str) -> bool:
    """Let nobody else claim for a group until the transaction ends; False if it has no row.

    What is read after it is what the last one has left. The row is written, since a cluster of
    databases sees no other locks of its members than those.
    """
    locked = connection.execute(
        sa.update(claimed_groups)
        .where(claimed_groups.c.uuid == uuid)
        .values(claims=claimed_groups.c.claims + 1)
    )
    return locked.rowcount == 1


def others(
    connection: sa.Connection,
    uuid: str,
    members: Iterable[str],
    but: Collection[str],
    alternates: bool = True,
) -> Counter[str]:
    """Return how many members of a group each host has, seen or claimed for, but for some.

    alternates tells whether to count the hosts to which they may have to go: to keep apart from
    those is wise, to join them is not.
    """
    c = allocations.c
    claims = sa.select(c.instance_uuid, c.host)
    if not alternates:
        claims = claims.where(c.state != "alternate")
    found = {
        (row.instance_uuid, row.host)
        for row in connection.execute(claims.where(c.group_uuid == uuid))
    }
    known = sorted({*members, *(instance for instance, _ in found)})
    for some in chunks(known):
        rows = connection.execute(claims.where(c.instance_uuid.in_(some)))
        found |= {(row.instance_uuid, row.host) for row in rows}
        i = instances.c
        seen = sa.select(i.uuid, i.host, i.vm_state, i.task_state).where(
            i.uuid.in_(some), i.deleted == 0
        )
        for row in connection.execute(seen):
            if not released(row.vm_state, row.task_state):
                found.add((row.uuid, row.host))
    return Counter(host for instance, host in found if instance not in but)


def broken(rule: GroupRule, others: Counter[str], chosen: Iterable[str]) -> list[str]:
    """Return the chosen hosts, one name for each instance, on which the rule would not hold."""
    mine = Counter(chosen)
    if rule.most is not None:
        return sorted(host for host in mine if others[host] + mine[host] > rule.most)
    there = others.keys() or set(rule.hosts)
    return sorted(mine.keys() - there) if there else sorted(mine)[1:]
