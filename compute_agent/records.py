# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the database says of nodes besides what their agent wrote.

Managed instances, moves, and which nodes have claims that nobody waits for any more.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from compute_agent.moves import Move
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory import allocations, compute_nodes, instances, moves
from inventory.compute_nodes import Mark


@dataclass(slots=True)
class Records:
    """Rows by the node that they are about; marks are those of the nodes' own rows.

    overdue are the nodes on which some claim has waited for longer than its lease.
    """

    marks: dict[NodeName, Mark]
    managed: dict[NodeName, list[Guest]] = field(default_factory=dict)
    moves: dict[NodeName, list[Move]] = field(default_factory=dict)
    overdue: set[NodeName] = field(default_factory=set)


def read(connection: sa.Connection, guests: Mapping[NodeName, Collection[Guest]]) -> Records:
    """Return what is recorded of some nodes and their hosts, all of it at one moment.

    guests are those that the hypervisor has on each of these nodes.
    """
    hosts = {name.host for name in guests}
    marks = compute_nodes.marks(connection, hosts)
    found = Records({NodeName(*place): mark for place, mark in marks.items()})
    for row in instances.managed(connection, hosts):
        found.managed.setdefault(NodeName(row.host, row.node), []).append(_guest(row))
    seen = {(name.host, name.node): [each.uuid for each in guests[name]] for name in guests}
    lonely = _lonely({*guests, *found.marks})
    for row in moves.under_way(connection, hosts, seen):
        move = _move(row, lonely)
        for end in filter(None, {move.source, move.destination}):
            found.moves.setdefault(end, []).append(move)
    ids = {found.marks[name].id: name for name in guests if name in found.marks}
    found.overdue = {ids[each] for each in allocations.overdue(connection, ids)}
    return found


def _lonely(names: Iterable[NodeName]) -> dict[str, str]:
    """Return the nodes that are the only one of their hosts, by the host."""
    nodes: dict[str, list[str]] = {}
    for name in names:
        nodes.setdefault(name.host, []).append(name.node)
    return {host: found[0] for host, found in nodes.items() if len(found) == 1}


def _guest(row: sa.Row[Any]) -> Guest:
    return Guest(
        # As hypervisors spell it, whose guest counts with this row.
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


def _move(row: sa.Row[Any], lonely: Mapping[str, str]) -> Move:
    return Move(
        instance_uuid=row.instance_uuid.lower(),
        source=_end(row.source_compute, row.source_node, lonely),
        destination=_end(row.dest_compute, row.dest_node, lonely),
        old=Size(row.old_vcpus, row.old_memory_mb, row.old_disk_mb),
        new=Size(row.new_vcpus, row.new_memory_mb, row.new_disk_mb),
    )


def _end(host: str | None, node: str | None, lonely: Mapping[str, str]) -> NodeName | None:
    """Return an end of a move; its node may be left out where the host has but one."""
    return NodeName(host, node or lonely.get(host, "")) if host else None
