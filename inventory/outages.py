# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Heartbeats that could not be written say nothing about hosts.

While the database is away nobody's heartbeat is written, and when it is back all are old. So would
they be if its clock was set. The first daemon that can send its heartbeat again stamps those that
were up when the last heartbeat of anybody was written: they have GRACE intervals to send the next
one. All readers count from these stamps; none needs to know of the outage.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa
from oslo_log import log

from inventory import revisions
from inventory.dialects import current_time, utc_now
from inventory.errors import counted
from inventory.tables import services as table

LOG = log.getLogger(__name__)
# Intervals between heartbeats that services get after an outage, until they count as down.
GRACE = 2
# Intervals in which daemons that can write have sent a heartbeat.
LATE = 1.5


def excuse(connection: sa.Connection, limit: float, interval: float) -> None:
    """Excuse the services that were up, if no daemon could send its heartbeat lately.

    Called before a heartbeat after which the next one of anybody finds nothing to excuse. limit and
    interval are liveness_limit() and [DEFAULT] report_interval.
    """
    now, late = current_time(connection, utc_now), timedelta(seconds=LATE * interval)
    if _is_any_beating(connection, now, late):
        return
    # Of the daemons that find this at the same time one goes on.
    revisions.lock(connection, revisions.SERVICES)
    if _is_any_beating(connection, now, late):
        return
    seen = table.c.last_seen_up
    # Not those of daemons that have just started: they have sent none before.
    is_old = sa.or_(seen < now - late, seen > now + late)
    newest = connection.scalar(sa.select(sa.func.max(seen)).where(table.c.deleted == 0, is_old))
    if newest is None:
        return
    was_up = seen.between(newest - timedelta(seconds=limit), newest)
    stamp = now - timedelta(seconds=max(0.0, limit - GRACE * interval))
    reported = table.c.reported_at
    # In this order: MariaDB reads the new value of a column in what follows it. What was reported
    # with the last heartbeat stays what was.
    change = (
        sa.update(table)
        .where(table.c.deleted == 0, was_up)
        .ordered_values(
            (reported, sa.case((reported >= seen, stamp), else_=reported)), (seen, stamp)
        )
    )
    number = connection.execute(change).rowcount
    revisions.advance(connection, revisions.SERVICES)
    LOG.warning(
        "No heartbeat was written since %s UTC; %s that were up at that time get time for their"
        " next heartbeat",
        newest,
        counted(number, "service"),
    )


def _is_any_beating(connection: sa.Connection, now: datetime, late: timedelta) -> bool:
    """Return whether a daemon that runs for longer has sent a heartbeat lately."""
    query = sa.select(table.c.id).where(
        table.c.deleted == 0,
        table.c.last_seen_up.between(now - late, now + late),
        sa.or_(table.c.started_at.is_(None), table.c.started_at < now - late),
    )
    return connection.scalar(query.limit(1)) is not None
