# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Compute nodes as operators know them: hypervisors that are listed, shown and added up.

A node whose host has no compute service is left out. Source: behaviour reference of compute hosts,
6.3.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory import services, stored_documents
from inventory.errors import Malformed, NotFound, NotReported, nearest
from inventory.queries.host_queries import decoded
from inventory.tables import compute_nodes as table
from inventory.tables import instances
from inventory.tables import services as services_table

FIGURES = (
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used"),
    *("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)
_LIVE = table.c.deleted == 0
_NAMES = (table.c.id, table.c.uuid, table.c.host, table.c.hypervisor_hostname)


def listed(
    connection: sa.Connection, limit: float, matching: str | None = None
) -> list[dict[str, Any]]:
    """Return the hypervisors, or those whose name contains a text in any letter case.

    limit is that of services.is_up(). Raises NotFound if no name matches.
    """
    query = sa.select(*_NAMES).where(_LIVE).order_by(table.c.id)
    if matching:
        name = sa.func.lower(table.c.hypervisor_hostname)
        query = query.where(name.contains(matching.lower(), autoescape=True))
    known = {row.host: row for row in services.all_live(connection, services.COMPUTE[0])}
    found = [
        _names(node) | _condition(known[node.host], limit)
        for node in connection.execute(query)
        if node.host in known
    ]
    if matching and not found:
        others = connection.scalars(sa.select(table.c.hypervisor_hostname).where(_LIVE))
        hint = nearest(matching, others, "see 'hypervisor list'")
        raise NotFound(f"there is no hypervisor with {matching!r} in its name; {hint}")
    return found


def show(connection: sa.Connection, limit: float, name: str) -> dict[str, Any]:
    """Return the details of one hypervisor; see find(). Raises OperationRefused."""
    node = find(connection, name)
    service = _service(connection, node)
    return {
        **_names(node),
        **_condition(service, limit),
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": service.id,
            "host": service.host,
            "disabled_reason": services.switched_off(service)[1],
        },
        **{figure: getattr(node, figure) for figure in FIGURES},
        "cpu_info": decoded(node.cpu_info, "{}"),
    }


def stats(connection: sa.Connection) -> dict[str, int]:
    """Return the number of enabled hypervisors, down ones included, and the sums of their figures.

    Negative figures of a node reduce the sums.
    """
    service = sa.and_(
        services_table.c.host == table.c.host,
        services_table.c.binary == services.COMPUTE[0],
        services_table.c.deleted == 0,
        services.switched_on(),
    )
    sums = [sa.func.sum(table.c[figure]).label(figure) for figure in FIGURES]
    query = sa.select(sa.func.count().label("count"), *sums).select_from(
        table.join(services_table, service)
    )
    row = connection.execute(query.where(_LIVE)).one()
    return {name: int(value or 0) for name, value in row._mapping.items()}


def servers(connection: sa.Connection, name: str) -> list[dict[str, Any]]:
    """Return the instances on the hypervisors of a name; see find(). Raises OperationRefused."""
    nodes = {(node.host, node.hypervisor_hostname) for node in _named(connection, name)}
    c = instances.c
    query = sa.select(c.uuid, c.display_name, c.host, c.node).order_by(c.node, c.display_name)
    here = sa.and_(c.host.in_({host for host, _ in nodes}), c.deleted == 0)
    return [
        {"uuid": row.uuid, "name": row.display_name, "hypervisor_hostname": row.node}
        for row in connection.execute(query.where(here))
        if (row.host, row.node) in nodes
    ]


def uptime(connection: sa.Connection, limit: float, name: str, now: float) -> dict[str, Any]:
    """Return since when a hypervisor is up; now is the time of its machine in seconds since 1970.

    The agent reports the time of the boot. Raises OperationRefused.
    """
    node = find(connection, name)
    condition = _condition(_service(connection, node), limit)
    try:
        booted = int(decoded(node.stats)["booted"])
        booted_at = datetime.fromtimestamp(booted, UTC)
    except (*stored_documents.UNREADABLE, OSError):
        raise NotReported(
            f"the driver of {node.hypervisor_hostname} does not report the boot time of its host"
        ) from None
    seconds = max(0, int(now) - booted)
    return {
        **_names(node),
        **condition,
        "booted_at": booted_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptime_seconds": seconds,
        "uptime": str(timedelta(seconds=seconds)),
    }


def find(connection: sa.Connection, name: str) -> sa.Row[Any]:
    """Return the node of this name, host, uuid or id, in this order; raises NotFound, Malformed."""
    found = _named(connection, name)
    if len(found) > 1:
        ids = ", ".join(f"{node.hypervisor_hostname} ({node.id})" for node in found[:10])
        more = ", ..." if len(found) > 10 else ""
        raise Malformed(
            "hypervisor",
            f"{name!r} is the name of several hypervisors: {ids}{more}; name one by its id",
        )
    return found[0]


def _named(connection: sa.Connection, name: str) -> Sequence[sa.Row[Any]]:
    text = name.strip().lower()
    for condition in (
        sa.func.lower(table.c.hypervisor_hostname) == text,
        sa.func.lower(table.c.host) == text,
        table.c.uuid == text,
        sa.cast(table.c.id, sa.String(20)) == text,
    ):
        query = sa.select(table).where(_LIVE, condition).order_by(table.c.id)
        if found := connection.execute(query).all():
            return found
    known = connection.scalars(sa.select(table.c.hypervisor_hostname).where(_LIVE))
    hint = nearest(name, known, "see 'hypervisor list'")
    raise NotFound(f"there is no hypervisor {name!r}; {hint}")


def _service(connection: sa.Connection, node: sa.Row[Any]) -> sa.Row[Any]:
    service = services.find(connection, node.host, services.COMPUTE[0])
    if service is None:
        raise NotFound(
            f"hypervisor {node.hypervisor_hostname} has lost its compute service: start"
            f" berthmaster-agent on {node.host}"
        )
    return service


def _names(node: Any) -> dict[str, Any]:
    return {"id": node.id, "uuid": node.uuid, "hypervisor_hostname": node.hypervisor_hostname}


def _condition(service: sa.Row[Any], limit: float) -> dict[str, str]:
    status, state = services.status_and_state(service, limit)
    return {"state": state, "status": status}
