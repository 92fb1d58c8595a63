# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which sizes of instances are asked for, and which there are: vCPUs, MB of memory, MB of disk."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.dialects import current_time
from inventory.fits import local_disk_mb
from inventory.tables import decisions, instances

Size = tuple[int, int, int]
_C: Any = instances.c
_DISK_MB: Any = local_disk_mb(_C.root_gb, _C.ephemeral_gb, _C.swap_mb)
SIZE_COLUMNS = (_C.vcpus, _C.memory_mb, _DISK_MB.label("disk_mb"))
# Seconds between two times up to which requests are counted. They are the same for all who count at
# about the same time, so these find the same.
INTERVAL = 600
# Seconds until a decision is surely saved.
_DELAY = 60
# Requests count by bands of age: how many a half-life has, and all. Older ones are left out.
_BANDS_PER_HALF_LIFE = 4
_BANDS = 6 * _BANDS_PER_HALF_LIFE


def counted_until(connection: sa.Connection) -> datetime:
    """Return the time, in UTC, up to which requests are counted now."""
    now = current_time(connection) - timedelta(seconds=_DELAY)
    return now - (now - datetime.min) % timedelta(seconds=INTERVAL)


def requested(connection: sa.Connection, until: datetime, half_life: float) -> dict[Size, float]:
    """Return how many instances of each size were asked for before a time, by saved decisions.

    One that was asked for a half-life (seconds) before that counts half as much. Refused ones
    count, too.
    """
    c = decisions.c
    width = timedelta(seconds=half_life / _BANDS_PER_HALF_LIFE)
    ends = [until - (band + 1) * width for band in range(_BANDS)]
    band = sa.case(*((c.decided_at >= end, number) for number, end in enumerate(ends)))
    size = (c.vcpus, c.memory_mb, c.disk_mb)
    query = (
        sa.select(*size, band.label("band"), sa.func.sum(c.instances))
        .where(c.decided_at < until, c.decided_at >= ends[-1], c.vcpus.is_not(None))
        .group_by(*size, "band")
        # The same order of sums gives the same weights to the last bit.
        .order_by(*size, "band")
    )
    found: dict[Size, float] = {}
    for *amounts, number, count in connection.execute(query):
        key = (int(amounts[0]), int(amounts[1]), int(amounts[2]))
        weight = 0.5 ** ((number + 0.5) / _BANDS_PER_HALF_LIFE)
        found[key] = found.get(key, 0.0) + weight * int(count)
    return found


def present(connection: sa.Connection) -> dict[Size, float]:
    """Return how many instances there are of each size."""
    query = sa.select(*SIZE_COLUMNS, sa.func.count()).where(_C.deleted == 0)
    rows = connection.execute(query.group_by(*SIZE_COLUMNS))
    return {(*size,): float(count) for *size, count in rows}
