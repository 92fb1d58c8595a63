# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregates: sets of hosts with metadata, availability zones among them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import sqlalchemy as sa

from inventory import revisions
from inventory.tables import aggregate_hosts, aggregate_metadata, aggregates, utc_now


@dataclass(frozen=True, slots=True)
class AggregateRecord:
    """One aggregate with its hosts and metadata."""

    id: int
    uuid: str
    name: str
    hosts: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


def create(
    connection: sa.Connection, name: str, hosts: Iterable[str], metadata: Mapping[str, str]
) -> int:
    """Create an aggregate and return its id; a name that exists raises DBDuplicateEntry."""
    result = connection.execute(
        sa.insert(aggregates).values(
            uuid=str(uuid4()), name=name, created_at=utc_now(), updated_at=utc_now()
        )
    )
    identity = int(result.lastrowid)
    members = [{"aggregate_id": identity, "host": host} for host in dict.fromkeys(hosts)]
    if members:
        connection.execute(sa.insert(aggregate_hosts), members)
    if metadata:
        connection.execute(
            sa.insert(aggregate_metadata),
            [
                {"aggregate_id": identity, "key": key, "value": value}
                for key, value in metadata.items()
            ],
        )
    revisions.advance(connection, revisions.AGGREGATES)
    return identity


def everything(connection: sa.Connection) -> list[AggregateRecord]:
    """Return all aggregates in the order of their ids.

    SQLite keeps hosts and metadata of those that somebody has deleted by hand: they count no more.
    """
    found = {
        row.id: AggregateRecord(row.id, row.uuid, row.name)
        for row in connection.execute(sa.select(aggregates).order_by(aggregates.c.id))
    }
    for row in connection.execute(sa.select(aggregate_hosts)):
        if row.aggregate_id in found:
            found[row.aggregate_id].hosts.append(row.host)
    for row in connection.execute(sa.select(aggregate_metadata)):
        if row.aggregate_id in found:
            found[row.aggregate_id].metadata[row.key] = row.value
    return list(found.values())
