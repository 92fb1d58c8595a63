# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The server groups that instances are members of."""

from collections.abc import Iterable

import sqlalchemy as sa

from inventory import server_groups
from inventory.chunks import chunks
from inventory.server_groups import ServerGroupRecord
from inventory.tables import allocations, server_group_members
from inventory.tables import server_groups as table

# Members are listed, or were claimed for in the name of the group.
_LISTED = sa.select(server_group_members.c.instance_uuid, table.c.uuid).join_from(
    table, server_group_members
)
_CLAIMED = sa.select(allocations.c.instance_uuid, allocations.c.group_uuid)


def of_instances(
    connection: sa.Connection, uuids: Iterable[str]
) -> dict[str, tuple[str, ServerGroupRecord | None]]:
    """Return by instance the uuid of its group, and the group with all of its members.

    Groups that others keep, as Nova does, are known by their uuid only.
    """
    found: dict[str, str] = {}
    for some in chunks(sorted(uuids)):
        for query in (
            _CLAIMED.where(
                allocations.c.instance_uuid.in_(some), allocations.c.group_uuid.is_not(None)
            ),
            _LISTED.where(server_group_members.c.instance_uuid.in_(some)),
        ):
            found.update((row[0], row[1]) for row in connection.execute(query))
    groups = {uuid: _whole(connection, uuid) for uuid in set(found.values())}
    return {instance: (uuid, groups[uuid]) for instance, uuid in found.items()}


def _whole(connection: sa.Connection, uuid: str) -> ServerGroupRecord | None:
    record = server_groups.find(connection, uuid)
    if record is None or record.uuid != uuid:
        return None
    claimed = _CLAIMED.where(allocations.c.group_uuid == uuid)
    more = {row.instance_uuid for row in connection.execute(claimed)} - {*record.members}
    record.members.extend(sorted(more))
    return record
