# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Writing what claims take and give back into the usage of a node, as long as it fits."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import sqlalchemy as sa

from inventory.fits import within
from inventory.tables import compute_nodes as table
from inventory.tables import utc_moment

MB_PER_GB = 1024
# What a column counts at most.
_LARGEST = 2**31 - 1


class Holding(Protocol):
    """A claim, as far as this is concerned."""

    @property
    def vcpus(self) -> int: ...

    @property
    def memory_mb(self) -> int: ...

    @property
    def disk_mb(self) -> int: ...


class Wanted(Holding, Protocol):
    """A claim that is to be made."""

    @property
    def node_id(self) -> int: ...

    @property
    def limits(self) -> Mapping[str, float]: ...

    @property
    def known(self) -> Mapping[str, float]: ...


@dataclass(slots=True)
class Change:
    """What a request changes of one node; vcpus, memory_mb and disk_mb may be negative.

    takes says that something is claimed there, which a deleted node has no room for. limits are
    the lowest of {vcpu, memory_mb, disk_gb} that filters have set. What is known of the node, which
    the decision was made from, must still be true. documents are columns to be
    written, if the row still has the generation, where one is given.
    """

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    claims: int = 0
    limits: dict[str, float] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)
    documents: Mapping[str, str | None] = field(default_factory=dict)
    generation: int | None = None
    takes: bool = False

    def take(self, claim: Wanted) -> None:
        """Count one claim more, which is to keep to its limits."""
        self._add(claim, 1)
        self.takes = True
        self.known |= claim.known
        for name, most in claim.limits.items():
            self.limits[name] = min(most, self.limits.get(name, most))

    def give_back(self, claim: Holding) -> None:
        """Count one claim less."""
        self._add(claim, -1)

    def _add(self, claim: Holding, sign: int) -> None:
        self.vcpus += sign * claim.vcpus
        self.memory_mb += sign * claim.memory_mb
        self.disk_mb += sign * claim.disk_mb
        self.claims += sign


def write(connection: sa.Connection, node_id: int, change: Change) -> bool:
    """Change the usage of a node; return False, and change nothing, where it does not fit.

    Its generation and updated_at move as with every write.
    """
    statement = _statement(
        tuple(sorted(change.limits)),
        tuple(sorted(change.known)),
        tuple(sorted(change.documents)),
        change.generation is not None,
        change.takes,
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
    """Fill in the figures of disk that an older agent, or Nova, has left out, if they have."""
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


# Requests come in a few kinds; making a statement costs more than to run it.
@cache
def _statement(
    limits: Collection[str],
    known: Collection[str],
    documents: Collection[str],
    same: bool,
    takes: bool,
) -> sa.Update:
    c = table.c
    disk = sa.bindparam("more_disk_mb", type_=sa.BigInteger)
    vcpus, memory, claims = (
        sa.bindparam(f"more_{name}", type_=sa.Integer) for name in ("vcpus", "memory_mb", "claims")
    )
    local_gb_used = (c.disk_mb_used + disk + (MB_PER_GB - 1)) // MB_PER_GB
    # What filters take for used, and in their units.
    used = {
        "vcpu": (c.vcpus_used, vcpus, 1),
        "memory_mb": (c.memory_mb - sa.func.coalesce(c.free_ram_mb, 0), memory, 1),
        "disk_gb": (c.local_gb * MB_PER_GB - c.free_disk_mb, disk, MB_PER_GB),
    }
    # A row that lacks figures of disk has to be completed first, see write().
    where = [c.id == sa.bindparam("node_id"), c.disk_mb_used.is_not(None)]
    if takes:
        where.append(c.deleted == 0)
        # All that bounds a forced host, which limits do not.
        counted = (c.vcpus_used + vcpus, c.memory_mb_used + memory, local_gb_used)
        where += [each <= _LARGEST for each in counted]
    if same:
        where.append(c.generation == sa.bindparam("known_generation"))
    where += [c[name] == sa.bindparam(f"known_{name}", type_=c[name].type) for name in known]
    for name in limits:
        taken, more, unit = used[name]
        limit = sa.bindparam(f"limit_{name}", type_=sa.Double) * unit
        where.append(within(limit, taken, more))
    # MariaDB assigns one after the other: what is made of another column comes before that.
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
