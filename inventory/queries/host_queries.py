# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators know them: resources and usage, availability zones, and names.

Source: behaviour reference of compute hosts, 6.1.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import sqlalchemy as sa

from inventory import aggregates, audit_log, daemon_facts, services
from inventory.compute_nodes import RESOURCES
from inventory.errors import Malformed, NotFound, nearest, some
from inventory.queries import fleet
from inventory.rows import named, time_text
from inventory.tables import aggregate_hosts, allocations, compute_nodes, instances
from inventory.tables import services as services_table

TOTAL, USED_NOW, USED_MAX = "(total)", "(used_now)", "(used_max)"
# Guests whose project the agent does not know.
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
_OF_SHARES = [name for name in chain(*RESOURCES.values()) if name not in _FIGURES]
_TOTALS = ("vcpus", "memory_mb", "local_gb")
_USED = ("vcpus_used", "memory_mb_used", "local_gb_used")
_SIZE = ("project_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb")
# Columns with JSON, and with times.
_DOCUMENTS = ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")
_TIMES = ("created_at", "updated_at", "deleted_at")
_Sums = tuple[int, int, int]


def listed(
    connection: sa.Connection,
    limit: float,
    default_zone: str,
    zone: str | None = None,
    aggregate: str | None = None,
    states: Collection[str] = fleet.STATES,
    by_whom: bool = False,
) -> list[dict[str, Any]]:
    """Return the nodes of all hosts, or of a zone, an aggregate and states, with their services.

    Percentages are of what may be allocated. limit is that of services.is_up(). by_whom adds
    switched_by(). Raise NotFound and Malformed as aggregates.find() does.
    """
    table, records = compute_nodes, aggregates.everything(connection)
    columns = (table.c.host, table.c.hypervisor_hostname, *(table.c[name] for name in _FIGURES))
    query = sa.select(*columns, *(table.c[name] for name in _OF_SHARES))
    query = query.where(table.c.deleted == 0).order_by(table.c.id)
    if aggregate is not None:
        wanted = aggregate_hosts.c.aggregate_id == aggregates.find(records, aggregate).id
        query = query.where(table.c.host.in_(sa.select(aggregate_hosts.c.host).where(wanted)))
    nodes = named(connection.execute(query))
    zones_of = aggregates.zones_by_host(records)
    known = {row.host: row for row in services.all_live(connection, services.COMPUTE[0])}
    found = []
    for node in nodes:
        row = known.get(node.host)
        # More than one zone only if not written by our commands.
        in_zone = ", ".join(sorted(zones_of.get(node.host) or {default_zone})) if row else ""
        if zone in (None, in_zone) and fleet.state_of(row, limit) in states:
            names = {"host": node.host, "node": node.hypervisor_hostname, "zone": in_zone}
            figures = {name: getattr(node, name) for name in _FIGURES}
            found.append(names | _service_columns(row, limit) | figures | _percentages(node))
    if by_whom:
        listed_hosts = {each["host"] for each in found} & known.keys()
        switched = switched_by(connection, (known[host] for host in listed_hosts))
        found = [each | (switched.get(each["host"]) or _since_and_by({})) for each in found]
    return found


def _service_columns(row: Any, limit: float) -> dict[str, Any]:
    """Return the status of a compute service as lists of services have it, and its host's state."""
    reason, seen = (services.switched_off(row)[1], row.last_seen_up) if row else (None, None)
    return {
        "status": services.status_and_state(row, limit)[0] if row else "",
        "state": fleet.state_of(row, limit),
        "disabled_reason": reason,
        "last_seen_up": time_text(seen),
    }


