# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Writing what audits found, as far as it differs from what is there."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from compute_agent import settling
from compute_agent.account import Account, Findings, account
from compute_agent.settling import Settled
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory import allocations, compute_nodes, instances
from inventory.compute_nodes import Mark


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that are written together: what was found of them, and in the database beforehand.

    marks are those of the nodes that have rows. looked is when the hypervisor was asked, by the
    clock time.monotonic(). overhead is what a guest takes beyond its flavor.
    """

    found: Sequence[Findings]
    marks: Mapping[NodeName, Mark]
    looked: float
    refresh_after: timedelta
    overhead: Callable[[Guest], Size] = lambda _: Size()

    def old(self) -> set[NodeName]:
        """Return the nodes whose rows readers might take for forgotten."""
        names = (each.name for each in self.found if each.name in self.marks)
        return {name for name in names if self.marks[name].age >= self.refresh_after}


@dataclass(slots=True)
class Stored:
    """The rows that were changed, dead ones included, as the database has them now.

    claims are all that count on these nodes, as rows of instances. generations are those of which
    it is known what the rows of a node say. settled is what became of claims.
    """

    nodes: list[sa.Row[Any]] = field(default_factory=list)
    instances: list[sa.Row[Any]] = field(default_factory=list)
    claims: Sequence[sa.Row[Any]] = ()
    generations: dict[NodeName, int] = field(default_factory=dict)
    settled: dict[NodeName, Settled] = field(default_factory=dict)


def store(connection: sa.Connection, batch: Batch) -> Stored:
    """Write the rows that differ, or were not written for so long that readers might wonder.

    A node's row is written with every change of its instances' rows or claims: its generation
    stands for all of them. From the first statement on nobody else claims on the nodes, so what is
    counted here is what holds when the transaction ends.
    """
    ids = _lock(connection, batch)
    settled = settling.settle(connection, batch.found, ids, batch.looked)
    accounts = [account(each, settled[each.name].pending, batch.overhead) for each in batch.found]
    changed = _replace_instances(connection, accounts, {each.name.host for each in batch.found})
    differing = compute_nodes.differing(connection, [each.row for each in accounts])
    written = {_name(row) for row in differing}
    concerned = batch.old() | changed.keys() | {name for name in ids if settled[name].is_news}
    touched = (concerned & ids.keys()) - written
    compute_nodes.save(connection, differing)
    compute_nodes.touch(connection, [ids[name] for name in touched])
    stored = _read_back(connection, written | touched, changed)
    # Where a mark is older than what was counted, the next audit looks again.
    known = {name: batch.marks[name].generation for name in settled if name in batch.marks}
    known |= stored.generations
    stored.generations = {name: known[name] for name in known if not settled[name].unsure}
    stored.settled = {name: each for name, each in settled.items() if each.is_news}
    return stored


def delete(connection: sa.Connection, names: Collection[NodeName]) -> Stored:
    """Mark nodes as deleted, and what was seen on them; forget what was claimed there."""
    stored = Stored()
    hosts = {name.host for name in names}
    marks = compute_nodes.marks(connection, hosts)
    ids = [marks[place].id for name in names if (place := (name.host, name.node)) in marks]
    compute_nodes.lock(connection, ids)
    occupied = instances.places(connection, hosts)
    for name in names:
        place = (name.host, name.node)
        compute_nodes.delete(connection, name.host, [name.node])
        if place in occupied:
            uuids = instances.replace(connection, *place, [])
            stored.instances += instances.of_place(connection, *place, uuids)
    allocations.forget(connection, ids)
    stored.nodes = compute_nodes.by_ids(connection, ids)
    return stored


def _lock(connection: sa.Connection, batch: Batch) -> dict[NodeName, int]:
    """Let nobody else write the rows of the nodes; return the ids of those that have any.

    A node without a mark may have a row all the same: a dead one that it gets back, or one that
    somebody has just made.
    """
    ids = {each.name: batch.marks[each.name].id for each in batch.found if each.name in batch.marks}
    unknown = {each.name: each.uuid for each in batch.found if each.name not in ids}
    for row in compute_nodes.with_uuids(connection, unknown.values()):
        name = _name(row._mapping)
        if unknown.get(name) == row.uuid:
            ids[name] = row.id
    compute_nodes.lock(connection, ids.values())
    return ids


def _read_back(
    connection: sa.Connection, names: Collection[NodeName], changed: Mapping[NodeName, set[str]]
) -> Stored:
    """Return what was written, changed being the uuids of instances by node."""
    stored = Stored()
    for row in compute_nodes.of_hosts(connection, {name.host for name in names}):
        name = _name(row._mapping)
        if name in names:
            stored.nodes.append(row)
            stored.generations[name] = row.generation
    for name, uuids in changed.items():
        stored.instances += instances.of_place(connection, name.host, name.node, uuids)
    stored.claims = allocations.counted(connection, [row.id for row in stored.nodes if row.claims])
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
