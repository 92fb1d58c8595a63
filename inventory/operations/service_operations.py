# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to the services of hosts.

Schedulers see every change at their next decision. Names of hosts are found in any letter case. All
functions raise inventory.errors.OperationRefused, and change nothing then.
"""

from math import isfinite
from typing import Any

import sqlalchemy as sa

from inventory import compute_nodes, instance_migrations, instances, revisions, services
from inventory.claims import existing
from inventory.errors import InUse, Malformed, NotFound, checked_text, counted, nearest
from inventory.instance_states import released
from inventory.tables import aggregate_hosts
from inventory.tables import compute_nodes as nodes_table
from inventory.tables import instances as instances_table

Switches = dict[str, Any]


def show(
    connection: sa.Connection,
    host: str,
    limit: float,
    default_zone: str,
    binary: str = services.COMPUTE[0],
) -> dict[str, Any]:
    """Return the details of a service; times are the database's. See services.listed()."""
    row = _service(connection, host, binary)
    listed = services.listed(connection, limit, default_zone, binary)
    (service,) = (each for each in listed if each["id"] == row.id)
    age = services.heartbeat_age(row)
    return {
        **service,
        "disabled": bool(row.disabled),
        "maintenance_mode": "off" if row.maintenance is None else "on",
        "topic": row.topic,
        "version": row.version,
        "report_count": row.report_count,
        "last_seen_up": str(row.last_seen_up or ""),
        "heartbeat_age": round(age, 1) if isfinite(age) else None,
        "created_at": str(row.created_at or ""),
    }


def enable(connection: sa.Connection, host: str, binary: str = services.COMPUTE[0]) -> Switches:
    """Enable a host for new instances."""
    before = _compute_service(connection, host, binary)
    row = services.switch(connection, before, disabled=False, disabled_reason=None)
    if row.maintenance is not None:
        return _switches(row, "still in maintenance, which ends with 'host maintenance off'")
    if services.is_automatic(before):
        agent = before.disabled_reason.removeprefix(services.AUTOMATIC)
        return _switches(
            row,
            f"its own agent had disabled it ({agent}), and does so again when its next audit fails",
        )
    return _switches(row)


def disable(
    connection: sa.Connection,
    host: str,
    reason: str | None = None,
    binary: str = services.COMPUTE[0],
) -> Switches:
    """Disable a host for new instances; it keeps those it has."""
    reason = checked_text("reason", reason or "", may_be_empty=True)
    if reason.casefold().startswith(services.AUTOMATIC.casefold()):
        raise Malformed(
            "reason", f"{services.AUTOMATIC!r} is how reasons begin that agents give themselves"
        )
    row = _compute_service(connection, host, binary)
    return _switches(
        services.switch(connection, row, disabled=True, disabled_reason=reason or None)
    )


def begin_maintenance(connection: sa.Connection, host: str, reason: str | None = None) -> Switches:
    """Give a host no new instances until end_maintenance(), whatever its agent or enable() do."""
    reason = checked_text("reason", reason or "", may_be_empty=True)
    row = _compute_service(connection, host, services.COMPUTE[0])
    return _switches(services.switch(connection, row, maintenance=reason))


def end_maintenance(connection: sa.Connection, host: str) -> Switches:
    """Undo begin_maintenance()."""
    before = _compute_service(connection, host, services.COMPUTE[0])
    row = services.switch(connection, before, maintenance=None)
    return _switches(row, "still disabled, which ends with 'host enable'" if row.disabled else "")


def force_down(
    connection: sa.Connection, host: str, down: bool = True, binary: str = services.COMPUTE[0]
) -> Switches:
    """Force a service down, whatever its heartbeat, or go by its heartbeat again."""
    row = _compute_service(connection, host, binary)
    return _switches(services.switch(connection, row, forced_down=down))


