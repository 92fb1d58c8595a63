# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The compute services and compute nodes of a cell, whole or what changed of them."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.nova.database import NovaDatabase, NovaTable
from inventory.rows import named, named_in

COMPUTE = "nova-compute"
SERVICE = (
    *("host", "disabled", "disabled_reason", "forced_down", "last_seen_up"),
    *("created_at", "updated_at", "deleted"),
)
NODE = (
    *("id", "host", "hypervisor_hostname", "uuid", "deleted"),
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used"),
    *("disk_available_least", "hypervisor_type", "hypervisor_version", "cpu_info", "host_ip"),
    *("supported_instances", "metrics", "pci_stats", "stats", "numa_topology"),
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
)


def services(
    connection: sa.Connection, cell: NovaDatabase, hosts: Collection[str] | None = None
) -> list[Any]:
    """Return the live compute services, of these hosts or all, with the columns SERVICE."""
    table = cell.table(connection, "services")
    query = table.live(*SERVICE).where(table.c.binary == COMPUTE)
    return named_in(connection, query, table.c.host, hosts)


def unusual_services(
    connection: sa.Connection, cell: NovaDatabase, since: datetime, seen_since: datetime
) -> list[Any]:
    """Return the services that are new or not healthy, and those that were deleted, deleted first.

    since is for creation and deletion; one whose last heartbeat is older than seen_since is not
    healthy. All others have sent a heartbeat since: thousands of heartbeats make no row.
    """
    table = cell.table(connection, "services")
    c = table.c
    seen = sa.func.coalesce(c.last_seen_up, c.created_at)
    is_late = sa.or_(seen < seen_since, seen.is_(None))
    live = sa.and_(
        c.deleted == 0, sa.or_(c.disabled, c.forced_down, is_late, c.created_at >= since)
    )
    ended = sa.and_(c.deleted != 0, c.deleted_at >= since)
    query = table.select(*SERVICE).where(c.binary == COMPUTE, sa.or_(live, ended))
    return named(connection.execute(query.order_by(c.deleted.desc())))


def is_alive(service: Any, now: datetime, limit: float) -> bool:
    """Return whether Nova takes a service, a row of services(), to be up."""
    seen = service.last_seen_up or service.created_at
    return not service.forced_down and seen is not None and now - seen <= timedelta(seconds=limit)


def switched_at(service: Any) -> datetime | None:
    """Return when a service was last switched, None once a heartbeat has been stamped instead."""
    stamp, seen = service.updated_at, service.last_seen_up
    return stamp if stamp is not None and (seen is None or stamp > seen) else None


def nodes(
    connection: sa.Connection, cell: NovaDatabase, hosts: Collection[str] | None = None
) -> list[Any]:
    """Return the columns NODE of the live compute nodes, of these hosts or all."""
    table = cell.table(connection, "compute_nodes")
    return named_in(connection, table.live(*NODE), table.c.host, hosts)


def written_nodes(connection: sa.Connection, cell: NovaDatabase, since: datetime) -> list[Any]:
    """Return nodes() as far as they have changed since, and those that were deleted."""
    table = cell.table(connection, "compute_nodes")
    return named(connection.execute(table.select(*NODE).where(written(table, since))))


def written(table: NovaTable, since: datetime) -> sa.ColumnElement[bool]:
    """Return the condition for rows that were created, changed or deleted since then."""
    names = ("created_at", "updated_at", "deleted_at")
    stamps: Sequence[sa.ColumnElement[bool]] = [table.c[each] >= since for each in names]
    return sa.or_(*stamps)
