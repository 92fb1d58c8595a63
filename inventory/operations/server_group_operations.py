# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to server groups, and the lists that operators see.

Members are the instances that a group was created with or was given, and those with claims for it.
Operations run one after the other, as for aggregates, and a change of the members locks the group,
as claims do. All functions raise OperationRefused, after which the transaction is rolled back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import audit_log, revisions, server_groups
from inventory.audit_log import GROUP, Changed
from inventory.claims import group_locks
from inventory.claims.types import GroupRule
from inventory.errors import (
    InUse,
    Malformed,
    NotFound,
    checked_text,
    collated,
    counted,
    nearest,
    some,
    taken,
)
from inventory.objects.instance_group import AFFINITY, ANTI_AFFINITY, POLICIES
from inventory.rows import execute_in
from inventory.tables import allocations, server_group_members, standbys
from inventory.tables import claimed_groups as claimed_table
from inventory.tables import server_groups as table

# The rule with the maximum number of members on one host.
MOST = "max_server_per_host"
_REVISION = "server_groups"


def create(
    connection: sa.Connection, name: str, policy: str, most: int | None = None
) -> dict[str, Any]:
    """Create a group without members; most is the maximum on one host."""
    name = checked_text("name", name)
    if policy not in POLICIES:
        raise Malformed("policy", f"{policy!r} is not one of {', '.join(POLICIES)}")
    if most is not None and policy != ANTI_AFFINITY:
        raise Malformed("max per host", f"is for the policy {ANTI_AFFINITY}, not for {policy}")
    if most is not None and most < 1:
        raise Malformed("max per host", f"{most} is less than 1")
    revisions.advance(connection, _REVISION)
    # Requests name groups; the first of several that the database takes for it would be used.
    for row in _rows(connection):
        if collated(row.name) == collated(name):
            raise taken("a server group", name, row.name)
    rules = {} if most is None else {MOST: most}
    after = {"name": name, "policy": policy, "rules": rules}
    audit_log.record(connection, [Changed(GROUP, name, {}, after)])
    return show(connection, server_groups.create(connection, name, policy, rules, ()))


def delete(
    connection: sa.Connection, texts: Iterable[str], force: bool = False
) -> list[dict[str, Any]]:
    """Delete groups, all or none of them; force allows members."""
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
    """Add instances to a group, all or none; force allows a broken policy.

    Instances must exist or have claims, and can be in one group only.
    """
    row, before = _begin(connection, text)
    uuids = list(dict.fromkeys(uuid.strip() for uuid in uuids))
    places = group_locks.members(connection, row.uuid, [*before, *uuids], to_come=False)
    for uuid in uuids:
        if uuid in before:
            raise InUse(f"instance {uuid} is in server group {row.name} already")
        if uuid not in places:
            raise NotFound(
                f"there is no instance {uuid!r}: no agent has seen it, and it has no claim"
            )
    for other in server_groups.memberships(connection, uuids).values():
        where = f"instance {other.instance_uuid} is in server group {other.group_name}"
        raise InUse(f"{where}: an instance can be in one server group only")
    if not force:
        _check_policy(row, {uuid: places[uuid] for uuid in uuids}, places)
    rows = [{"group_id": row.id, "instance_uuid": uuid} for uuid in uuids]
    connection.execute(sa.insert(server_group_members), rows)
    # Claims of earlier decisions check the policy against these.
    _name_group(connection, uuids, row.uuid)
    _log_members(connection, row, [], uuids)
    return show(connection, row.uuid)


def remove_instances(
    connection: sa.Connection, text: str, uuids: Collection[str]
) -> dict[str, Any]:
    """Remove instances from a group, all or none; they stay on their hosts."""
    row, before = _begin(connection, text)
    uuids = list(dict.fromkeys(uuid.strip() for uuid in uuids))
    for uuid in uuids:
        if uuid not in before:
            has = f"has {some(before)}" if before else "has no members"
            raise NotFound(f"instance {uuid!r} is not in server group {row.name}, which {has}")
    gone = sa.delete(server_group_members).where(server_group_members.c.group_id == row.id)
    execute_in(connection, gone, server_group_members.c.instance_uuid, uuids)
    _name_group(connection, uuids, None)
    _log_members(connection, row, uuids, [])
    return show(connection, row.uuid)


