# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The usage of locked nodes: claims and releases change it as long as it fits."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims import existing
from inventory.claims.numa_pci_usage import NUMA, PCI, given_back
from inventory.claims.types import (
    HOST,
    AddedClaim,
    Changes,
    Claim,
    ClaimLost,
    NodeChange,
    NodeDocuments,
    Standby,
)
from inventory.dialects import utc_moment
from inventory.fits import whole_gb, within
from inventory.objects.amounts import NOTHING, Amounts
from inventory.revisions import ELIGIBILITY
from inventory.rows import CHUNK, chunks
from inventory.tables import compute_nodes as table

MB_PER_GB = 1024
# The largest number of an integer column.
_LARGEST = 2**31 - 1


@dataclass(slots=True)
class Change:
    """What a request changes of one node; vcpus, memory_mb and disk_mb may be negative.

    limits are the lowest of {vcpu, memory_mb, disk_gb} that filters have set, known the columns
    that must be unchanged. documents are written if the row has the generation, where one is given.
    claimed: the change has new claims, which a deleted node refuses. credit is what is used of the
    node for standbys then, of vCPUs, memory and disk: an evacuated instance may have all of that.
    """

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    claims: int = 0
    limits: dict[str, float] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)
    documents: Mapping[str, str | None] = field(default_factory=dict)
    generation: int | None = None
    claimed: bool = False
    credit: Amounts = NOTHING

    def add(self, claim: Any, sign: int = 1) -> None:
        """Count one claim more, or one less where sign is -1."""
        self.vcpus += sign * claim.vcpus
        self.memory_mb += sign * claim.memory_mb
        self.disk_mb += sign * claim.disk_mb
        self.claims += sign

    def hold(self, vcpus: int, memory_mb: int, disk_mb: int) -> None:
        """Count what reserved places or standbys hold more, or less where it is negative."""
        self.vcpus += vcpus
        self.memory_mb += memory_mb
        self.disk_mb += disk_mb


def changes(
    old: Iterable[sa.Row[Any]],
    claims: Iterable[Claim] = (),
    documents: Mapping[int, NodeDocuments] | None = None,
    more: Iterable[int] = (),
) -> dict[int, Change]:
    """Return by node the change that releases old claims and makes new ones; more are nodes."""
    found = {node_id: Change() for node_id in more}
    for row in old:
        found.setdefault(row.compute_node_id, Change()).add(row, -1)
    for claim in claims:
        change = found.setdefault(claim.node_id, Change())
        change.add(claim)
        bound(change, claim)
    for node_id, each in (documents or {}).items():
        found[node_id].documents, found[node_id].generation = each.texts, each.generation
    return found


def bound(change: Change, claim: Claim | Standby) -> None:
    """Guard the change of a node by what a claim or a standby there was decided from."""
    change.claimed = True
    change.known |= claim.known
    for name, most in claim.limits.items():
        change.limits[name] = min(most, change.limits.get(name, most))


