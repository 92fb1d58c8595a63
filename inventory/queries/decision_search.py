# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find saved decisions by what they were about, page by page, the newest first."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from inventory.queries.requested_sizes import SIZE_COLUMNS, Size
from inventory.rows import where_given
from inventory.tables import allocations, decisions, instances

_COLUMNS = (
    *("id", "decided_at", "outcome", "instances", "hosts", "request_id", "project_id"),
    *("vcpus", "memory_mb", "disk_mb", "milliseconds", "conflicts"),
    *("scheduler", "snapshot_log", "snapshot_number"),
)
# Sizes of a flavor, whose disk differs by the image.
_MAX_SIZES = 20
_MAX_FLAVORS = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which decisions to find: all that is given must be true of them.

    before is the id of a decision, for the ones that are older. conflicts means those that lost
    claims to other requests. sizes are vCPUs, MB and MB.
    """

    outcome: str | None = None
    project_id: str | None = None
    request_id: str | None = None
    sizes: Collection[Size] | None = None
    conflicts: bool = False
    before: int | None = None


def search(connection: sa.Connection, wanted: Wanted, limit: int) -> list[sa.Row[Any]]:
    """Return the newest of the decisions, without their documents."""
    c = decisions.c
    query = where_given(
        sa.select(*(c[name] for name in _COLUMNS)),
        (c.outcome, wanted.outcome),
        (c.project_id, wanted.project_id),
        (c.request_id, wanted.request_id),
    )
    if wanted.sizes is not None:
        same = [
            sa.and_(c.vcpus == vcpus, c.memory_mb == memory_mb, c.disk_mb == disk_mb)
            for vcpus, memory_mb, disk_mb in wanted.sizes
        ]
        query = query.where(sa.or_(sa.false(), *same))
    if wanted.conflicts:
        query = query.where(c.conflicts > 0)
    if wanted.before is not None:
        at = connection.scalar(sa.select(c.decided_at).where(c.id == wanted.before))
        # It may be deleted since: ids grow with time but for what is written a little later.
        older = c.id < wanted.before
        if at is not None:
            older = sa.or_(c.decided_at < at, sa.and_(c.decided_at == at, older))
        query = query.where(older)
    query = query.order_by(c.decided_at.desc(), c.id.desc()).limit(limit)
    return [*connection.execute(query).all()]


def sizes_of_flavor(connection: sa.Connection, name: str) -> set[Size]:
    """Return the sizes that instances and claims of a flavor have; decisions have no names."""
    a = allocations.c
    of_instances = sa.select(*SIZE_COLUMNS).where(instances.c.flavor_name == name)
    of_claims = sa.select(a.vcpus, a.memory_mb, a.disk_mb).where(a.flavor_name == name)
    return {
        (int(vcpus), int(memory_mb), int(disk_mb))
        for query in (of_instances, of_claims)
        for vcpus, memory_mb, disk_mb in connection.execute(query.distinct().limit(_MAX_SIZES))
    }


def flavors_of_sizes(connection: sa.Connection) -> dict[Size, list[str]]:
    """Return the names of the flavors that instances of each size have, up to a limit of names."""
    c = instances.c
    query = sa.select(c.flavor_name, *SIZE_COLUMNS).distinct().order_by(c.flavor_name)
    named = query.where(c.deleted == 0, c.flavor_name.is_not(None)).limit(_MAX_FLAVORS)
    found: dict[Size, list[str]] = {}
    for name, vcpus, memory_mb, disk_mb in connection.execute(named):
        found.setdefault((vcpus, memory_mb, disk_mb), []).append(name)
    return found


def flavor_names(connection: sa.Connection) -> set[str]:
    """Return the names of flavors that instances and claims have."""
    of_both = sa.union(sa.select(instances.c.flavor_name), sa.select(allocations.c.flavor_name))
    return {name for name in connection.scalars(of_both) if name}
