# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the database says of nodes besides what their agent wrote: managed instances, and moves."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from compute_agent.moves import Move
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory import compute_nodes, instances, moves
from inventory.compute_nodes import Mark


@dataclass(slots=True)
class Records:
    """Rows by the node that they are about; marks are those of the nodes' own rows."""

    marks: dict[NodeName, Mark]
    managed: dict[NodeName, list[Guest]] = field(default_factory=dict)
    moves: dict[NodeName, list[Move]] = field(default_factory=dict)


def read(connection: sa.Connection, hosts: Collection[str]) -> Records:
    """Return what is recorded of the nodes of some hosts, all of it at one moment."""
    marks = compute_nodes.marks(connection, hosts)
    found = Records({NodeName(*place): mark for place, mark in marks.items()})
    for row in instances.managed(connection, hosts):
        found.managed.setdefault(NodeName(row.host, row.node), []).append(_guest(row))
    for row in moves.under_way(connection, hosts):
        move = _move(row)
        for end in filter(None, {move.source, move.destination}):
            found.moves.setdefault(end, []).append(move)
    return found


def _guest(row: sa.Row[Any]) -> Guest:
    return Guest(
        uuid=row.uuid,
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


def _move(row: sa.Row[Any]) -> Move:
    return Move(
        instance_uuid=row.instance_uuid,
        source=_end(row.source_compute, row.source_node),
        destination=_end(row.dest_compute, row.dest_node),
        old=Size(row.old_vcpus, row.old_memory_mb, row.old_disk_mb),
        new=Size(row.new_vcpus, row.new_memory_mb, row.new_disk_mb),
    )


def _end(host: str | None, node: str | None) -> NodeName | None:
    """Return an end of a move; a libvirt host, whose node may be left out, has but one."""
    return NodeName(host, node or host) if host else None