def delete(
    connection: sa.Connection,
    host: str,
    limit: float,
    binary: str = services.COMPUTE[0],
    forget_guests: bool = False,
) -> dict[str, Any]:
    """Delete a stopped service and, with a compute service, its host.

    The host's compute nodes are deleted and it leaves its aggregates. It must have no instances and
    no migrations under way; with forget_guests, for a lost host, only managed instances count.
    limit is that of services.is_up().
    """
    row = _service(connection, host, binary)
    _refuse_living(row, limit)
    if binary == services.COMPUTE[0]:
        # First, as in operations on aggregates.
        revisions.lock(connection, revisions.AGGREGATES)
    services.delete(connection, [row.id])
    gone: list[str] = []
    dropped: list[str] = []
    if binary == services.COMPUTE[0]:
        gone, dropped = _delete_nodes(connection, row.host)
        _refuse_needed(connection, row.host, forget_guests)
        for node in gone:
            instances.replace(connection, row.host, node, [])
        left = sa.delete(aggregate_hosts).where(aggregate_hosts.c.host == row.host)
        if connection.execute(left).rowcount:
            revisions.advance(connection, revisions.AGGREGATES)
    return {
        "host": row.host,
        "binary": row.binary,
        "deleted_nodes": gone,
        "dropped_pending_claims": dropped,
    }


def _service(connection: sa.Connection, host: str, binary: str) -> sa.Row[Any]:
    row = services.find(connection, host, binary)
    if row is None:
        known = (each.host for each in services.all_live(connection, binary, ["host"]))
        hint = nearest(host, known, "see 'service list'")
        raise NotFound(f"there is no service {binary} on a host {host!r}; {hint}")
    return row


def _compute_service(connection: sa.Connection, host: str, binary: str) -> sa.Row[Any]:
    row = _service(connection, host, binary)
    if binary != services.COMPUTE[0]:
        raise Malformed(
            "binary",
            f"{binary} has no such switch, only {services.COMPUTE[0]} has: stop {binary} instead",
        )
    return row


def _switches(row: sa.Row[Any], note: str = "") -> Switches:
    disabled, reason = services.switched_off(row)
    return {
        "host": row.host,
        "binary": row.binary,
        "status": "disabled" if disabled else "enabled",
        "disabled_reason": reason,
        "maintenance_mode": "off" if row.maintenance is None else "on",
        "forced_down": bool(row.forced_down),
        "note": note,
    }


def _refuse_living(row: sa.Row[Any], limit: float) -> None:
    """Raise InUse for a service that would register again with its next heartbeat."""
    age = abs(services.heartbeat_age(row))
    if age <= limit:
        raise InUse(
            f"{row.binary} on {row.host} was alive {age:.0f} s ago and would register again: stop"
            f" it, and delete it when it has been silent for {limit:g} s"
        )


def _delete_nodes(connection: sa.Connection, host: str) -> tuple[list[str], list[str]]:
    """Delete the nodes of a host; return their names, and the instances of pending claims there."""
    query = sa.select(nodes_table.c.id, nodes_table.c.hypervisor_hostname).where(
        nodes_table.c.host == host, nodes_table.c.deleted == 0
    )
    names = {row.hypervisor_hostname: row.id for row in connection.execute(query)}
    compute_nodes.delete(connection, host, names)
    pending = existing.pending_on_nodes(connection, names.values())
    existing.delete_on_nodes(connection, names.values())
    return sorted(names), pending


def _refuse_needed(connection: sa.Connection, host: str, forget_guests: bool) -> None:
    """Raise InUse for a host with instances or migrations; the rows of its nodes are locked."""
    query = sa.select(instances_table).where(
        instances_table.c.host == host, instances_table.c.deleted == 0
    )
    rows = connection.execute(query.with_for_update(read=True)).all()
    managed = sum(row.managed and not released(row.vm_state, row.task_state) for row in rows)
    seen = sum(not row.managed for row in rows)
    moving = len(instance_migrations.under_way(connection, [host]))
    if managed or moving or (seen and not forget_guests):
        hint = ", or forget those with --forget-guests if the host is lost" if seen else ""
        raise InUse(
            f"host {host} is needed by {counted(managed, 'managed instance')},"
            f" {counted(seen, 'guest')} that its agent saw last and"
            f" {counted(moving, 'migration')} under way: wait for or move these first{hint}"
        )
