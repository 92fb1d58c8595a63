# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of services: one per daemon of a host, with its heartbeat and whether it is enabled."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import aggregates, audit_log, revisions
from inventory.audit_log import Changed
from inventory.dialects import current_time, utc_now
from inventory.objects.field_types import without_surrogates
from inventory.rows import columns, execute_in, named, select_in
from inventory.tables import services as table

# The names under which Nova's tools know the two daemons.
COMPUTE = ("nova-compute", "compute")
SCHEDULER = ("nova-scheduler", "scheduler")
# Prefix of the reason when a service has disabled itself; others are an operator's.
AUTOMATIC = "AUTO: "
_AUTOMATIC: sa.ColumnElement[bool] = table.c.disabled_reason.startswith(AUTOMATIC, autoescape=True)
# The zone of services other than compute.
INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of a service as others see it; disabled_reason is None for an enabled one.

    cell_uuid is the cell of its host, None where there are none; switched_at when its own service
    was last switched, in UTC, if that is known.
    """

    disabled_reason: str | None = None
    forced_down: bool = False
    is_alive: bool = True
    cell_uuid: str | None = None
    switched_at: datetime | None = field(default=None, compare=False)


def register(
    connection: sa.Connection, hosts: Iterable[str], kind: tuple[str, str], version: int
) -> list[int]:
    """Return the ids of the services of this kind, (binary, topic), on the hosts, in their order.

    Missing rows are created; existing ones keep all but their version.
    """
    binary, topic = kind
    hosts = list(hosts)
    ids = _ids(connection, binary)
    missing = [host for host in hosts if host not in ids]
    known = table.c.id.in_([ids[host] for host in hosts if host in ids])
    other = sa.func.coalesce(table.c.version, 0) != version
    connection.execute(sa.update(table).where(known, other).values(version=version))
    if missing:
        row = {"binary": binary, "topic": topic, "version": version, "created_at": utc_now()}
        connection.execute(
            sa.insert(table).values(**row),
            [{"uuid": str(uuid4()), "host": host} for host in missing],
        )
        revisions.advance(connection, revisions.SERVICES)
        ids = _ids(connection, binary)
    return [ids[host] for host in hosts]


def beat(connection: sa.Connection, ids: Sequence[int], facts: Mapping[str, Any] = {}) -> int:
    """Record a heartbeat of these services; return how many of the rows still exist.

    facts are columns of inventory.daemon_facts.
    """
    live = sa.update(table).where(table.c.id.in_(ids), table.c.deleted == 0)
    beat = {"report_count": table.c.report_count + 1, "last_seen_up": utc_now()}
    return connection.execute(live.values(**beat, **facts, updated_at=utc_now())).rowcount


def revive(connection: sa.Connection, ids: Sequence[int], limit: float) -> None:
    """Record a heartbeat of those services that were down, which readers see at once."""
    seen = table.c.last_seen_up
    late = sa.or_(seen.is_(None), seen <= _before(connection, limit))
    _switch(connection, sa.and_(table.c.id.in_(ids), late), last_seen_up=utc_now())


def report_down(connection: sa.Connection, ids: Sequence[int], limit: float) -> None:
    """Have services, which will not beat, down at once rather than after limit seconds."""
    late = _before(connection, limit + 1)
    seen = sa.or_(table.c.last_seen_up.is_(None), table.c.last_seen_up > late)
    _switch(connection, sa.and_(table.c.id.in_(ids), seen), last_seen_up=late)


def _before(connection: sa.Connection, seconds: float) -> datetime:
    """Return the time that is this many seconds ago on the database's clock."""
    return current_time(connection, utc_now) - timedelta(seconds=seconds)


def follow(connection: sa.Connection, states: Mapping[int, ServiceState]) -> None:
    """Switch services, given by id, as those whose states these are."""
    disabled: dict[str, list[int]] = defaultdict(list)
    for each, state in states.items():
        if state.disabled_reason is not None:
            disabled[state.disabled_reason].append(each)
    for reason, ids in disabled.items():
        disable_automatically(connection, ids, reason)
    enabled = [each for each, state in states.items() if state.disabled_reason is None]
    enable_automatically(connection, enabled)
    for name in ("cell_uuid", "forced_down"):
        for value in {getattr(each, name) for each in states.values()}:
            ids = [each for each, state in states.items() if getattr(state, name) == value]
            where = sa.and_(table.c.id.in_(ids), table.c[name].is_distinct_from(value))
            _switch(connection, where, **{name: value})


