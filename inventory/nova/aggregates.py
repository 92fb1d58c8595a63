# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a Nova cloud, availability zones among them, as its API database has them."""

from collections.abc import Sequence

import sqlalchemy as sa

from inventory.aggregates import AggregateRecord
from inventory.nova.database import NovaDatabase

_TABLES = (
    ("aggregates", ("id", "uuid", "name")),
    ("aggregate_hosts", ("aggregate_id", "host")),
    ("aggregate_metadata", ("aggregate_id", "key", "value")),
)


def aggregates_version(api: NovaDatabase) -> tuple[object, ...]:
    """Return what differs when read_aggregates() would, for much less work.

    Raises NovaDatabaseUnavailable.
    """
    return api.read(
        lambda each: tuple(api.fingerprint(each, name, *columns) for name, columns in _TABLES)
    )


def read_aggregates(api: NovaDatabase) -> Sequence[AggregateRecord]:
    """Return all aggregates by id; raises NovaDatabaseUnavailable."""

    def read(connection: sa.Connection) -> Sequence[AggregateRecord]:
        rows = {
            name: connection.execute(api.table(connection, name).live(*columns)).all()
            for name, columns in _TABLES
        }
        found = {row.id: AggregateRecord(row.id, row.uuid, row.name) for row in rows["aggregates"]}
        for row in rows["aggregate_hosts"]:
            found[row.aggregate_id].hosts.append(row.host)
        for row in rows["aggregate_metadata"]:
            found[row.aggregate_id].metadata[row.key] = row.value
        return [found[number] for number in sorted(found)]

    return api.read(read)
