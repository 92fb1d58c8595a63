# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Server groups: instances that belong together or apart."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import uuid4

import sqlalchemy as sa

from inventory.tables import instances, server_group_members, server_groups, utc_now


@dataclass(frozen=True, slots=True)
class ServerGroupRecord:
    """One group: its policy, members and the hosts on which members were seen."""

    uuid: str
    name: str
    policy: str
    rules: dict[str, int]
    members: list[str]
    hosts: list[str]


def create(
    connection: sa.Connection,
    name: str,
    policy: str,
    rules: Mapping[str, int],
    members: Iterable[str],
) -> str:
    """Create a group and return its uuid."""
    uuid = str(uuid4())
    result = connection.execute(
        sa.insert(server_groups).values(
            uuid=uuid,
            name=name,
            policy=policy,
            rules=json.dumps(dict(rules)),
            created_at=utc_now(),
            updated_at=utc_now(),
        )
    )
    group = int(result.lastrowid)
    rows = [{"group_id": group, "instance_uuid": member} for member in dict.fromkeys(members)]
    if rows:
        connection.execute(sa.insert(server_group_members), rows)
    return uuid


def find(connection: sa.Connection, name_or_uuid: str) -> ServerGroupRecord | None:
    """Return the group of this uuid, else the first one of this name, else None."""
    matches = sa.or_(server_groups.c.uuid == name_or_uuid, server_groups.c.name == name_or_uuid)
    rows = connection.execute(
        sa.select(server_groups).where(matches).order_by(server_groups.c.id)
    ).all()
    if not rows:
        return None
    row = next((row for row in rows if row.uuid == name_or_uuid), rows[0])
    of_group = server_group_members.c.group_id == row.id
    members = list(
        connection.scalars(sa.select(server_group_members.c.instance_uuid).where(of_group))
    )
    places = sa.select(instances.c.host).where(
        instances.c.deleted == 0, instances.c.uuid.in_(members)
    )
    hosts = sorted(set(connection.scalars(places))) if members else []
    rules = json.loads(row.rules or "{}")
    return ServerGroupRecord(row.uuid, row.name, row.policy, rules, members, hosts)