def beats(connection: sa.Connection, ids: Iterable[int]) -> int:
    """Return how many heartbeats these services have had in all."""
    query = sa.select(sa.func.sum(table.c.report_count)).where(table.c.id.in_(ids))
    return int(connection.scalar(query) or 0)


def disable_automatically(connection: sa.Connection, ids: Sequence[int], reason: str) -> None:
    """Disable services that report a problem, unless an operator has disabled them."""
    # Longer texts are an error in strict mode.
    reason = without_surrogates(AUTOMATIC + reason)[:255]
    # Only rows that change: every write makes all schedulers read the table.
    differs = sa.or_(~table.c.disabled, sa.and_(_AUTOMATIC, table.c.disabled_reason != reason))
    where = sa.and_(table.c.id.in_(ids), differs)
    _switch(connection, where, disabled=True, disabled_reason=reason)


def enable_automatically(connection: sa.Connection, ids: Sequence[int]) -> None:
    """Undo disable_automatically(); services that an operator disabled stay disabled."""
    where = sa.and_(table.c.id.in_(ids), table.c.disabled, _AUTOMATIC)
    _switch(connection, where, disabled=False, disabled_reason=None)


def leave_nova(connection: sa.Connection, ids: Sequence[int]) -> None:
    """Undo what a mirror of a Nova cloud has said of services that have agents of their own now."""
    enable_automatically(connection, ids)
    of_nova = sa.and_(table.c.id.in_(ids), table.c.cell_uuid.is_not(None))
    _switch(connection, of_nova, cell_uuid=None)


def switch(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]], **values: Any
) -> list[sa.Row[Any]]:
    """Write columns of services where they differ; return the rows, by id, as they are then."""
    hosts = {row.id: row.host for row in rows}
    differing = {
        row.id: row.host
        for row in rows
        if any(getattr(row, name) != value for name, value in values.items())
    }
    if differing:
        # Before the services by their ids, since orders on aggregates lock them by their hosts.
        revisions.advance_eligibility(connection, differing.values())
        # Locked by that, so that nobody changes them between this and the change.
        _log(connection, select_in(connection, _query(), table.c.id, differing), values)
        change = sa.update(table).where(table.c.deleted == 0)
        change = change.values(updated_at=utc_now(), **values)
        execute_in(connection, change, table.c.id, differing)
        revisions.advance(connection, revisions.SERVICES)
    return select_in(connection, _query().order_by(table.c.id), table.c.id, hosts)


def delete(connection: sa.Connection, ids: Sequence[int]) -> int:
    """Mark services as deleted; return how many were not yet."""
    found = connection.execute(
        sa.update(table)
        .where(table.c.id.in_(ids), table.c.deleted == 0)
        .values(deleted=table.c.id, deleted_at=utc_now())
    )
    revisions.advance(connection, revisions.SERVICES)
    return found.rowcount


def find(connection: sa.Connection, host: str, binary: str) -> sa.Row[Any] | None:
    """Return the live row of a service, as all_live() does; letter case of the host is ignored."""
    rows, _ = find_all(connection, [host], binary)
    return rows[0] if rows else None


def find_all(
    connection: sa.Connection, hosts: Iterable[str], binary: str
) -> tuple[list[sa.Row[Any]], list[str]]:
    """Return find() for several hosts, each row once and by id, and the names without a row."""
    names = dict.fromkeys(hosts)
    lower = sa.func.lower(table.c.host)
    query = _query().where(table.c.binary == binary)
    rows = select_in(connection, query, lower, {name.strip().lower() for name in names})
    # Of rows that differ by letter case only, the exact one counts.
    by_name = {row.host.lower(): row for row in rows} | {row.host: row for row in rows}
    found: dict[int, sa.Row[Any]] = {}
    unknown = []
    for name in names:
        text = name.strip()
        row = by_name.get(text, by_name.get(text.lower()))
        if row is None:
            unknown.append(name)
        else:
            found[row.id] = row
    return [found[each] for each in sorted(found)], unknown


def older_than(connection: sa.Connection, binary: str, version: int) -> list[str]:
    """Return the hosts whose service of this binary has an older version."""
    query = sa.select(table.c.host).where(
        table.c.binary == binary, table.c.deleted == 0, table.c.version < version
    )
    return list(connection.scalars(query.order_by(table.c.host)))


def all_live(
    connection: sa.Connection, binary: str | None = None, names: Sequence[str] = ()
) -> list[Any]:
    """Return columns, or all, of the live rows of a binary or all; now is the database's time."""
    query = _query(names)
    if binary:
        query = query.where(table.c.binary == binary)
    return named(connection.execute(query.order_by(table.c.id)))


