# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a Nova cloud, availability zones among them, as its API database has them."""

from collections.abc import Sequence

import sqlalchemy as sa

from inventory.aggregates import AggregateRecord, joined
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
        queries = (api.table(connection, name).live(*columns) for name, columns in _TABLES)
        return joined(*(connection.execute(query) for query in queries))

    return api.read(read)
