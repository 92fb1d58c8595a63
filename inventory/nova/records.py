# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What all cells of a cloud say that Placement should agree with."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from inventory import stored_documents
from inventory.nova import computes, servers
from inventory.nova.allocation_audit import (
    AuditedInstance,
    AuditedMigration,
    NovaRecords,
    compared_sizes,
)
from inventory.nova.database import NovaDatabase
from inventory.rows import named_in

# Of an instance that is not built yet.
BUILDING = "building"
_NO_FLAVOR = '{"cur": {"nova_object.data": {}}}'
# The node of a host by both names, as in compute_nodes.
Places = Mapping[tuple[str | None, str | None], str]


def read_records(
    api: NovaDatabase, cells: Sequence[NovaDatabase], is_complete: bool
) -> NovaRecords:
    """Return what the cells have; raises NovaDatabaseUnavailable.

    is_complete says that these are all cells that have hosts.
    """
    nodes: dict[str, str] = {}
    rows: dict[str, Any] = {}
    # In no cell yet, and so without a size: being placed right now.
    instances = [
        AuditedInstance(row.instance_uuid, None, None, None, is_busy=True)
        for row in api.rows("build_requests", "instance_uuid")
    ]
    migrations: list[AuditedMigration] = []
    for cell in cells:
        found = cell.read(lambda connection, cell=cell: _read_cell(connection, cell))  # type: ignore[misc]
        nodes |= found.nodes
        rows |= found.rows
        instances += found.instances
        migrations += found.migrations
    return NovaRecords(nodes, instances, migrations, is_complete, rows)


def _read_cell(connection: sa.Connection, cell: NovaDatabase) -> NovaRecords:
    rows = computes.nodes(connection, cell)
    places = {(row.host, row.hypervisor_hostname): row.uuid for row in rows}
    placed = servers.instances(connection, cell)
    extra = cell.table(connection, "instance_extra")
    found = extra.live("instance_uuid", "flavor")
    uuids = [row.uuid for row in placed]
    flavors = {
        row.instance_uuid: row.flavor
        for row in named_in(connection, found, extra.c.instance_uuid, uuids)
    }
    table = cell.table(connection, "instances")
    unplaced = table.live("uuid", "vm_state", "task_state").where(table.c.host.is_(None))
    return NovaRecords(
        nodes={row.uuid: row.hypervisor_hostname for row in rows},
        rows={row.uuid: row for row in rows},
        instances=[
            *(_placed(row, flavors.get(row.uuid), places) for row in placed),
            *(
                AuditedInstance(row.uuid, None, None, None, _is_busy(row))
                for row in connection.execute(unplaced)
            ),
        ],
        migrations=[
            AuditedMigration(
                row.uuid,
                row.instance_uuid,
                places.get((row.source_compute, row.source_node)),
                places.get((row.dest_compute, row.dest_node)),
            )
            for row in (*servers.migrations(connection, cell), *_evacuations(connection, cell))
        ],
    )


def _evacuations(connection: sa.Connection, cell: NovaDatabase) -> Sequence[Any]:
    """Return the evacuations whose source has not come back to give up what the instance had."""
    table = cell.table(connection, "migrations")
    if "migration_type" not in table.c:
        return []
    of_kind = table.c.migration_type == "evacuation", table.c.status == "done"
    return connection.execute(table.live(*servers.MIGRATION).where(*of_kind)).all()


def _placed(row: Any, flavor: str | None, places: Places) -> AuditedInstance:
    size = row.vcpus or 0, row.memory_mb or 0
    found = stored_documents.read(
        lambda text: compared_sizes(*size, _extra_specs(text)),
        flavor or _NO_FLAVOR,
        f"Document flavor of instance {row.uuid} in Nova",
        "its allocation is compared with its row. Nova writes it again when it is resized",
    )
    vcpus, memory_mb = found or compared_sizes(*size, {})
    node = places.get((row.host, row.node))
    return AuditedInstance(row.uuid, node, vcpus, memory_mb, _is_busy(row))


def _is_busy(row: Any) -> bool:
    return row.task_state is not None or row.vm_state == BUILDING


def _extra_specs(flavor: str) -> Mapping[str, str]:
    """Return the extra specs in what instance_extra has of a flavor."""
    return dict(json.loads(flavor)["cur"]["nova_object.data"].get("extra_specs") or {})
