# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guarded UPDATE of compute_nodes: claims and releases change usage as long as it fits."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims.numa_pci_usage import NUMA, PCI, given_back
from inventory.claims.types import Claim, ClaimLost, NodeDocuments
from inventory.fits import within
from inventory.tables import compute_nodes as table
from inventory.tables import utc_moment

MB_PER_GB = 1024
# The largest number of an integer column.
_LARGEST = 2**31 - 1


@dataclass(slots=True)
class Change:
    """What a request changes of one node; vcpus, memory_mb and disk_mb may be negative.

    limits are the lowest of {vcpu, memory_mb, disk_gb} that filters have set, known the columns
    that must be unchanged. documents are written if the row has the generation, where one is given.
    claimed: the change has new claims, which a deleted node refuses.
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

    def add(self, claim: Any, sign: int = 1) -> None:
        """Count one claim more, or one less where sign is -1."""
        self.vcpus += sign * claim.vcpus
        self.memory_mb += sign * claim.memory_mb
        self.disk_mb += sign * claim.disk_mb
        self.claims += sign


def changes(
    old: Iterable[sa.Row[Any]],
    claims: Iterable[Claim] = (),
    documents: Mapping[int, NodeDocuments] | None = None,
) -> dict[int, Change]:
    """Return by node the change that releases old claims and makes new ones."""
    found: dict[int, Change] = {}
    for row in old:
        found.setdefault(row.compute_node_id, Change()).add(row, -1)
    for claim in claims:
        change = found.setdefault(claim.node_id, Change())
        change.add(claim)
        change.claimed = True
        change.known |= claim.known
        for name, most in claim.limits.items():
            change.limits[name] = min(most, change.limits.get(name, most))
    for node_id, each in (documents or {}).items():
        found[node_id].documents, found[node_id].generation = each.texts, each.generation
    return found


def write(
    connection: sa.Connection,
    changes: Mapping[int, Change],
    old: Sequence[sa.Row[Any]],
    instead: Mapping[int, Change | None] | None = None,
) -> set[int]:
    """Write changes in the order of the nodes, with the documents that old claims give back.

    Where the change of a node does not fit, the one in instead is written, if any. Return the
    nodes of which that is true; raises ClaimLost.
    """
    instead, refused = instead or {}, set()
    for node_id in sorted(changes):
        documented = [
            row for row in old if row.compute_node_id == node_id and (row.numa or row.pci)
        ]
        if _fits(connection, node_id, changes[node_id], documented):
            continue
        # Now and not after the others: nodes are locked in their order.
        other = instead.get(node_id)
        is_lost = other is not None and not _fits(connection, node_id, other, documented)
        if is_lost or node_id not in instead:
            raise ClaimLost({node_id}, "a host has less room or other rules than it had")
        refused.add(node_id)
    return refused


def _fits(
    connection: sa.Connection, node_id: int, change: Change, documented: Sequence[sa.Row[Any]]
) -> bool:
    """Write the change of a node; return False, and change nothing, where it does not fit."""
    for row in compute_nodes.lock(connection, [node_id]) if documented else ():
        texts = {NUMA: row.numa_topology, PCI: row.pci_stats, **change.documents}
        change.documents = given_back(texts, documented)
    # A deleted node has nothing to give back.
    return _write_usage(connection, node_id, change) or not change.claimed


def _write_usage(connection: sa.Connection, node_id: int, change: Change) -> bool:
    statement = _statement(
        tuple(sorted(change.limits)),
        tuple(sorted(change.known)),
        tuple(sorted(change.documents)),
        change.generation is not None,
        change.claimed,
    )
    values = {
        "node_id": node_id,
        "more_vcpus": change.vcpus,
        "more_memory_mb": change.memory_mb,
        "more_disk_mb": change.disk_mb,
        "more_claims": change.claims,
        "known_generation": change.generation,
        **{f"limit_{name}": most for name, most in change.limits.items()},
        **{f"known_{name}": value for name, value in change.known.items()},
        **{f"new_{name}": text for name, text in change.documents.items()},
    }
    if connection.execute(statement, values).rowcount == 1:
        return True
    return _completed(connection, node_id) and connection.execute(statement, values).rowcount == 1


def _completed(connection: sa.Connection, node_id: int) -> bool:
    """Fill in disk columns that an older agent, or Nova, left empty; return whether there were."""
    c = table.c
    least = sa.case(
        (c.disk_available_least < c.free_disk_gb, c.disk_available_least), else_=c.free_disk_gb
    )
    statement = (
        sa.update(table)
        .where(c.id == node_id, c.disk_mb_used.is_(None))
        .values(disk_mb_used=c.local_gb_used * MB_PER_GB, free_disk_mb=least * MB_PER_GB)
    )
    return connection.execute(statement).rowcount == 1


# Building a statement costs more than running it, and requests need few of them.
@cache
def _statement(
    limits: Collection[str],
    known: Collection[str],
    documents: Collection[str],
    same: bool,
    claimed: bool,
) -> sa.Update:
    c = table.c
    disk = sa.bindparam("more_disk_mb", type_=sa.BigInteger)
    vcpus, memory, claims = (
        sa.bindparam(f"more_{name}", type_=sa.Integer) for name in ("vcpus", "memory_mb", "claims")
    )
    local_gb_used = (c.disk_mb_used + disk + (MB_PER_GB - 1)) // MB_PER_GB
    # (used, more, units per unit of the limit), as filters define used.
    used = {
        "vcpu": (c.vcpus_used, vcpus, 1),
        "memory_mb": (c.memory_mb - sa.func.coalesce(c.free_ram_mb, 0), memory, 1),
        "disk_gb": (c.local_gb * MB_PER_GB - c.free_disk_mb, disk, MB_PER_GB),
    }
    # A row without disk figures has to be completed first.
    where = [c.id == sa.bindparam("node_id"), c.disk_mb_used.is_not(None)]
    if claimed:
        where.append(c.deleted == 0)
        # The only bound of a forced host.
        counted = (c.vcpus_used + vcpus, c.memory_mb_used + memory, local_gb_used)
        where += [each <= _LARGEST for each in counted]
    if same:
        where.append(c.generation == sa.bindparam("known_generation"))
    where += [c[name] == sa.bindparam(f"known_{name}", type_=c[name].type) for name in known]
    for name in limits:
        taken, more, unit = used[name]
        limit = sa.bindparam(f"limit_{name}", type_=sa.Double) * unit
        where.append(within(limit, taken, more))
    # MariaDB assigns in this order and uses new values, so that derived columns come first.
    return (
        sa.update(table)
        .where(*where)
        .ordered_values(
            (c.local_gb_used, local_gb_used),
            (c.free_disk_gb, c.local_gb - local_gb_used),
            (c.disk_mb_used, c.disk_mb_used + disk),
            (c.free_disk_mb, c.free_disk_mb - disk),
            (c.vcpus_used, c.vcpus_used + vcpus),
            (c.memory_mb_used, c.memory_mb_used + memory),
            (c.free_ram_mb, c.free_ram_mb - memory),
            (c.claims, c.claims + claims),
            *((c[name], sa.bindparam(f"new_{name}", type_=sa.Text)) for name in documents),
            (c.generation, c.generation + 1),
            (c.updated_at, utc_moment()),
        )
    )
