# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What operators do to the services of hosts, with the rules for it.

Every change is seen by all schedulers at their next decision. Names of hosts are found whatever
their letter case. All functions raise inventory.refusals.OperationRefused, and change nothing then.
"""

from math import isfinite
from typing import Any

import sqlalchemy as sa

from inventory import allocations, compute_nodes, instances, moves, revisions, services
from inventory.instance_states import released
from inventory.refusals import InUse, Malformed, Unknown
from inventory.tables import aggregate_hosts
from inventory.tables import compute_nodes as nodes_table
from inventory.tables import instances as instances_table

LONGEST_REASON = 255
Switches = dict[str, Any]


def show(
    connection: sa.Connection,
    host: str,
    limit: float,
    default_zone: str,
    binary: str = services.COMPUTE[0],
) -> dict[str, Any]:
    """Return all that is known of a service; times are the database's. See services.listed()."""
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
    """Let a host have new instances again."""
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
    """Let a host have no new instances until it is enabled; those it has stay."""
    reason = _reason(reason) or None
    if (reason or "").casefold().startswith(services.AUTOMATIC.casefold()):
        raise Malformed(
            "reason", f"{services.AUTOMATIC!r} is how reasons begin that agents give themselves"
        )
    row = _compute_service(connection, host, binary)
    return _switches(services.switch(connection, row, disabled=True, disabled_reason=reason))


def begin_maintenance(connection: sa.Connection, host: str, reason: str | None = None) -> Switches:
    """Let a host have no new instances for as long as somebody works on it.

    This switch is one of its own: neither the agent nor enable() ends maintenance.
    """
    reason = _reason(reason)
    row = _compute_service(connection, host, services.COMPUTE[0])
    return _switches(services.switch(connection, row, maintenance=reason))


def end_maintenance(connection: sa.Connection, host: str) -> Switches:
    """Undo begin_maintenance()."""
    before = _compute_service(connection, host, services.COMPUTE[0])
    row = services.switch(connection, before, maintenance=None)
    return _switches(row, "still disabled, which ends with 'host enable'" if row.disabled else "")


def force_down(
    connection: sa.Connection,
    host: str,
    down: bool = True,
    binary: str = services.COMPUTE[0],
) -> Switches:
    """Count a service as down whatever its heartbeat says, or go by its heartbeat again."""
    row = _compute_service(connection, host, binary)
    row = services.switch(connection, row, forced_down=down)
    return _switches(row)


def delete(
    connection: sa.Connection,
    host: str,
    limit: float,
    binary: str = services.COMPUTE[0],
    forget_guests: bool = False,
) -> dict[str, Any]:
    """Delete a service that has ended for good and, with a compute service, its host.

    The host's compute nodes go and it leaves its aggregates. Instances and migrations under way
    have to be gone before. forget_guests is for a host that is lost: what its agent saw last is
    forgotten with it, instances that others manage are not. limit is that of services.is_up().
    """
    row = _service(connection, host, binary)
    _refuse_living(row, limit)
    if binary == services.COMPUTE[0]:
        # As orders for aggregates do, which write it first and then the rest.
        revisions.lock(connection, revisions.AGGREGATES)
    services.delete(connection, row)
    gone: list[str] = []
    if binary == services.COMPUTE[0]:
        gone = _delete_nodes(connection, row.host)
        _refuse_needed(connection, row.host, forget_guests)
        for node in gone:
            instances.replace(connection, row.host, node, [])
        _leave_aggregates(connection, row.host)
    return {"host": row.host, "binary": row.binary, "deleted_nodes": gone}


def _service(connection: sa.Connection, host: str, binary: str) -> sa.Row[Any]:
    row = services.find(connection, host, binary)
    if row is None:
        raise Unknown(f"there is no service {binary} on a host {host!r}; see 'service list'")
    return row


def _compute_service(connection: sa.Connection, host: str, binary: str) -> sa.Row[Any]:
    row = _service(connection, host, binary)
    if binary != services.COMPUTE[0]:
        raise Malformed(
            "binary",
            f"{binary} has no such switch, only {services.COMPUTE[0]} has: stop {binary} instead",
        )
    return row


def _reason(text: str | None) -> str:
    """Return a reason that fits its column and a line."""
    reason = (text or "").strip()
    if len(reason) > LONGEST_REASON:
        raise Malformed("reason", f"{len(reason)} characters, at most {LONGEST_REASON} are kept")
    if not reason.isprintable():
        raise Malformed("reason", "has characters that cannot be shown in a line")
    return reason


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
    """Refuse to delete what would come back with its next heartbeat, forced down or not."""
    age = abs(services.heartbeat_age(row))
    if age <= limit:
        raise InUse(
            f"{row.binary} on {row.host} was alive {age:.0f} s ago and would register again: stop"
            f" it, and delete it when it has been silent for {limit:g} s"
        )


def _delete_nodes(connection: sa.Connection, host: str) -> list[str]:
    query = sa.select(nodes_table.c.id, nodes_table.c.hypervisor_hostname).where(
        nodes_table.c.host == host, nodes_table.c.deleted == 0
    )
    names = {row.hypervisor_hostname: row.id for row in connection.execute(query)}
    compute_nodes.delete(connection, host, names)
    allocations.forget(connection, names.values())
    return sorted(names)


def _refuse_needed(connection: sa.Connection, host: str, forget_guests: bool) -> None:
    """Refuse to delete a host on which there is still something.

    It is called with the rows of the nodes locked, as agents have them when they add a guest.
    """
    query = sa.select(instances_table).where(
        instances_table.c.host == host, instances_table.c.deleted == 0
    )
    rows = connection.execute(query.with_for_update(read=True)).all()
    managed = sum(row.managed and not released(row.vm_state, row.task_state) for row in rows)
    seen = sum(not row.managed for row in rows)
    moving = len(moves.under_way(connection, [host]))
    if managed or moving or (seen and not forget_guests):
        hint = ", or forget those with --forget-guests if the host is lost" if seen else ""
        raise InUse(
            f"host {host} is needed by {managed} managed instances, {seen} guests that its agent"
            f" saw last and {moving} migrations under way: wait for or move these first{hint}"
        )


def _leave_aggregates(connection: sa.Connection, host: str) -> None:
    left = connection.execute(sa.delete(aggregate_hosts).where(aggregate_hosts.c.host == host))
    if left.rowcount:
        revisions.advance(connection, revisions.AGGREGATES)