def late(connection: sa.Connection, binary: str, now: datetime, seconds: float) -> list[Any]:
    """Return host and times of the live rows of a binary whose heartbeats are older than this.

    now is the database's time. One that is so far ahead of it counts as old, too.
    """
    seen, tolerance = table.c.last_seen_up, timedelta(seconds=seconds)
    is_young = sa.func.coalesce(seen, table.c.created_at).between(now - tolerance, now + tolerance)
    query = _query(("host", "last_seen_up", "created_at")).where(table.c.binary == binary)
    return named(connection.execute(query.where(sa.or_(seen.is_(None), ~is_young))))


def listed(
    connection: sa.Connection, limit: float, default_zone: str, binary: str | None = None
) -> list[dict[str, Any]]:
    """Return the live services, of one binary or of all, as operators see them."""
    zones = aggregates.zones_by_host(aggregates.everything(connection))
    found = []
    for row in all_live(connection, binary):
        status, state = status_and_state(row, limit)
        # More than one zone only if not written by our commands.
        zone = ", ".join(sorted(zones.get(row.host) or {default_zone}))
        found.append(
            {
                "id": row.id,
                "uuid": row.uuid,
                "binary": row.binary,
                "host": row.host,
                "zone": zone if row.binary == COMPUTE[0] else INTERNAL,
                "status": status,
                "state": state,
                "updated_at": str(row.updated_at or ""),
                "disabled_reason": switched_off(row)[1],
                "forced_down": bool(row.forced_down),
            }
        )
    return found


def heartbeat_age(row: sa.Row[Any]) -> float:
    """Return the seconds since the last heartbeat of a row of all_live().

    Both times are the database's, so no two clocks are compared. Before its first heartbeat, the
    age of the row.
    """
    seen = row.last_seen_up or row.created_at
    return float((row.now - seen).total_seconds()) if seen else float("inf")


def is_up(row: sa.Row[Any], limit: float) -> bool:
    """Return whether a row of all_live() has a heartbeat younger than limit seconds."""
    return not row.forced_down and abs(heartbeat_age(row)) <= limit


def switched_off(row: sa.Row[Any]) -> tuple[bool, str | None]:
    """Return whether a service is disabled or in maintenance, and the reason."""
    if row.maintenance is None:
        return bool(row.disabled), row.disabled_reason
    reason = _with("in maintenance", row.maintenance)
    if row.disabled:
        reason += "; " + _with("disabled", row.disabled_reason)
    return True, reason


def switched_on() -> sa.ColumnElement[bool]:
    """Return the condition for rows that are not switched_off()."""
    return sa.and_(~table.c.disabled, table.c.maintenance.is_(None))


def is_automatic(row: sa.Row[Any]) -> bool:
    """Return whether the service has disabled itself."""
    return bool(row.disabled) and (row.disabled_reason or "").startswith(AUTOMATIC)


def status_and_state(row: sa.Row[Any], limit: float) -> tuple[str, str]:
    """Return (enabled or disabled, up or down) of a row of all_live()."""
    return "disabled" if switched_off(row)[0] else "enabled", "up" if is_up(row, limit) else "down"


def _query(names: Sequence[str] = ()) -> sa.Select[Any]:
    return sa.select(*columns(table, names), utc_now().label("now")).where(table.c.deleted == 0)


def _with(what: str, reason: str | None) -> str:
    return f"{what}: {reason}" if reason else what


def _ids(connection: sa.Connection, binary: str) -> dict[str, int]:
    query = sa.select(table.c.host, table.c.id).where(
        table.c.binary == binary, table.c.deleted == 0
    )
    return {row.host: row.id for row in connection.execute(query)}


def _switch(connection: sa.Connection, where: sa.ColumnElement[bool], **values: Any) -> None:
    where = sa.and_(where, table.c.deleted == 0)
    # Locked, so that they are those that change.
    rows = connection.execute(sa.select(table).where(where).with_for_update()).all()
    changed = connection.execute(
        sa.update(table).where(where).values(updated_at=utc_now(), **values)
    )
    if changed.rowcount:
        if values.keys() != {"cell_uuid"}:
            _log(connection, rows, values)
        revisions.advance_eligibility(connection, [row.host for row in rows])
        revisions.advance(connection, revisions.SERVICES)


def _log(connection: sa.Connection, rows: Iterable[sa.Row[Any]], values: Mapping[str, Any]) -> None:
    """Log that the rows of compute services, as they are before it, get other values."""
    audit_log.record(
        connection,
        (
            Changed(
                audit_log.HOST,
                row.host,
                {name: getattr(row, name) for name in values},
                values,
                [row.host],
            )
            for row in rows
        ),
    )
