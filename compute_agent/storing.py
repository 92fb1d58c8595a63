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


@dataclass(slots=True)
class Stored:
    """The rows that were changed, dead ones included, as the database has them now."""

    nodes: list[sa.Row[Any]] = field(default_factory=list)
    instances: list[sa.Row[Any]] = field(default_factory=list)
    generations: dict[NodeName, int] = field(default_factory=dict)


def store(
    connection: sa.Connection, accounts: Sequence[Account], refresh_after: timedelta
) -> Stored:
    """Write the rows that differ, or were not written for so long that readers might wonder.

    A node's row is written with every change of its instances' rows: its generation stands for
    all of them.
    """
    hosts = {each.findings.name.host for each in accounts}
    marks = compute_nodes.marks(connection, hosts)
    changed = _replace_instances(connection, accounts, hosts)
    differing = {_place(row) for row in compute_nodes.differing(connection, _rows(accounts))}
    old = {place for place, mark in marks.items() if mark.age >= refresh_after}
    writing = [row for row in _rows(accounts) if _place(row) in {*differing, *old, *changed}]
    compute_nodes.save(connection, writing)
    marks = compute_nodes.marks(connection, hosts)
    generations = {NodeName(*place): mark.generation for place, mark in marks.items()}
    stored = Stored(generations=generations)
    stored.nodes = compute_nodes.by_ids(connection, [marks[_place(row)].id for row in writing])
    for place, uuids in changed.items():
        stored.instances += instances.of_place(connection, *place, uuids)
    return stored


def delete(connection: sa.Connection, names: Collection[NodeName]) -> Stored:
    """Mark nodes as deleted, and what was seen on them."""
    stored = Stored()
    for name in names:
        marks = compute_nodes.marks(connection, [name.host])
        uuids = instances.replace(connection, name.host, name.node, [])
        compute_nodes.delete(connection, name.host, [name.node])
        stored.nodes += compute_nodes.by_ids(connection, [marks[name.host, name.node].id])
        stored.instances += instances.of_place(connection, name.host, name.node, uuids)
    return stored


def _replace_instances(
    connection: sa.Connection, accounts: Sequence[Account], hosts: Collection[str]
) -> dict[tuple[str, str], set[str]]:
    """Write the instances of the nodes; return the uuids of those that changed by node."""
    # Of thousands of fake nodes hardly any has a guest: one question instead of one for each.
    occupied = instances.places(connection, hosts)
    changed = {}
    for each in accounts:
        place = (each.findings.name.host, each.findings.name.node)
        if each.instances or place in occupied:
            uuids = instances.replace(connection, *place, each.instances)
            if uuids:
                changed[place] = uuids
    return changed


def _rows(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    return [each.row for each in accounts]


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["host"], row["hypervisor_hostname"]
