# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of server groups: instances that must share a host, or must not."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import stored_documents
from inventory.dialects import utc_now
from inventory.objects.instance_group import InstanceGroup
from inventory.rows import select_in
from inventory.tables import allocations, instances, server_group_members, server_groups


def create(
    connection: sa.Connection,
    name: str,
    policy: str,
    rules: Mapping[str, int],
    members: Iterable[str],
) -> str:
    """Create a group and return its uuid."""
    uuid = str(uuid4())
    values = {"uuid": uuid, "name": name, "policy": policy, "rules": json.dumps(dict(rules))}
    stamps = {"created_at": utc_now(), "updated_at": utc_now()}
    result = connection.execute(sa.insert(server_groups).values(**values, **stamps))
    group = int(result.lastrowid)
    rows = [{"group_id": group, "instance_uuid": member} for member in dict.fromkeys(members)]
    if rows:
        connection.execute(sa.insert(server_group_members), rows)
    return uuid


def find(connection: sa.Connection, name_or_uuid: str) -> InstanceGroup | None:
    """Return the group of this uuid, else the first one of this name, else None."""
    uuid = name_or_uuid.lower()
    matches = sa.or_(server_groups.c.uuid == uuid, server_groups.c.name == name_or_uuid)
    rows = connection.execute(
        sa.select(server_groups).where(matches).order_by(server_groups.c.id)
    ).all()
    if not rows:
        return None
    row = min(rows, key=lambda row: row.uuid != uuid)
    of_group = server_group_members.c.group_id == row.id
    query = sa.select(server_group_members.c.instance_uuid).where(of_group)
    members = list(connection.scalars(query))
    places = sa.select(instances.c.host).where(instances.c.deleted == 0)
    hosts = sorted({row.host for row in select_in(connection, places, instances.c.uuid, members)})
    return InstanceGroup(row.uuid, row.policy, members, hosts, rules_of(row), name=row.name)


def rules_of(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the rules of a group's row; none where they are unreadable, which is the strictest."""
    return (
        stored_documents.read(
            lambda text: dict(json.loads(text or "{}")),
            row.rules,
            f"Column rules of server group {row.uuid}",
            "the group counts as a group without rules. Create another group, and delete this"
            " group",
        )
        or {}
    )


# Listed members, and instances with claims. Claims do not know the name of their group.
LISTED = sa.select(
    server_group_members.c.instance_uuid,
    server_groups.c.uuid.label("group_uuid"),
    server_groups.c.name.label("group_name"),
).join_from(server_group_members, server_groups)
CLAIMED = sa.select(
    allocations.c.instance_uuid,
    allocations.c.group_uuid,
    allocations.c.group_uuid.label("group_name"),
).where(allocations.c.group_uuid.is_not(None))


def memberships(connection: sa.Connection, uuids: Iterable[str]) -> dict[str, sa.Row[Any]]:
    """Return (instance_uuid, group_uuid, group_name) of the instances that are in a group."""
    uuids, found = list(uuids), {}
    for query, columns in ((CLAIMED, allocations.c), (LISTED, server_group_members.c)):
        for row in select_in(connection, query, columns.instance_uuid, uuids):
            found[row.instance_uuid] = row
    return found


def of_instances(
    connection: sa.Connection, uuids: Iterable[str]
) -> dict[str, tuple[str, InstanceGroup | None]]:
    """Return by instance the uuid of its group, and the group with all of its members.

    The group is None for those that are not in this database, such as Nova's.
    """
    found = {uuid: row.group_uuid for uuid, row in memberships(connection, uuids).items()}
    groups = {uuid: _whole(connection, uuid) for uuid in set(found.values())}
    return {instance: (uuid, groups[uuid]) for instance, uuid in found.items()}


def _whole(connection: sa.Connection, uuid: str) -> InstanceGroup | None:
    record = find(connection, uuid)
    if record is None or record.uuid != uuid:
        return None
    claimed = connection.scalars(
        sa.select(allocations.c.instance_uuid).where(allocations.c.group_uuid == uuid)
    )
    record.members.extend(sorted({*claimed} - {*record.members}))
    return record
