# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The question which instances are protected, and where their standbys are."""

from typing import Any

import sqlalchemy as sa

from inventory.tables import compute_nodes, instances
from inventory.tables import standbys as table


def protected(
    connection: sa.Connection, project: str | None = None, without: bool = False
) -> list[dict[str, Any]]:
    """Return the protected instances by host and uuid: of one project, or those without a standby.

    An instance that moves is there twice, once for each of its places.
    """
    c = table.c
    place, standby = compute_nodes.alias("place"), compute_nodes.alias("standby")
    name = (
        sa.select(sa.func.max(instances.c.display_name))
        .where(instances.c.uuid == c.instance_uuid, instances.c.deleted == 0)
        .scalar_subquery()
    )
    query = (
        sa.select(
            *(c.instance_uuid.label("instance"), name.label("name"), c.project_id.label("project")),
            *(place.c.host.label("host"), c.domains.label("domain"), c.mode),
            *(standby.c.host.label("standby"), c.reason, c.vcpus, c.memory_mb, c.disk_mb),
        )
        .join(place, place.c.id == c.place_node_id, isouter=True)
        .join(standby, standby.c.id == c.compute_node_id, isouter=True)
        .order_by(place.c.host, c.instance_uuid)
    )
    if project is not None:
        query = query.where(c.project_id == project)
    if without:
        query = query.where(c.compute_node_id.is_(None))
    return [dict(row) for row in connection.execute(query).mappings()]
