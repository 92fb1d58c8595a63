# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What operators do to server groups, with the rules for it, and how they see them.

Members are the instances that a group was made with or given, and those that were claimed for in
its name. Orders come one after the other, as for aggregates (see aggregate_orders), and who
changes the members of a group locks it, as those do who claim. All functions raise
OperationRefused, after which the transaction is to be rolled back.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import claimed_groups, names, revisions, server_groups
from inventory.chunks import chunks
from inventory.claimed_groups import GroupRule
from inventory.names import some
from inventory.refusals import InUse, Malformed, Unknown
from inventory.tables import allocations, server_group_members
from inventory.tables import claimed_groups as claimed_table
from inventory.tables import server_groups as table
from scheduler.objects.instance_group import APART, POLICIES, TOGETHER

# How many members of a group may be on one host.
MOST = "max_server_per_host"
_REVISION = "server_groups"


def create(
    connection: sa.Connection, name: str, policy: str, most: int | None = None
) -> dict[str, Any]:
    """Create a group without members; most is how many of them may be on one host."""
    name = names.checked("name", name)
    if policy not in POLICIES:
        raise Malformed("policy", f"{policy!r} is none of {', '.join(POLICIES)}")
    if most is not None and policy != APART:
        raise Malformed("max per host", f"is for the policy {APART}, not for {policy}")
    if most is not None and most < 1:
        raise Malformed("max per host", f"{most} is less than 1")
    revisions.advance(connection, _REVISION)
    # Requests name groups, and of several the first would be meant.
    if any(row.name.casefold() == name.casefold() for row in _rows(connection)):
        raise InUse(f"there is a server group {name!r} already; see 'server group list'")
    rules = {} if most is None else {MOST: most}
    return show(connection, server_groups.create(connection, name, policy, rules, ()))


def delete(
    connection: sa.Connection, texts: Iterable[str], force: bool = False
) -> list[dict[str, Any]]:
    """Delete groups, all or none of them; force deletes those that have members, too."""
    revisions.advance(connection, _REVISION)
    rows = _rows(connection)
    found = {row.id: row for row in (_find(rows, text) for text in texts)}
    gone = [_named(row) for row in found.values()]
    for row in found.values():
        _delete(connection, row, force)
    return gone


def add_instances(
    connection: sa.Connection, text: str, uuids: Collection[str], force: bool = False
) -> dict[str, Any]:
    """Make instances members of a group, all or none; force does so against its policy, too.

    An instance that is somewhere, or is claimed for, is in one group at most.
    """
    row, before = _begin(connection, text)
    uuids = list(dict.fromkeys(uuid.strip() for uuid in uuids))
    places = claimed_groups.members(connection, row.uuid, [*before, *uuids], alternates=False)
    for uuid in uuids:
        if uuid in before:
            raise InUse(f"instance {uuid} is in server group {row.name} already")
        if uuid not in places:
            raise Unknown(
                f"there is no instance {uuid!r}: no agent has seen it and nothing is claimed for it"
            )
    _check_single(connection, uuids)
    if not force:
        _check_policy(row, {uuid: places[uuid] for uuid in uuids}, places)
    rows = [{"group_id": row.id, "instance_uuid": uuid} for uuid in uuids]
    connection.execute(sa.insert(server_group_members), rows)
    # Who has decided before, and claims after, goes by these.
    _name_group(connection, uuids, row.uuid)
    return show(connection, row.uuid)


def remove_instances(
    connection: sa.Connection, text: str, uuids: Collection[str]
) -> dict[str, Any]:
    """Let instances be members of a group no more, all or none; they stay where they are."""
    row, before = _begin(connection, text)
    uuids = list(dict.fromkeys(uuid.strip() for uuid in uuids))
    for uuid in uuids:
        if uuid not in before:
            has = f"has {some(before)}" if before else "has none"
            raise Unknown(f"instance {uuid!r} is not in server group {row.name}, which {has}")
    for few in chunks(uuids):
        of_it = server_group_members.c.group_id == row.id
        these = server_group_members.c.instance_uuid.in_(few)
        connection.execute(sa.delete(server_group_members).where(of_it, these))
    _name_group(connection, uuids, None)
    return show(connection, row.uuid)


