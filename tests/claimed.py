# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims on nodes as schedulers make them, and the passing of their time."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest, ClaimResult, NodeDocuments
from inventory.engine import Database
from inventory.tables import allocations, reservations


def claim(
    database: Database,
    uuid: str,
    node: Any,
    documents: Mapping[str, str | None] | None = None,
    **changes: Any,
) -> None:
    """Claim 2 CPUs, 2048 MB and 5000 MB of disk on the node of this row for an instance."""
    ordinary = {
        "instance_uuid": uuid,
        "node_id": node.id,
        "host": node.host,
        "node": node.hypervisor_hostname,
        "vcpus": 2,
        "memory_mb": 2048,
        "disk_mb": 5000,
    }
    order = ClaimRequest(
        request_id=f"req-{uuid}",
        digest="any",
        claims=[Claim(**ordinary | changes)],
        lease=900,
        documents={} if documents is None else {node.id: NodeDocuments(node.generation, documents)},
    )
    database.write(lambda connection: claims.claim(connection, order))


def claim_and_age(database: Database, uuid: str, node: Any, **changes: Any) -> None:
    """Claim as claim() does, and date the claim back, so that the next audit may confirm it.

    An audit leaves a claim alone that may be younger than its look at the hypervisor, and a busy
    machine makes that look seem older than it is. The lease ends as it would have.
    """
    claim(database, uuid, node, **changes)
    query = sa.select(sa.func.max(allocations.c.id)).where(allocations.c.instance_uuid == uuid)
    _date_back(
        database,
        timedelta(seconds=30),
        ["created_at"],
        database.read(lambda each: each.scalar(query)),
    )


def release(database: Database, uuid: str) -> None:
    """Give back what is claimed for an instance."""
    database.write(lambda connection: claims.release(connection, [uuid]))


def claimed(database: Database) -> dict[str, str]:
    """Return {uuid: state} of all claims."""
    query = sa.select(allocations.c.instance_uuid, allocations.c.state)
    rows = database.read(lambda connection: connection.execute(query).all())
    return {row.instance_uuid: row.state for row in rows}


def let_pass(database: Database, seconds: float) -> None:
    """Make all claims older, and let the times of reservations come nearer."""
    by = timedelta(seconds=seconds)
    _date_back(database, by, ["created_at", "expires_at"])
    _date_back(database, by, ["starts_at", "ends_at"], table=reservations)


def age_claims(database: Database) -> None:
    """Date all claims back by a day: steps of a test follow faster than a clock can tell."""
    _date_back(database, timedelta(days=1), ["created_at"])


def _date_back(
    database: Database,
    by: timedelta,
    columns: Collection[str],
    only: int | None = None,
    table: sa.Table = allocations,
) -> None:
    def work(connection: sa.Connection) -> None:
        for row in connection.execute(sa.select(table)).all():
            if only in (None, row.id):
                moments = {name: getattr(row, name) for name in columns}
                earlier = {name: moment - by for name, moment in moments.items() if moment}
                if earlier:
                    change = sa.update(table).where(table.c.id == row.id)
                    connection.execute(change.values(**earlier))

    database.write(work)


def released_on(result: ClaimResult) -> set[int]:
    """Return the ids of the nodes on which a transaction has released claims."""
    return {each.node_id for each in result.changes if each.ended}
