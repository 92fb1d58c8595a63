# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Read what the database has of nodes besides what their agent wrote.

Managed instances, migrations, and which nodes have overdue claims.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from compute_agent.virt.driver import Guest, Move, NodeName, Size
from inventory import compute_nodes, instance_migrations, instances
from inventory.claims import existing
from inventory.compute_nodes import RowVersion


@dataclass(slots=True)
class DatabaseState:
    """Rows by node; marks are those of the nodes' own rows.

    overdue are the nodes on which some claim is older than its lease.
    """

    marks: dict[NodeName, RowVersion]
    managed: dict[NodeName, list[Guest]] = field(default_factory=dict)
    moves: dict[NodeName, list[Move]] = field(default_factory=dict)
    overdue: set[NodeName] = field(default_factory=set)


def read(connection: sa.Connection, guests: Mapping[NodeName, Collection[Guest]]) -> DatabaseState:
    """Return what the database has of nodes and their hosts, read in one transaction.

    guests are those that the hypervisor reports on each of these nodes.
    """
    hosts = {name.host for name in guests}
    marks = compute_nodes.row_versions(connection, hosts)
    found = DatabaseState({NodeName(*place): mark for place, mark in marks.items()})
    for row in instances.managed(connection, hosts):
        found.managed.setdefault(NodeName(row.host, row.node), []).append(_guest(row))
    seen = {(name.host, name.node): [each.uuid for each in guests[name]] for name in guests}
    only_nodes = _only_nodes({*guests, *found.marks})
    for row in instance_migrations.under_way(connection, hosts, seen):
        move = _move(row, only_nodes)
        for end in filter(None, {move.source, move.destination}):
            found.moves.setdefault(end, []).append(move)
    ids = {found.marks[name].id: name for name in guests if name in found.marks}
    found.overdue = {ids[each] for each in existing.overdue(connection, ids)}
    return found


def _only_nodes(names: Iterable[NodeName]) -> dict[str, str]:
    """Return {host: node} of the hosts that have one node."""
    nodes: dict[str, list[str]] = {}
    for name in names:
        nodes.setdefault(name.host, []).append(name.node)
    return {host: found[0] for host, found in nodes.items() if len(found) == 1}


def _guest(row: sa.Row[Any]) -> Guest:
    return Guest(
        # As hypervisors spell it: guest and row are joined by it.
        uuid=row.uuid.lower(),
        name=row.display_name or row.uuid,
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        root_gb=row.root_gb,
        ephemeral_gb=row.ephemeral_gb,
        swap_mb=row.swap_mb,
        vm_state=row.vm_state or "active",
        task_state=row.task_state,
        project_id=row.project_id,
        os_type=row.os_type,
        flavor_id=row.flavor_id,
        flavor_name=row.flavor_name,
    )


def _move(row: sa.Row[Any], only_nodes: Mapping[str, str]) -> Move:
    return Move(
        instance_uuid=row.instance_uuid.lower(),
        source=_end(row.source_compute, row.source_node, only_nodes),
        destination=_end(row.dest_compute, row.dest_node, only_nodes),
        old=Size(row.old_vcpus, row.old_memory_mb, row.old_disk_mb),
        new=Size(row.new_vcpus, row.new_memory_mb, row.new_disk_mb),
    )


def _end(host: str | None, node: str | None, only_nodes: Mapping[str, str]) -> NodeName | None:
    """Return one end of a migration; the row may omit the node of a host that has one."""
    return NodeName(host, node or only_nodes.get(host, "")) if host else None
