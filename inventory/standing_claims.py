# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The claims that instances of a request have already, as far as another one needs to know them."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.chunks import chunks
from inventory.tables import allocations as table
from inventory.tables import utc_moment

# Made once: making a statement costs more than to run it.
_COLUMNS = (
    *(table.c.id, table.c.instance_uuid, table.c.state, table.c.compute_node_id, table.c.host),
    *(table.c.request_id, table.c.digest, table.c.attempt, table.c.answer, table.c.created_at),
    *(table.c.vcpus, table.c.memory_mb, table.c.disk_mb, table.c.numa, table.c.pci),
)
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_OF_INSTANCES = sa.select(*_COLUMNS).where(table.c.instance_uuid.in_(_VALUES))
_BY_IDS = sa.select(*_COLUMNS).where(table.c.id.in_(_VALUES))
_HOW_MANY = sa.select(
    sa.select(sa.func.count()).where(table.c.instance_uuid.in_(_VALUES)).scalar_subquery(),
    utc_moment(),
)
_NOW = sa.select(utc_moment())
# A member of a cluster that is late makes the first question wait, seconds that would be taken for
# the clock's. The next one does not wait.
_WAITED = 0.1


def of(connection: sa.Connection, uuids: Iterable[str]) -> tuple[list[sa.Row[Any]], datetime]:
    """Return the claims of instances, and the database's time when time.monotonic() was 0.

    Most requests are new: that there are no claims is cheap to learn, and the rest comes with it.
    However late the answer is, that time is never too early: audits take what is older than what
    they have seen for confirmed by it.
    """
    uuids, number, zero = list(uuids), 0, datetime.min
    for some in chunks(uuids):
        asked = time.monotonic()
        found, now = connection.execute(_HOW_MANY, {"values": some}).one()
        if time.monotonic() - asked > _WAITED:
            asked, now = time.monotonic(), connection.execute(_NOW).scalar_one()
        number, zero = number + found, now - timedelta(seconds=asked)
    return _all(connection, _OF_INSTANCES, uuids) if number else [], zero


def again(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> list[sa.Row[Any]]:
    """Return claims as they are now, without those that have gone."""
    return _all(connection, _BY_IDS, [row.id for row in rows])


def _all(
    connection: sa.Connection, query: sa.Select[Any], values: Sequence[Any]
) -> list[sa.Row[Any]]:
    rows: list[sa.Row[Any]] = []
    for some in chunks(values):
        rows += connection.execute(query, {"values": some})
    return rows
