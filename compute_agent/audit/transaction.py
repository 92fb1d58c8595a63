# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Store what an audit found in one transaction, and confirm or expire the claims on the node."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from compute_agent.audit import reserved_places, resizes, unclaimed, usage
from compute_agent.audit.moves import leaving_sizes
from compute_agent.audit.reserved_places import SettledPlaces
from compute_agent.audit.resizes import TICK, ResizedClaims
from compute_agent.audit.row_builder import PollResult, build_rows
from compute_agent.audit.unclaimed import Unclaimed
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory import compute_nodes, instances
from inventory.claims import claim_rows, existing, places, standbys
from inventory.claims.existing import Seen
from inventory.claims.places import Place
from inventory.claims.types import CONFIRMED, PENDING
from inventory.compute_nodes import RowVersion
from inventory.objects.amounts import NOTHING, amounts_of


@dataclass(slots=True)
class ClaimReconciliation:
    """The claims on a node that still count, and the uuids of the instances of all others.

    expired never came; ended had claims that held nothing, or an alternate, or have come elsewhere.
    unsure means that the next audit has to reconcile again whatever it finds. places are those of
    reservations.
    """

    pending: list[Any] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    unsure: bool = False
    places: SettledPlaces = field(default_factory=SettledPlaces)

    @property
    def has_changes(self) -> bool:
        """Return whether anything was written."""
        return bool(self.confirmed or self.expired or self.ended or self.places.has_changes)


