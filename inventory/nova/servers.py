# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of a cell with what belongs to them, and their migrations."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from inventory.instance_states import ENDED, MOVES
from inventory.nova.database import NovaDatabase
from inventory.rows import named, named_in

INSTANCE = (
    *("uuid", "host", "node", "deleted", "updated_at", "vm_state", "task_state", "vcpus"),
    *("memory_mb", "root_gb", "ephemeral_gb", "image_ref", "instance_type_id", "display_name"),
    *("project_id", "os_type"),
)
MIGRATION = (
    *("id", "uuid", "deleted", "instance_uuid", "status", "migration_type"),
    *("source_compute", "source_node", "dest_compute", "dest_node"),
    *("old_instance_type_id", "new_instance_type_id"),
)
# Migrations that are read besides those that are under way and new: of two that begin at once, that
# with the larger number may be seen first.
_LATE = 100
# To Nova one that failed in this way holds nothing either.
_ENDED = ENDED | {"error"}
# Besides the properties of an image Nova keeps these of it, in the same way.
_IMAGE = "image_"
_NO_PROPERTIES = frozenset({"min_ram", "min_disk", "disk_format", "container_format"})


@dataclass(slots=True)
class Extra:
    """What Nova keeps of an instance elsewhere: JSON texts, and the properties of its image."""

    flavor: str | None = None
    numa_topology: str | None = None
    image_properties: dict[str, str] = field(default_factory=dict)
    migration_context: str | None = None


def instances(
    connection: sa.Connection, cell: NovaDatabase, hosts: Collection[str] | None = None
) -> list[Any]:
    """Return the columns INSTANCE of the instances that are on these hosts, or on any."""
    table = cell.table(connection, "instances")
    query = table.live(*INSTANCE).where(table.c.host.is_not(None))
    return named_in(connection, query, table.c.host, hosts)


def written_instances(
    connection: sa.Connection, cell: NovaDatabase, since: datetime, also: Collection[str]
) -> list[Any]:
    """Return the columns INSTANCE of what was changed since, and of those with the uuids also.

    They may be nowhere, or deleted, which is no change to Nova.
    """
    # The stamp has an index, and nothing is on a host that was not changed since its creation.
    table = cell.table(connection, "instances")
    query = table.select(*INSTANCE)
    found = named(connection.execute(query.where(table.c.updated_at >= since)))
    return found + (named_in(connection, query, table.c.uuid, also) if also else [])


def extras(
    connection: sa.Connection, cell: NovaDatabase, uuids: Iterable[str]
) -> Mapping[str, Extra]:
    """Return what belongs to instances, by their uuids."""
    wanted = list(uuids)
    found: dict[str, Extra] = defaultdict(Extra)
    table = cell.table(connection, "instance_extra")
    query = table.live("instance_uuid", "flavor", "numa_topology", "migration_context")
    for row in named_in(connection, query, table.c.instance_uuid, wanted):
        found[row.instance_uuid].flavor = row.flavor
        found[row.instance_uuid].numa_topology = row.numa_topology
        found[row.instance_uuid].migration_context = row.migration_context
    table = cell.table(connection, "instance_system_metadata")
    query = table.live("instance_uuid", "key", "value")
    query = query.where(table.c.key.startswith(_IMAGE, autoescape=True))
    for row in named_in(connection, query, table.c.instance_uuid, wanted):
        name = row.key.removeprefix(_IMAGE)
        if name not in _NO_PROPERTIES and not name.startswith("base_"):
            found[row.instance_uuid].image_properties[name] = row.value or ""
    return found


def migrations(
    connection: sa.Connection,
    cell: NovaDatabase,
    known: Collection[int] | None = None,
    after: int = 0,
) -> list[Any]:
    """Return the columns MIGRATION of moves.

    All that are under way; with known those with these numbers, or with one above after.
    """
    table = cell.table(connection, "migrations")
    c = table.c
    # What is not in a row of this release is no condition either.
    kinds = [c.migration_type.in_(MOVES)] if "migration_type" in c else []
    if known is None:
        query = table.live(*MIGRATION).where(c.status.not_in(_ENDED), *kinds)
        return named(connection.execute(query.order_by(c.id)))
    # Not by stamps: few are under way, and one that is over stays so.
    query = table.select(*MIGRATION).where(*kinds)
    new = named(connection.execute(query.where(c.id > after - _LATE)))
    return new + named_in(connection, query, c.id, known)


def is_under_way(migration: Any) -> bool:
    """Return whether a row of migrations() still uses resources."""
    return not migration.deleted and migration.status not in _ENDED
