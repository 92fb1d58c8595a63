# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Writing what audits found, as far as it differs from what is there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from compute_agent.account import Account
from compute_agent.virt.driver import NodeName
from inventory import compute_nodes, instances
from inventory.compute_nodes import Mark


@dataclass(slots=True)
class Stored:
    """The rows that were changed, dead ones included, as the database has them now."""

    nodes: list[sa.Row[Any]] = field(default_factory=list)
    instances: list[sa.Row[Any]] = field(default_factory=list)
    generations: dict[NodeName, int] = field(default_factory=dict)


def store(
    connection: sa.Connection,
    accounts: Sequence[Account],
    marks: Mapping[NodeName, Mark],
    refresh_after: timedelta,
) -> Stored:
    """Write the rows that differ, or were not written for so long that readers might wonder.

    A node's row is written with every change of its instances' rows: its generation stands for
    all of them. marks are those of the nodes that have rows, from a moment ago.
    """
    rows = {each.findings.name: each.row for each in accounts}
    changed = _replace_instances(connection, accounts, {name.host for name in rows})
    differing = compute_nodes.differing(connection, list(rows.values()))
    written = {_name(row) for row in differing}
    old = {name for name in rows if name in marks and marks[name].age >= refresh_after}
    # Without a mark somebody has just made that row, and the next audit looks at it again.
    touched = (old | (changed.keys() & marks.keys())) - written
    compute_nodes.save(connection, differing)
    compute_nodes.touch(connection, [marks[name].id for name in touched])
    stored = Stored(generations={name: marks[name].generation for name in rows if name in marks})
    for row in compute_nodes.of_hosts(connection, {name.host for name in written | touched}):
        name = _name(row._mapping)
        if name in written or name in touched:
            stored.nodes.append(row)
            stored.generations[name] = row.generation
    for name, uuids in changed.items():
        stored.instances += instances.of_place(connection, name.host, name.node, uuids)
    return stored


def delete(connection: sa.Connection, names: Collection[NodeName]) -> Stored:
    """Mark nodes as deleted, and what was seen on them."""
    stored = Stored()
    hosts = {name.host for name in names}
    marks = compute_nodes.marks(connection, hosts)
    occupied = instances.places(connection, hosts)
    for name in names:
        place = (name.host, name.node)
        compute_nodes.delete(connection, name.host, [name.node])
        if place in occupied:
            uuids = instances.replace(connection, *place, [])
            stored.instances += instances.of_place(connection, *place, uuids)
    ids = (marks[place].id for name in names if (place := (name.host, name.node)) in marks)
    stored.nodes = compute_nodes.by_ids(connection, ids)
    return stored


def _replace_instances(
    connection: sa.Connection, accounts: Sequence[Account], hosts: Collection[str]
) -> dict[NodeName, set[str]]:
    """Write the instances of the nodes; return the uuids of those that changed by node."""
    # Of thousands of fake nodes hardly any has a guest: one question instead of one for each.
    occupied = instances.places(connection, hosts)
    changed = {}
    for each in accounts:
        place = (each.findings.name.host, each.findings.name.node)
        if each.instances or place in occupied:
            uuids = instances.replace(connection, *place, each.instances)
            if uuids:
                changed[each.findings.name] = uuids
    return changed


def _name(row: Mapping[Any, Any]) -> NodeName:
    return NodeName(row["host"], row["hypervisor_hostname"])