def reconcile(
    connection: sa.Connection,
    found: Sequence[PollResult],
    ids: Mapping[NodeName, int],
    rows: Collection[sa.Row[Any]],
    poll_time: datetime,
) -> dict[NodeName, ClaimReconciliation]:
    """Confirm, keep or expire the claims on nodes, whose rows are locked and have these ids.

    rows are these claims; poll_time is when the hypervisor was polled, by the database's clock.
    """
    superseded = existing.superseded(connection, ids.values()) if rows else set()
    on_node: dict[int, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        if row.reservation_uuid is None:
            on_node[row.compute_node_id].append(row)
    held: dict[int, list[Place]] = defaultdict(list)
    for place in places.of_rows(connection, rows):
        held[place.node_id].append(place)
    reconciled = {each.name: ClaimReconciliation() for each in found}
    for each in found:
        node_id = ids.get(each.name, 0)
        if here := on_node.get(node_id):
            reconciled[each.name] = _reconcile(connection, here, each, poll_time, superseded)
        if node_id:
            missing = resizes.unclaimed(each, here or (), node_id, poll_time - TICK)
            claim_rows.insert(connection, missing)
        if node_id in held:
            result = reconciled[each.name]
            result.places = _settle(connection, held[node_id], each, result.pending)
    return reconciled


def _settle(
    connection: sa.Connection,
    there: Collection[Place],
    found: PollResult,
    pending: Iterable[sa.Row[Any]],
) -> SettledPlaces:
    """Hold, give back or end the reserved places on a node, given the claims that stay pending."""
    coming = {row.place_uuid: amounts_of(row) for row in pending if row.place_uuid}
    sizes = leaving_sizes(found.name, found.moves)
    here = usage.on_node(usage.each_once(found.guests), found.managed)
    sizes |= {each.uuid.lower(): each.size for each in here}
    return reserved_places.settle(connection, there, sizes, coming)


def _reconcile(
    connection: sa.Connection,
    rows: Collection[sa.Row[Any]],
    found: PollResult,
    polled_at: datetime,
    superseded: Collection[int],
) -> ClaimReconciliation:
    """Confirm, keep or expire the claims on a node; superseded are ids of claims.

    An instance seen before it was claimed for had been there before, and may be on its way back:
    only a later poll can confirm its claim. One that became overdue since may have come since.
    """
    newest = polled_at + TICK
    later = {row.id for row in rows if row.state != CONFIRMED and row.created_at > newest}
    resized = resizes.settle(found, (row for row in rows if row.id not in later))
    earlier = [row for row in rows if row.id not in later | resized.ids]
    seen = _seen(found, rows)
    lacking = resizes.lacking(found, rows) | resized.unfulfilled
    settlement = existing.reconcile(earlier, seen, polled_at, superseded, lacking)
    _keep_arriving(settlement, earlier, found, superseded)
    _add_resized(settlement, resized, rows, found)
    existing.apply_reconciliation(connection, settlement)
    counting = later | {row.id for row in (*settlement.pending, *resized.kept)}
    confirmed, ended = {*settlement.confirmed}, {*settlement.ended}
    waiting = {row.id for row in rows if row.state == PENDING}
    expired = ended & waiting - {*superseded}
    return ClaimReconciliation(
        pending=[row for row in rows if row.id in counting],
        confirmed=[row.instance_uuid for row in rows if row.id in confirmed],
        expired=[row.instance_uuid for row in rows if row.id in expired],
        ended=[row.instance_uuid for row in rows if row.id in ended - expired],
        unsure=any(row.instance_uuid.lower() in seen for row in rows if row.id in later),
    )


def _add_resized(
    settlement: existing.Reconciliation,
    resized: ResizedClaims,
    rows: Iterable[sa.Row[Any]],
    found: PollResult,
) -> None:
    """Add the claims of resized instances, and where guests are for which claims are confirmed."""
    settlement.confirmed += resized.returned
    settlement.ended += resized.over
    settlement.leaving = [row for row in resized.kept if row.state == CONFIRMED]
    confirmed = {*settlement.confirmed}
    settlement.cells = resizes.cells_of(found, (row for row in rows if row.id in confirmed))


def _keep_arriving(
    settlement: existing.Reconciliation,
    rows: Iterable[sa.Row[Any]],
    found: PollResult,
    superseded: Collection[int],
) -> None:
    """Let claims of cells and devices last as long as the migrations that bring their instances.

    The rows of migrations say nothing of these, and nothing else would hold them.
    """
    arriving = resizes.arriving(found)
    ended = {*settlement.ended} - {*superseded}
    for row in rows:
        exacting = row.state == PENDING and (row.numa or row.pci)
        if row.id in ended and exacting and row.instance_uuid.lower() in arriving:
            settlement.ended.remove(row.id)
            settlement.pending.append(row)


def _seen(found: PollResult, claims: Collection[sa.Row[Any]]) -> Seen:
    """Return the sizes of the instances that were seen on a node.

    Claims of cells and devices end with the guest itself only: managed rows do not have these.
    """
    exacting = {row.instance_uuid.lower() for row in claims if row.numa or row.pci}
    here = usage.on_node(found.guests, found.managed)
    there = [each for each in usage.each_once(found.guests) if each.uuid.lower() in exacting]
    taken_over = [each for each in here if each.uuid.lower() not in exacting] + there
    return {each.uuid.lower(): (each.size.vcpus, each.size.memory_mb) for each in taken_over}


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that are written together: what was found of them, and in the database beforehand.

    marks are those of the nodes that have rows. polled_at is when the hypervisor was polled, by the
    clock time.monotonic(). overhead is what a guest takes beyond its flavor. unclaimed are guests
    that have lacked a claim and a row before the poll; None: such guests are stored at once.
    """

    found: Sequence[PollResult]
    marks: Mapping[NodeName, RowVersion]
    polled_at: float
    refresh_after: timedelta
    overhead: Callable[[Guest], Size] = lambda _: Size()
    unclaimed: Unclaimed | None = None

    def stale(self) -> set[NodeName]:
        """Return the nodes whose rows were not written for too long."""
        names = (each.name for each in self.found if each.name in self.marks)
        return {name for name in names if self.marks[name].age >= self.refresh_after}


@dataclass(slots=True)
class AuditResult:
    """The rows that were changed, deleted ones included, as the database has them now.

    claims are all that count on these nodes, as rows of instances. generations are those in which
    the content of a node's rows is known. reconciled is what became of claims. unclaimed are guests
    that were left out: only a later poll tells whether they are still there.
    """

    nodes: list[sa.Row[Any]] = field(default_factory=list)
    instances: list[sa.Row[Any]] = field(default_factory=list)
    claims: Sequence[sa.Row[Any]] = ()
    generations: dict[NodeName, int] = field(default_factory=dict)
    reconciled: dict[NodeName, ClaimReconciliation] = field(default_factory=dict)
    unclaimed: Unclaimed = field(default_factory=dict)


def store(connection: sa.Connection, batch: Batch) -> AuditResult:
    """Write the rows that differ, or were not written for too long.

    A node's row is written with every change of its instances' rows or claims: its generation
    stands for all of them. The first statement locks the nodes against other claims, so what is
    counted here still holds when the transaction ends.
    """
    ids = _lock(connection, batch)
    claims, now = existing.on_nodes(connection, ids.values())
    unsure: Unclaimed = {}
    found = batch.found
    if (before := batch.unclaimed) is not None:
        unsure = unclaimed.find(connection, found, ids, claims, before)
        found = unclaimed.left_out(found, unsure, before)
        ids = {each.name: ids[each.name] for each in found if each.name in ids}
    poll_time = now - timedelta(seconds=time.monotonic() - batch.polled_at)
    reconciled = reconcile(connection, found, ids, claims, poll_time)
    held = standbys.held_on(connection, ids.values())
    built = [
        build_rows(
            each,
            kept.pending,
            batch.overhead,
            [*kept.places.held, Size(*held.get(ids.get(each.name, 0), NOTHING))],
        )
        for each in found
        for kept in (reconciled[each.name],)
    ]
    changed, changed_instances = _replace_instances(
        connection, {each.polled.name: each.instances for each in built}
    )
    differing = compute_nodes.changed(connection, [each.row for each in built])
    written = {_name(row) for row in differing}
    changed_nodes = batch.stale() | changed | {name for name in ids if reconciled[name].has_changes}
    touched = (changed_nodes & ids.keys()) - written
    compute_nodes.save(connection, differing)
    compute_nodes.touch(connection, [ids[name] for name in touched])
    stored = _read_back(connection, written | touched)
    stored.instances = changed_instances
    # Where a mark is older than what was counted, the next audit looks again.
    known = {name: batch.marks[name].generation for name in reconciled if name in batch.marks}
    known |= stored.generations
    stored.unclaimed = unsure
    stored.generations = {
        name: known[name] for name in known.keys() - unsure if not reconciled[name].unsure
    }
    stored.reconciled = {name: each for name, each in reconciled.items() if each.has_changes}
    return stored


def delete(connection: sa.Connection, names: Collection[NodeName]) -> AuditResult:
    """Mark nodes and the instances on them as deleted, and delete the claims there."""
    marks = compute_nodes.row_versions(connection, {name.host for name in names})
    ids = [marks[place].id for name in names if (place := (name.host, name.node)) in marks]
    compute_nodes.lock(connection, ids)
    for name in names:
        compute_nodes.delete(connection, name.host, [name.node])
    _, changed_instances = _replace_instances(connection, {name: [] for name in names})
    existing.delete_on_nodes(connection, ids)
    return AuditResult(compute_nodes.by_ids(connection, ids), changed_instances)


def _lock(connection: sa.Connection, batch: Batch) -> dict[NodeName, int]:
    """Lock the rows of the nodes; return the ids of the nodes that have one.

    A node without a mark may have a row all the same: a deleted one that it gets back, or one that
    was just made.
    """
    ids = {each.name: batch.marks[each.name].id for each in batch.found if each.name in batch.marks}
    unknown = {each.name: each.uuid for each in batch.found if each.name not in ids}
    for row in compute_nodes.with_uuids(connection, unknown.values()):
        name = _name(row._mapping)
        if unknown.get(name) == row.uuid:
            ids[name] = row.id
    compute_nodes.lock(connection, ids.values())
    return ids


def _read_back(connection: sa.Connection, names: Collection[NodeName]) -> AuditResult:
    """Return the rows of nodes, as they were written, and the claims there."""
    stored = AuditResult()
    for row in compute_nodes.of_hosts(connection, {name.host for name in names}):
        name = _name(row._mapping)
        if name in names:
            stored.nodes.append(row)
            stored.generations[name] = row.generation
    stored.claims = existing.as_instances(
        connection, [row.id for row in stored.nodes if row.claims]
    )
    return stored


def _replace_instances(
    connection: sa.Connection, seen: Mapping[NodeName, Sequence[dict[str, Any]]]
) -> tuple[set[NodeName], list[sa.Row[Any]]]:
    """Write the instances of nodes; return the nodes of those that changed, and their rows."""
    # Hardly any of thousands of fake nodes has a guest: one query instead of one for each.
    occupied = instances.places(connection, {name.host for name in seen})
    changed, rows = set(), list[sa.Row[Any]]()
    for name, here in seen.items():
        place = (name.host, name.node)
        if (here or place in occupied) and (uuids := instances.replace(connection, *place, here)):
            changed.add(name)
            rows += instances.of_place(connection, *place, uuids)
    return changed, rows


def _name(row: Mapping[Any, Any]) -> NodeName:
    return NodeName(row["host"], row["hypervisor_hostname"])