def switched_by(connection: sa.Connection, rows: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return by host since when it is disabled or forced down, and by whom, by the audit log.

    rows are of compute services. Maintenance counts as disabled. None stands for what is not so,
    and for what is not in the log.
    """
    switches: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        off = "disabled" if row.maintenance is None else "maintenance"
        names = {"disabled": off, "forced_down": "forced_down"}
        switches[row.host] = {
            name: (row.host, switch)
            for name, switch in names.items()
            if getattr(row, switch) not in (None, False)
        }
    on = {each for names in switches.values() for each in names.values()}
    entries = audit_log.turned_on(connection, on)
    return {
        host: _since_and_by({name: entries[each] for name, each in names.items()})
        for host, names in switches.items()
    }


def _since_and_by(entries: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("disabled", "forced_down"):
        entry = entries.get(name)
        found[f"{name}_since"] = entry and entry["changed_at"]
        found[f"{name}_by"] = entry and entry["operator"]
    return found


def _percentages(node: Any) -> dict[str, int]:
    """Return what is used of each resource in whole percent of what may be allocated."""
    shares = {
        resource: fleet.used_share(*(getattr(node, name) for name in names))
        for resource, names in RESOURCES.items()
    }
    return {f"{resource}_percent": round(100 * share) for resource, share in shares.items()}


def zones(connection: sa.Connection, limit: float, default: str) -> list[dict[str, Any]]:
    """Return the availability zones with the compute services in them.

    A zone is available if one of them is enabled and up. default is the zone of hosts without
    another; limit is that of services.is_up().
    """
    records = aggregates.everything(connection)
    found: dict[str, list[dict[str, Any]]] = {
        zone: [] for record in records for zone in record.zones
    }
    of_host = aggregates.zones_by_host(records)
    for row in services.all_live(connection, services.COMPUTE[0]):
        status, state = services.status_and_state(row, limit)
        shown = {"host": row.host, "binary": row.binary, "status": status, "state": state}
        for zone in of_host.get(row.host) or {default}:
            found.setdefault(zone, []).append(shown)
    usable = ("enabled", "up")
    return [
        {
            "zone": zone,
            "status": "available"
            if any((each["status"], each["state"]) == usable for each in found[zone])
            else "not available",
            "hosts": sorted(found[zone], key=lambda each: each["host"]),
        }
        for zone in sorted(found)
    ]


def check_zone(connection: sa.Connection, name: str, default: str) -> None:
    """Raise NotFound, with similar names, unless there is an availability zone of this name."""
    records = aggregates.everything(connection)
    known = {default, *(zone for record in records for zone in record.zones)}
    if name not in known:
        hint = nearest(name, known, "see 'availability zone list'")
        raise NotFound(f"there is no availability zone {name!r}; {hint}")


def spelled_host(connection: sa.Connection, name: str) -> str:
    """Return a host with a service, a node or a claim as it is spelled there; raises NotFound."""
    query = sa.union(
        sa.select(services_table.c.host).where(services_table.c.deleted == 0),
        sa.select(compute_nodes.c.host).where(compute_nodes.c.deleted == 0),
        sa.select(allocations.c.host),
    )
    return _spelled(name, connection.scalars(query), "host")


def agent_of(connection: sa.Connection, host: str) -> str:
    """Return the name by which the agent of a host is called; raise NotFound for no such host.

    That is the host's own name where the agent has not reported its name.
    """
    row = services.find(connection, host, services.COMPUTE[0])
    return daemon_facts.caller_name(row) if row else spelled_host(connection, host)


def spelled_binary(connection: sa.Connection, name: str) -> str:
    """Return the same for the binary of a service; our own are always known."""
    query = sa.select(services_table.c.binary).where(services_table.c.deleted == 0).distinct()
    ours = (services.COMPUTE[0], services.SCHEDULER[0])
    return _spelled(name, {*ours, *connection.scalars(query)}, "binary")


def describe(connection: sa.Connection, host: str) -> list[dict[str, Any]]:
    """Return the totals of a host, its usage, and the sizes of its instances, also by project.

    Usage includes what is reserved for the host. Instances count in any state. Raises NotFound.
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
    """Return all columns of the node of a host, JSON decoded, and the state of its service.

    node is its name, for hosts with several. Raises NotFound and Malformed.
    """
    rows = _nodes(connection, host, compute_nodes.c)
    names = sorted(row.hypervisor_hostname for row in rows)
    found = [row for row in rows if node in (None, row.hypervisor_hostname)]
    if not found:
        raise NotFound(f"host {rows[0].host} has no node {node!r}; it has {some(names)}")
    if len(found) > 1:
        several = f"host {found[0].host} has several nodes, {some(names)}"
        raise Malformed("node", f"{several}: choose one with --node")
    # Plain keys, since YAML writes none of SQLAlchemy's names.
    shown = {str(name): value for name, value in found[0]._mapping.items()}
    shown |= {name: decoded(shown[name]) for name in _DOCUMENTS}
    shown |= {name: str(shown[name] or "") for name in _TIMES}
    service = services.find(connection, found[0].host, services.COMPUTE[0])
    # It needs numpy, which lists do not load.
    from inventory.queries.promised import room_of

    room = room_of(connection, found[0]._asdict())
    switched = switched_by(connection, [service])[service.host] if service else _since_and_by({})
    return shown | _service_columns(service, limit) | switched | room


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
    """Return columns of the nodes of a host, in any letter case; raises NotFound."""
    table, name = compute_nodes, host.strip().lower()
    here = sa.and_(sa.func.lower(table.c.host) == name, table.c.deleted == 0)
    nodes = connection.execute(sa.select(*columns).where(here).order_by(table.c.id)).all()
    if not nodes:
        known = connection.scalars(sa.select(table.c.host).where(table.c.deleted == 0))
        hint = nearest(host, known, "see 'host list'")
        raise NotFound(f"host {host!r} has no compute node; {hint}")
    return nodes


def _spelled(name: str, names: Iterable[str], kind: str) -> str:
    known = {each.casefold(): each for each in names}
    if name.casefold() not in known:
        hint = nearest(name, known.values(), "see 'service list'")
        raise NotFound(f"there is no {kind} {name!r}; {hint}")
    return known[name.casefold()]


def decoded(text: str | None, empty: str = "null") -> Any:
    """Parse JSON, empty where there is no text; return invalid JSON as it is."""
    try:
        return json.loads(text or empty)
    except (ValueError, RecursionError):
        return text


def _sum(sizes: Iterable[Iterable[int]]) -> _Sums:
    cpu = memory = disk = 0
    for more_cpu, more_memory, more_disk in sizes:
        cpu, memory, disk = cpu + more_cpu, memory + more_memory, disk + more_disk
    return cpu, memory, disk