def listed(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return the groups with their members, each wherever it is."""
    rows = _rows(connection)
    members: dict[str, set[str]] = {row.uuid: set() for row in rows}
    of_group = sa.select(table.c.uuid, server_group_members.c.instance_uuid).join_from(
        table, server_group_members
    )
    claimed = sa.select(allocations.c.group_uuid, allocations.c.instance_uuid).where(
        allocations.c.group_uuid.is_not(None)
    )
    for query in (of_group, claimed):
        for group, instance in connection.execute(query):
            # Groups that others keep, of which requests tell, are not ours to list.
            members.get(group, set()).add(instance)
    return [_named(row) | {"members": sorted(members[row.uuid])} for row in rows]


def show(connection: sa.Connection, text: str) -> dict[str, Any]:
    """Return all that is known of the group of this uuid or name."""
    row = _find(_rows(connection), text)
    known = _members(connection, row)
    places = claimed_groups.members(connection, row.uuid, known)
    return {
        **_named(row),
        "rules": json.loads(row.rules or "{}"),
        "members": sorted({*known, *places}),
        "hosts": sorted({host for hosts in places.values() for host in hosts}),
        "created_at": str(row.created_at or ""),
    }


def _begin(connection: sa.Connection, text: str) -> tuple[sa.Row[Any], set[str]]:
    """Wait for all other orders, and for who claims; return a group with its members."""
    revisions.advance(connection, _REVISION)
    row = _find(_rows(connection), text)
    _lock(connection, row.uuid)
    claimed = sa.select(allocations.c.instance_uuid).where(allocations.c.group_uuid == row.uuid)
    return row, {*_members(connection, row), *connection.scalars(claimed)}


def _lock(connection: sa.Connection, uuid: str) -> None:
    """Let nobody claim for a group until the transaction ends, also where nobody has yet."""
    if not claimed_groups.lock(connection, uuid):
        try:
            connection.execute(sa.insert(claimed_table).values(uuid=uuid, claims=0))
        # Somebody is about to claim for the first member.
        except DBDuplicateEntry:
            claimed_groups.lock(connection, uuid)


def _check_single(connection: sa.Connection, uuids: Sequence[str]) -> None:
    """Raise InUse for an instance that is in any group."""
    given = sa.select(server_group_members.c.instance_uuid, table.c.name).join_from(
        server_group_members, table
    )
    claimed = sa.select(allocations.c.instance_uuid, allocations.c.group_uuid).where(
        allocations.c.group_uuid.is_not(None)
    )
    for few in chunks(uuids):
        for query, column in ((given, server_group_members.c), (claimed, allocations.c)):
            for uuid, group in connection.execute(query.where(column.instance_uuid.in_(few))):
                raise InUse(f"instance {uuid} is in server group {group}: it can be in one only")


def _check_policy(
    row: sa.Row[Any], new: Mapping[str, Collection[str]], all_: Mapping[str, Collection[str]]
) -> None:
    """Raise InUse where the policy of a group would not hold with new members."""
    if row.policy not in (TOGETHER, APART):
        return
    most = json.loads(row.rules or "{}").get(MOST, 1) if row.policy == APART else None
    others = claimed_groups.hosts_of(all_, new)
    chosen = claimed_groups.hosts_of(new, ()).elements()
    broken = claimed_groups.broken(GroupRule(row.uuid, (), most), others, chosen)
    if broken:
        raise InUse(
            f"server group {row.name} would break its policy {row.policy} on {some(broken)}:"
            " move instances first, or add them all the same with --force"
        )


def _name_group(connection: sa.Connection, uuids: Sequence[str], group: str | None) -> None:
    for few in chunks(uuids):
        these = allocations.c.instance_uuid.in_(few)
        connection.execute(sa.update(allocations).where(these).values(group_uuid=group))


def _delete(connection: sa.Connection, row: sa.Row[Any], force: bool) -> None:
    # Whoever claims for a member has locked it, and what is claimed already is seen.
    _lock(connection, row.uuid)
    places = claimed_groups.members(connection, row.uuid, _members(connection, row))
    if places and not force:
        hosts = {host for found in places.values() for host in found}
        raise InUse(
            f"server group {row.name} has {len(places)} members, on {some(hosts)}:"
            " delete them first, or let nothing keep them together or apart any more with --force"
        )
    of_it = server_group_members.c.group_id == row.id
    connection.execute(sa.delete(server_group_members).where(of_it))
    connection.execute(sa.delete(table).where(table.c.id == row.id))
    if not places:
        lock = claimed_table.c.uuid == row.uuid
        connection.execute(sa.delete(claimed_table).where(lock))


def _rows(connection: sa.Connection) -> Sequence[sa.Row[Any]]:
    return connection.execute(sa.select(table).order_by(table.c.id)).all()


def _find(rows: Sequence[sa.Row[Any]], text: str) -> sa.Row[Any]:
    text = text.strip()
    found = (
        [row for row in rows if row.uuid == text.lower()]
        or [row for row in rows if row.name == text]
        or [row for row in rows if row.name.casefold() == text.casefold()]
    )
    if not found:
        raise Unknown(f"there is no server group {text!r}; see 'server group list'")
    if len(found) > 1:
        several = ", ".join(row.uuid for row in found)
        raise Malformed("server group", f"{text!r} are several: {several}; say which by its uuid")
    return found[0]


def _members(connection: sa.Connection, row: sa.Row[Any]) -> Sequence[str]:
    column = server_group_members.c.instance_uuid
    query = sa.select(column).where(server_group_members.c.group_id == row.id)
    return connection.scalars(query).all()


def _named(row: sa.Row[Any]) -> dict[str, Any]:
    return {"id": row.uuid, "name": row.name, "policy": row.policy}
