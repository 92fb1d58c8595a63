# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of services: one per daemon of a host, which say whether it is alive and enabled."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import revisions
from inventory.tables import services as table
from inventory.tables import utc_now

# The names under which Nova's tools know the two daemons.
COMPUTE = ("nova-compute", "compute")
SCHEDULER = ("nova-scheduler", "scheduler")
# Reasons that a service gives for itself start so; a reason without it belongs to an operator.
AUTOMATIC = "AUTO: "


def register(
    connection: sa.Connection, hosts: Iterable[str], kind: tuple[str, str], version: int
) -> list[int]:
    """Return the ids of the services of this kind, (binary, topic), on the hosts, in their order.

    Rows that do not exist yet are created; existing ones keep their counters and switches.
    """
    binary, topic = kind
    hosts = list(hosts)
    ids = _ids(connection, binary)
    missing = [host for host in hosts if host not in ids]
    if missing:
        row = {"binary": binary, "topic": topic, "version": version, "created_at": utc_now()}
        connection.execute(
            sa.insert(table).values(**row),
            [{"uuid": str(uuid4()), "host": host} for host in missing],
        )
        revisions.advance(connection, revisions.SERVICES)
        ids = _ids(connection, binary)
    return [ids[host] for host in hosts]


def beat(connection: sa.Connection, ids: Sequence[int]) -> int:
    """Record a heartbeat of these services; return how many of the rows still exist."""
    result = connection.execute(
        sa.update(table)
        .where(table.c.id.in_(ids), table.c.deleted == 0)
        .values(report_count=table.c.report_count + 1, last_seen_up=utc_now(), updated_at=utc_now())
    )
    return result.rowcount


def disable_automatically(connection: sa.Connection, ids: Sequence[int], reason: str) -> None:
    """Take services out of scheduling for a reason of their own; an operator's word stays."""
    # Longer texts are an error in strict mode.
    reason = (AUTOMATIC + reason)[:255]
    # A row that says so already is not written again: every change makes all readers look.
    where = sa.or_(~table.c.disabled, sa.and_(_is_automatic(), table.c.disabled_reason != reason))
    _switch(
        connection,
        sa.and_(table.c.id.in_(ids), where),
        disabled=True,
        disabled_reason=reason,
    )


def enable_automatically(connection: sa.Connection, ids: Sequence[int]) -> None:
    """Undo disable_automatically(), and nothing that an operator did."""
    where = sa.and_(table.c.id.in_(ids), table.c.disabled, _is_automatic())
    _switch(connection, where, disabled=False, disabled_reason=None)


def all_live(connection: sa.Connection, binary: str | None = None) -> Sequence[sa.Row[Any]]:
    """Return the live rows, of one binary or of all, each with the database's time as now."""
    query = sa.select(table, utc_now().label("now")).where(table.c.deleted == 0)
    if binary:
        query = query.where(table.c.binary == binary)
    return connection.execute(query.order_by(table.c.id)).all()


def heartbeat_age(row: sa.Row[Any]) -> float:
    """Return the seconds since the last heartbeat of a row of all_live().

    Both moments are the database's, so no two clocks are compared. A service that was never seen
    counts from its creation.
    """
    seen = row.last_seen_up or row.created_at
    return float((row.now - seen).total_seconds()) if seen else float("inf")


def is_up(row: sa.Row[Any], limit: float) -> bool:
    """Return whether a row of all_live() counts as alive when limit seconds may pass unseen."""
    return not row.forced_down and abs(heartbeat_age(row)) <= limit


def status_and_state(row: sa.Row[Any], limit: float) -> tuple[str, str]:
    """Return what operators call the switch and the liveness of a row of all_live()."""
    return "disabled" if row.disabled else "enabled", "up" if is_up(row, limit) else "down"


def _ids(connection: sa.Connection, binary: str) -> dict[str, int]:
    query = sa.select(table.c.host, table.c.id).where(
        table.c.binary == binary, table.c.deleted == 0
    )
    return {row.host: row.id for row in connection.execute(query)}


def _is_automatic() -> sa.ColumnElement[bool]:
    automatic: sa.ColumnElement[bool] = table.c.disabled_reason.startswith(
        AUTOMATIC, autoescape=True
    )
    return automatic


def _switch(connection: sa.Connection, where: sa.ColumnElement[bool], **values: Any) -> None:
    changed = connection.execute(
        sa.update(table).where(where, table.c.deleted == 0).values(updated_at=utc_now(), **values)
    )
    if changed.rowcount:
        revisions.advance(connection, revisions.SERVICES)