def listed(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return the groups with their members."""
    rows = _rows(connection)
    members: dict[str, set[str]] = {row.uuid: set() for row in rows}
    for query in (server_groups.LISTED, server_groups.CLAIMED):
        for row in connection.execute(query):
            # Claims may have groups of Nova, which are not listed.
            members.get(row.group_uuid, set()).add(row.instance_uuid)
    return [_named(row) | {"members": sorted(members[row.uuid])} for row in rows]


def show(connection: sa.Connection, text: str) -> dict[str, Any]:
    """Return the details of the group of this uuid or name."""
    row = _find(_rows(connection), text)
    known = _members(connection, row)
    places = group_locks.members(connection, row.uuid, known)
    return {
        **_named(row),
        "rules": server_groups.rules_of(row),
        "members": sorted({*known, *places}),
        "hosts": sorted({host for hosts in places.values() for host in hosts}),
        "created_at": str(row.created_at or ""),
    }


def _begin(connection: sa.Connection, text: str) -> tuple[sa.Row[Any], set[str]]:
    """Wait for other operations and for claims; return a group with its members."""
    revisions.advance(connection, _REVISION)
    row = _find(_rows(connection), text)
    _lock(connection, row.uuid)
    claimed = sa.select(allocations.c.instance_uuid).where(allocations.c.group_uuid == row.uuid)
    return row, {*_members(connection, row), *connection.scalars(claimed)}


def _lock(connection: sa.Connection, uuid: str) -> None:
    """Lock a group against claims until the transaction ends, even if it has no row yet."""
    try:
        group_locks.lock(connection, [uuid])
    except group_locks.GroupUnlisted:
        try:
            connection.execute(sa.insert(claimed_table).values(uuid=uuid, claims=0))
        # A claim for the first member has just made it.
        except DBDuplicateEntry:
            group_locks.lock(connection, [uuid])


def _check_policy(
    row: sa.Row[Any], new: Mapping[str, Collection[str]], all_: Mapping[str, Collection[str]]
) -> None:
    """Raise InUse if new members would break the policy of the group."""
    if row.policy not in (AFFINITY, ANTI_AFFINITY):
        return
    most = server_groups.rules_of(row).get(MOST, 1) if row.policy == ANTI_AFFINITY else None
    others = group_locks.hosts_of(all_, new)
    chosen = group_locks.hosts_of(new, ()).elements()
    broken = group_locks.broken(GroupRule(row.uuid, (), most), others, chosen)
    if broken:
        raise InUse(
            f"server group {row.name} would break its policy {row.policy} on {some(broken)}: move"
            " instances first, or add the instances nevertheless with --force"
        )


def _name_group(connection: sa.Connection, uuids: Sequence[str], group: str | None) -> None:
    for each in (allocations, standbys):
        change = sa.update(each).values(group_uuid=group)
        execute_in(connection, change, each.c.instance_uuid, uuids)


def _log_members(
    connection: sa.Connection, row: sa.Row[Any], gone: Sequence[str], new: Sequence[str]
) -> None:
    change = Changed(GROUP, row.name, {"members": gone}, {"members": new})
    audit_log.record(connection, [change])


def _delete(connection: sa.Connection, row: sa.Row[Any], force: bool) -> None:
    # Locked, since claims for members are counted next.
    _lock(connection, row.uuid)
    places = group_locks.members(connection, row.uuid, _members(connection, row))
    if places and not force:
        hosts = {host for found in places.values() for host in found}
        raise InUse(
            f"server group {row.name} has {counted(len(places), 'member')}, on {some(hosts)}:"
            f" delete {'it' if len(places) == 1 else 'them'} first, or delete the group"
            " nevertheless with --force: its policy then no longer applies to them"
        )
    of_it = server_group_members.c.group_id == row.id
    connection.execute(sa.delete(server_group_members).where(of_it))
    connection.execute(sa.delete(table).where(table.c.id == row.id))
    if not places:
        lock = claimed_table.c.uuid == row.uuid
        connection.execute(sa.delete(claimed_table).where(lock))
    rules = server_groups.rules_of(row)
    before = {"name": row.name, "policy": row.policy, "rules": rules, "members": sorted(places)}
    audit_log.record(connection, [Changed(GROUP, row.name, before, {})])


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
        hint = nearest(text, (row.name for row in rows), "see 'server group list'")
        raise NotFound(f"there is no server group {text!r}; {hint}")
    if len(found) > 1:
        several = ", ".join(row.uuid for row in found)
        raise Malformed(
            "server group",
            f"{text!r} is the name of several server groups: {several}; name one by its uuid",
        )
    return found[0]


def _members(connection: sa.Connection, row: sa.Row[Any]) -> Sequence[str]:
    column = server_group_members.c.instance_uuid
    query = sa.select(column).where(server_group_members.c.group_id == row.id)
    return connection.scalars(query).all()


def _named(row: sa.Row[Any]) -> dict[str, Any]:
    return {"id": row.uuid, "name": row.name, "policy": row.policy}
