# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What hosts have and what is taken of it, with all their nodes together or in one line for each.

Source: behaviour reference of compute hosts, 6.1.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from inventory import services
from inventory.names import some
from inventory.refusals import Malformed, Unknown
from inventory.tables import compute_nodes, instances

TOTAL, USED_NOW, USED_MAX = "(total)", "(used_now)", "(used_max)"
# The guests of which the agent cannot tell whose they are.
NO_PROJECT = "(unknown)"
_FIGURES = (
    "vcpus_used",
    "vcpus",
    "free_ram_mb",
    "memory_mb",
    "free_disk_gb",
    "local_gb",
    "running_vms",
)
_TOTALS = ("vcpus", "memory_mb", "local_gb")
_USED = ("vcpus_used", "memory_mb_used", "local_gb_used")
_SIZE = ("project_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb")
# Columns that hold JSON, and moments.
_DOCUMENTS = ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")
_TIMES = ("created_at", "updated_at", "deleted_at")
# Status and state of a host without a service.
_UNSERVED = ("no service", "down")
_Sums = tuple[int, int, int]


def listed(
    connection: sa.Connection, limit: float, default_zone: str, zone: str | None = None
) -> list[dict[str, Any]]:
    """Return the nodes of all hosts, or of those of a zone, each with its figures and service.

    limit is that of services.is_up().
    """
    table = compute_nodes
    columns = (table.c.host, table.c.hypervisor_hostname, *(table.c[name] for name in _FIGURES))
    query = sa.select(*columns).where(table.c.deleted == 0).order_by(table.c.id)
    nodes = connection.execute(query).all()
    rows = services.listed(connection, limit, default_zone, services.COMPUTE[0])
    known = {row["host"]: row for row in rows}
    unserved = {"zone": "", "status": _UNSERVED[0], "state": _UNSERVED[1]}
    found = []
    for node in nodes:
        service = known.get(node.host, unserved)
        if zone in (None, service["zone"]):
            names = {"host": node.host, "node": node.hypervisor_hostname}
            about = {name: service[name] for name in unserved}
            figures = {name: getattr(node, name) for name in _FIGURES}
            found.append(names | about | figures)
    return found


def describe(connection: sa.Connection, host: str) -> list[dict[str, Any]]:
    """Return what a host has, what is used now, what its instances may use, and this by project.

    What is used now includes what is kept for the host itself. Instances count whatever their
    state. Raises Unknown.
    """
    c = compute_nodes.c
    nodes = _nodes(connection, host, (c.host, *(c[name] for name in _TOTALS + _USED)))
    hosts = {node.host for node in nodes}
    query = sa.select(*(instances.c[name] for name in _SIZE)).where(
        instances.c.host.in_(hosts), instances.c.deleted == 0
    )
    rows = [row._asdict() for row in connection.execute(query)]
    return described(nodes[0].host, [node._asdict() for node in nodes], rows)


def show(
    connection: sa.Connection, host: str, limit: float, node: str | None = None
) -> dict[str, Any]:
    """Return all columns of the node of a host, documents decoded, and how its service is.

    node is its name, for hosts that have several. Raises Unknown and Malformed.
    """
    rows = _nodes(connection, host, compute_nodes.c)
    names = sorted(row.hypervisor_hostname for row in rows)
    found = [row for row in rows if node in (None, row.hypervisor_hostname)]
    if not found:
        raise Unknown(f"host {rows[0].host} has no node {node!r}; it has {some(names)}")
    if len(found) > 1:
        several = f"host {found[0].host} has several, {some(names)}"
        raise Malformed("node", f"{several}: say which with --node")
    shown = dict(found[0]._mapping)
    shown |= {name: _decoded(shown[name]) for name in _DOCUMENTS}
    shown |= {name: str(shown[name] or "") for name in _TIMES}
    service = services.find(connection, found[0].host, services.COMPUTE[0])
    status, state = services.status_and_state(service, limit) if service else _UNSERVED
    return shown | {"status": status, "state": state}


def described(
    host: str, nodes: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return describe() of a host with these nodes and instances."""
    by_project: dict[str, list[_Sums]] = {}
    for row in rows:
        size = (row["vcpus"], row["memory_mb"], row["root_gb"] + row["ephemeral_gb"])
        by_project.setdefault(row["project_id"] or NO_PROJECT, []).append(size)
    lines = [
        (TOTAL, _sum((node[name] for name in _TOTALS) for node in nodes)),
        (USED_NOW, _sum((node[name] for name in _USED) for node in nodes)),
        (USED_MAX, _sum(size for sizes in by_project.values() for size in sizes)),
        *((project, _sum(sizes)) for project, sizes in sorted(by_project.items())),
    ]
    return [
        {"host": host, "project": project, "cpu": cpu, "memory_mb": memory, "disk_gb": disk}
        for project, (cpu, memory, disk) in lines
    ]


def _nodes(
    connection: sa.Connection, host: str, columns: Iterable[sa.ColumnElement[Any]]
) -> Sequence[sa.Row[Any]]:
    """Return columns of the nodes of a host, whatever the letter case; raises Unknown."""
    table, name = compute_nodes, host.strip().lower()
    here = sa.and_(sa.func.lower(table.c.host) == name, table.c.deleted == 0)
    nodes = connection.execute(sa.select(*columns).where(here).order_by(table.c.id)).all()
    if not nodes:
        raise Unknown(f"no compute node of a host {host!r} has reported yet; see 'host list'")
    return nodes


def _decoded(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text


def _sum(sizes: Iterable[Iterable[int]]) -> _Sums:
    cpu = memory = disk = 0
    for more_cpu, more_memory, more_disk in sizes:
        cpu, memory, disk = cpu + more_cpu, memory + more_memory, disk + more_disk
    return cpu, memory, disk
