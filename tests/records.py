# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that whoever builds and moves instances keeps in the database, beside those of agents."""

from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory.dialects import utc_now
from inventory.engine import Database
from inventory.tables import instances, migrations

NOBODY = "00000000-0000-0000-0000-{:012d}"


def manage(database: Database, uuid: str, host: str, node: str, **changes: Any) -> None:
    """Write the managed row of an instance of 1 CPU, 1024 MiB and 10 GiB, or change it."""
    ordinary = {
        "display_name": f"instance {uuid[-2:]}",
        "project_id": "p1",
        "vcpus": 1,
        "memory_mb": 1024,
        "root_gb": 10,
        "vm_state": "active",
        "managed": True,
        "deleted": 0,
    }
    place = {"uuid": uuid, "host": host, "node": node}

    def write(connection: sa.Connection) -> None:
        where = [instances.c[name] == each for name, each in place.items()]
        found = connection.execute(sa.select(instances.c.id).where(*where)).first()
        if found is None:
            row = {**ordinary, **changes, **place, "created_at": utc_now()}
            connection.execute(sa.insert(instances).values(**row, updated_at=utc_now()))
        else:
            changed = {"managed": True, "deleted": 0, **changes, "updated_at": utc_now()}
            connection.execute(sa.update(instances).where(*where).values(**changed))

    database.write(write)


def unmanage(database: Database, uuid: str) -> None:
    """Mark the managed rows of an instance as deleted."""
    where = (instances.c.uuid == uuid, instances.c.managed)
    values = {"deleted": instances.c.id, "deleted_at": utc_now(), "updated_at": utc_now()}
    database.write(lambda each: each.execute(sa.update(instances).where(*where).values(**values)))


def migrate(
    database: Database, uuid: str, source: str | None, destination: str | None, **changes: Any
) -> int:
    """Write a migration between nodes called as their hosts, from 2 GiB to 4 GiB; return its id."""
    ordinary = {
        "uuid": str(uuid4()),
        "instance_uuid": uuid,
        "migration_type": "resize",
        "status": "migrating",
        "source_compute": source,
        "source_node": source,
        "dest_compute": destination,
        "dest_node": destination,
        "old_vcpus": 1,
        "old_memory_mb": 2048,
        "old_disk_mb": 10240,
        "new_vcpus": 2,
        "new_memory_mb": 4096,
        "new_disk_mb": 20480,
        "created_at": utc_now(),
        "updated_at": utc_now(),
    }
    statement = sa.insert(migrations).values(**ordinary | changes)
    key = database.write(lambda each: each.execute(statement).inserted_primary_key)
    assert key is not None
    return int(key[0])


def change_migration(database: Database, number: int, **changes: Any) -> None:
    """Change the row of a migration."""
    statement = sa.update(migrations).where(migrations.c.id == number)
    values = {"updated_at": utc_now(), **changes}
    database.write(lambda each: each.execute(statement.values(**values)))