class LockedNodes:
    """Nodes that a transaction has locked, and what it changes of them; write() comes last.

    Every transaction that locks several nodes does so in the order of their ids. The rows are
    written, since a cluster of databases certifies writes only.

    counted is how many claims the instances with these uuids have, and the database's time when
    time.monotonic() was 0; None where they are too many to be counted by the same statement.
    """

    def __init__(
        self, connection: sa.Connection, ids: Iterable[int], uuids: Sequence[str] = ()
    ) -> None:
        self._connection = connection
        self.counted: tuple[int, datetime] | None = None
        # Their generations before, by id.
        self._changed: dict[int, int] = {}
        self._documents: dict[int, dict[str, str | None]] = {}
        self._nodes: dict[int, dict[str, Any]] = {}
        counts = 0 < len(uuids) <= CHUNK
        statement, values = (_LOCK_AND_COUNT, {"uuids": uuids}) if counts else (_LOCK, {})
        for some in chunks(sorted({*ids})):
            began = time.monotonic()
            rows = connection.execute(statement, {"values": some, **values}).all()
            self._nodes |= {row.id: completed(row._asdict()) for row in rows}
            if counts and rows:
                zero = existing.zero_at(connection, rows[0].counted_at, began)
                self.counted = rows[0].claims_of_instances, zero

    def change(
        self,
        changes: Mapping[int, Change],
        old: Sequence[sa.Row[Any]] = (),
        instead: Mapping[int, Change | None] | None = None,
    ) -> set[int]:
        """Make all changes or none, with the documents that old claims give back.

        Where the change of a node does not fit, the one in instead is made, if any. Return the
        nodes of which that is true; raises ClaimLost.
        """
        instead = instead or {}
        chosen: dict[int, Change | None] = {}
        refused, lost = set(), set()
        for node_id, each in changes.items():
            chosen[node_id] = each
            if self._fits(node_id, each):
                continue
            chosen[node_id] = other = instead.get(node_id)
            if node_id not in instead or (other is not None and not self._fits(node_id, other)):
                lost.add(node_id)
            refused.add(node_id)
        if lost:
            raise ClaimLost(lost, "a host has less room or other rules than it had", HOST)
        for node_id, made in chosen.items():
            # A deleted node that is gone has nothing to give back.
            if made is not None and node_id in self._nodes:
                self._apply(node_id, made, [row for row in old if row.compute_node_id == node_id])
        return refused

    def changed(self, made: Iterable[Claim], old: Iterable[sa.Row[Any]] = ()) -> Changes:
        """Return what has been changed of nodes, given the claims that were made and released."""
        found = {}
        for node_id, before in self._changed.items():
            now, texts = self._nodes[node_id], self._documents.get(node_id, {})
            found[node_id] = NodeChange(
                node_id,
                before,
                after=now["generation"],
                vcpus_used=now["vcpus_used"],
                free_ram_mb=now["free_ram_mb"] or 0,
                free_disk_mb=now["free_disk_mb"],
                disk_mb_used=now["disk_mb_used"],
                claims=now["claims"],
                documents=texts,
            )
        for each in made:
            found[each.node_id].added.append(AddedClaim.of(each))
        for row in old:
            if row.compute_node_id in found:
                found[row.compute_node_id].ended.append(row.instance_uuid)
        return [*found.values()]

    def write(self) -> None:
        """Write all nodes that have changed, with one statement."""
        if not self._changed:
            return
        rows = [[self._nodes[each][name] for name in _WRITTEN] for each in sorted(self._changed)]
        write = _WRITE[self._connection.dialect.name == "sqlite"]
        self._connection.execute(write, {"nodes": json.dumps(rows)})
        for node_id, texts in self._documents.items():
            statement = sa.update(table).where(table.c.id == node_id).values(**texts)
            self._connection.execute(statement)

    def _fits(self, node_id: int, change: Change) -> bool:
        """Return whether a change with claims stays within all limits and finds what it knows."""
        if not change.claimed:
            return True
        now = self._nodes.get(node_id)
        if now is None or now["deleted"] or change.generation not in (None, now["generation"]):
            return False
        if any(now[name] != value for name, value in change.known.items()):
            return False
        memory_mb_used = now["memory_mb"] - (now["free_ram_mb"] or 0)
        disk_mb_used = now["local_gb"] * MB_PER_GB - now["free_disk_mb"]
        vcpus, memory_mb, disk_mb = change.credit
        # (used, more), as filters define used.
        used = {
            "vcpu": (now["vcpus_used"] - vcpus, change.vcpus),
            "memory_mb": (memory_mb_used - memory_mb, change.memory_mb),
            "disk_mb": (disk_mb_used - disk_mb, change.disk_mb),
        }
        limits = dict(change.limits)
        if "disk_gb" in limits:
            limits["disk_mb"] = limits.pop("disk_gb") * MB_PER_GB
        # The only bound of a forced host.
        counted = (
            now["vcpus_used"] + change.vcpus,
            now["memory_mb_used"] + change.memory_mb,
            whole_gb(now["disk_mb_used"] + change.disk_mb),
        )
        is_within = all(within(most, *used[name]) for name, most in limits.items())
        return is_within and max(counted) <= _LARGEST

    def _apply(self, node_id: int, change: Change, old: Iterable[sa.Row[Any]]) -> None:
        now = self._nodes[node_id]
        now["disk_mb_used"] += change.disk_mb
        now["free_disk_mb"] -= change.disk_mb
        now["local_gb_used"] = whole_gb(now["disk_mb_used"])
        now["free_disk_gb"] = now["local_gb"] - now["local_gb_used"]
        now["vcpus_used"] += change.vcpus
        now["memory_mb_used"] += change.memory_mb
        if now["free_ram_mb"] is not None:
            now["free_ram_mb"] -= change.memory_mb
        now["claims"] += change.claims
        self._changed.setdefault(node_id, now["generation"])
        now["generation"] += 1
        texts = dict(change.documents)
        if documented := [row for row in old if row.numa or row.pci]:
            (row,) = compute_nodes.lock(self._connection, [node_id])
            before = {NUMA: row.numa_topology, PCI: row.pci_stats}
            texts = given_back(before | self._documents.get(node_id, {}) | texts, documented)
        if texts:
            self._documents[node_id] = {**self._documents.get(node_id, {}), **texts}


def completed(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node with the disk columns that an older agent, or Nova, left empty."""
    if node["disk_mb_used"] is None:
        free = node["free_disk_gb"] or 0
        least = node["disk_available_least"]
        node["disk_mb_used"] = node["local_gb_used"] * MB_PER_GB
        node["free_disk_mb"] = (free if least is None else min(least, free)) * MB_PER_GB
    return node


def used_of(node: dict[str, Any]) -> Amounts:
    """Return what is used of a node as filters see it, with what is held and the host's own."""
    node = completed(node)
    memory_mb = node["memory_mb"] - (node["free_ram_mb"] or 0)
    return node["vcpus_used"], memory_mb, node["local_gb"] * MB_PER_GB - node["free_disk_mb"]


_WRITTEN = (
    *("id", "vcpus_used", "memory_mb_used", "free_ram_mb", "local_gb_used", "free_disk_gb"),
    *("disk_mb_used", "free_disk_mb", "claims", "generation"),
)
_READ = {
    *_WRITTEN,
    *("deleted", "vcpus", "memory_mb", "local_gb", "disk_available_least"),
    *(*compute_nodes.RATIOS, ELIGIBILITY),
}
# Building a statement costs more than running it.
_LOCK = (
    sa.select(*(table.c[name] for name in sorted(_READ)))
    .where(table.c.id.in_(sa.bindparam("values", expanding=True)))
    .order_by(table.c.id)
    .with_for_update()
)
_LOCK_AND_COUNT = _LOCK.add_columns(*existing.COUNT_AND_TIME)


def _write_statement(is_sqlite: bool) -> sa.TextClause:
    """Return the statement for :nodes, a JSON list with a list of _WRITTEN for each node."""
    own = _WRITTEN[0]
    paths = {name: f"'$[{place}]'" for place, name in enumerate(_WRITTEN)}
    if is_sqlite:
        values = {name: f"json_extract(changed.value, {path})" for name, path in paths.items()}
        source = f"FROM json_each(:nodes) AS changed WHERE compute_nodes.{own} = {values[own]}"
        changes = _assigned(values, "", utc_moment.sqlite)
        return sa.text(f"UPDATE compute_nodes SET {changes} {source}")
    columns = ", ".join(f"{name} BIGINT PATH {path}" for name, path in paths.items())
    values = {name: f"changed.{name}" for name in _WRITTEN}
    # In this order and by the key: a scan of a small table would wait for rows of others.
    return sa.text(
        f"UPDATE JSON_TABLE(:nodes, '$[*]' COLUMNS ({columns})) AS changed"
        f" STRAIGHT_JOIN compute_nodes AS node FORCE INDEX (PRIMARY) ON node.{own} = changed.{own}"
        f" SET {_assigned(values, 'node.', utc_moment.mysql)}"
    )


def _assigned(values: Mapping[str, str], prefix: str, moment: str) -> str:
    pairs = [f"{prefix}{name} = {values[name]}" for name in _WRITTEN[1:]]
    return ", ".join([*pairs, f"{prefix}updated_at = {moment}"])


_WRITE = {is_sqlite: _write_statement(is_sqlite) for is_sqlite in (False, True)}
