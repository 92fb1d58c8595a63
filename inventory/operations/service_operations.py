# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to the services of hosts.

Schedulers see every change at their next decision. What is done to several hosts is done to all of
them or to none; the answer has a row for each, once and in the order of their ids. Names of hosts
are found in any letter case. All functions raise inventory.errors.OperationRefused, and change
nothing then.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import sqlalchemy as sa

from inventory import (
    audit_log,
    compute_nodes,
    daemon_facts,
    instance_migrations,
    instances,
    revisions,
    services,
)
from inventory.audit_log import AGGREGATE, HOST, RESERVATION, SERVICE, Changed
from inventory.claims import claim_rows, existing, places
from inventory.claims.types import COUNTED, PENDING
from inventory.errors import InUse, Malformed, NotFound, checked_text, counted, nearest_each, some
from inventory.instance_states import released
from inventory.operations import mirrored
from inventory.tables import aggregate_hosts
from inventory.tables import aggregates as aggregates_table
from inventory.tables import compute_nodes as nodes_table
from inventory.tables import instances as instances_table

Switches = dict[str, Any]
# Hosts in an error, each with its reason.
_LISTED = 20
# The columns of them.
_SWITCHES = ("disabled", "disabled_reason", "maintenance", "forced_down")


def show(
    connection: sa.Connection,
    host: str,
    limit: float,
    default_zone: str,
    binary: str = services.COMPUTE[0],
) -> dict[str, Any]:
    """Return the details of a service; times are the database's. See services.listed()."""
    (row,) = _services(connection, [host], binary)
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
        **daemon_facts.of_row(row),
    }


def enable(
    connection: sa.Connection, hosts: Iterable[str], binary: str = services.COMPUTE[0]
) -> list[Switches]:
    """Enable hosts for new instances."""
    before = _compute_services(connection, hosts, binary)
    mirrored.refuse_enabling(before)
    after = services.switch(connection, before, disabled=False, disabled_reason=None)
    return [_switches(row, _still_off(was, row)) for was, row in zip(before, after, strict=True)]


def disable(
    connection: sa.Connection,
    hosts: Iterable[str],
    reason: str | None = None,
    binary: str = services.COMPUTE[0],
) -> list[Switches]:
    """Disable hosts for new instances; they keep those they have."""
    reason = checked_text("reason", reason or "", may_be_empty=True)
    if reason.casefold().startswith(services.AUTOMATIC.casefold()):
        raise Malformed(
            "reason",
            f"{services.AUTOMATIC!r} begins the reasons that agents write: choose a reason that"
            " begins with other words",
        )
    rows = _compute_services(connection, hosts, binary)
    values = {"disabled": True, "disabled_reason": reason or None}
    return [*map(_switches, services.switch(connection, rows, **values))]


def begin_maintenance(
    connection: sa.Connection, hosts: Iterable[str], reason: str | None = None
) -> list[Switches]:
    """Give hosts no new instances until end_maintenance(), whatever agents or enable() do."""
    reason = checked_text("reason", reason or "", may_be_empty=True)
    rows = _compute_services(connection, hosts, services.COMPUTE[0])
    return [*map(_switches, services.switch(connection, rows, maintenance=reason))]


def end_maintenance(connection: sa.Connection, hosts: Iterable[str]) -> list[Switches]:
    """Undo begin_maintenance()."""
    before = _compute_services(connection, hosts, services.COMPUTE[0])
    note = "still disabled, which ends with 'host enable'"
    after = services.switch(connection, before, maintenance=None)
    return [_switches(row, note if row.disabled else "") for row in after]


def force_down(
    connection: sa.Connection,
    hosts: Iterable[str],
    down: bool = True,
    binary: str = services.COMPUTE[0],
) -> list[Switches]:
    """Force services down, whatever their heartbeats, or go by their heartbeats again."""
    rows = _compute_services(connection, hosts, binary)
    mirrored.refuse_forcing(rows, down)
    return [*map(_switches, services.switch(connection, rows, forced_down=down))]


def delete(
    connection: sa.Connection,
    hosts: Iterable[str],
    limit: float,
    binary: str = services.COMPUTE[0],
    forget_guests: bool = False,
) -> list[dict[str, Any]]:
    """Delete stopped services and, with compute services, their hosts.

    The compute nodes of a host are deleted and it leaves its aggregates. It must have no instances
    and no migrations under way, and hold no reserved places; with forget_guests, for a lost host,
    only managed instances count.
    limit is that of services.is_up().
    """
    rows = _services(connection, hosts, binary)
    mirrored.refuse_deleting(connection, rows, limit)
    _refuse_all(each for row in rows if (each := _living(row, limit)))
    is_compute = binary == services.COMPUTE[0]
    if is_compute:
        # First, as in operations on aggregates.
        revisions.lock(connection, revisions.AGGREGATES)
    if services.delete(connection, [row.id for row in rows]) < len(rows):
        asked = some(row.host for row in rows)
        raise NotFound(f"{binary} on {asked}: one was deleted by somebody else just now")
    if is_compute:
        _lock_nodes(connection, [row.host for row in rows])
    kind = HOST if is_compute else SERVICE
    nothing: tuple[list[str], list[str]] = ([], [])
    changes, found, needed = [], [], []
    for row in rows:
        try:
            deleted = _delete_host(connection, row.host, forget_guests) if is_compute else nothing
        except InUse as error:
            needed.append(error)
            continue
        gone, dropped = deleted
        fields = {name: getattr(row, name) for name in ("binary", *_SWITCHES)}
        changes.append(Changed(kind, row.host, {**fields, "nodes": gone}, {}, [row.host]))
        names = {"host": row.host, "binary": row.binary}
        found.append(names | {"deleted_nodes": gone, "dropped_pending_claims": dropped})
    _refuse_all(needed)
    audit_log.record(connection, changes)
    return found


def _lock_nodes(connection: sa.Connection, hosts: Iterable[str]) -> None:
    """Lock the nodes of hosts in the order of their ids, as claims do."""
    c = nodes_table.c
    query = sa.select(c.id).where(c.host.in_([*hosts]), c.deleted == 0).order_by(c.id)
    connection.execute(query.with_for_update())


def _delete_host(
    connection: sa.Connection, host: str, forget_guests: bool
) -> tuple[list[str], list[str]]:
    """Delete a host; return the names of its nodes, and the instances of pending claims there."""
    gone, dropped = _delete_nodes(connection, host, forget_guests)
    _refuse_needed(connection, host, forget_guests)
    for node in gone:
        instances.replace(connection, host, node, [])
    _leave_aggregates(connection, host)
    return gone, dropped


def _services(connection: sa.Connection, hosts: Iterable[str], binary: str) -> list[sa.Row[Any]]:
    """Return the rows of services, each once and by id; raise NotFound, which names all others."""
    rows, unknown = services.find_all(connection, hosts, binary)
    if unknown:
        known = (each.host for each in services.all_live(connection, binary, ["host"]))
        names, hint = nearest_each("host", unknown, known, "see 'service list'")
        raise NotFound(f"there is no service {binary} on {names}; {hint}")
    return rows


def _compute_services(
    connection: sa.Connection, hosts: Iterable[str], binary: str
) -> list[sa.Row[Any]]:
    rows = _services(connection, hosts, binary)
    if binary != services.COMPUTE[0]:
        raise Malformed(
            "binary",
            f"{binary} cannot be disabled or forced down, only {services.COMPUTE[0]} can: stop"
            f" {binary} instead",
        )
    return rows


def _still_off(before: sa.Row[Any], after: sa.Row[Any]) -> str:
    """Return why a service that was enabled gets no instances, or soon none again."""
    if after.maintenance is not None:
        return "still in maintenance, which ends with 'host maintenance off'"
    if mirrored.is_of_nova(before):
        return (
            "the state of the host in Nova counts again at the next audit of the agent that reads"
            " Nova"
        )
    if not services.is_automatic(before):
        return ""
    agent = before.disabled_reason.removeprefix(services.AUTOMATIC)
    return (
        f"the agent of the host had disabled it ({agent}), and will do so again if its next audit"
        " fails"
    )


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


def _living(row: sa.Row[Any], limit: float) -> InUse | None:
    """Return the error for a service that would register again with its next heartbeat."""
    age = abs(services.heartbeat_age(row))
    if age > limit:
        return None
    return InUse(
        f"{row.binary} on {row.host} was alive {age:.0f} s ago and would register again: stop"
        f" it, and delete it when it has been silent for {limit:g} s"
    )


def _refuse_all(errors: Iterable[InUse]) -> None:
    """Raise the error of a host that cannot be deleted, or one that has those of all of them."""
    texts = [str(each) for each in errors]
    if len(texts) > 1:
        more = f"; and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
        listed = "; ".join(texts[:_LISTED])
        many = counted(len(texts), "host")
        raise InUse(f"{many} cannot be deleted, so none was: {listed}{more}")
    if texts:
        raise InUse(texts[0])


def _delete_nodes(
    connection: sa.Connection, host: str, with_places: bool
) -> tuple[list[str], list[str]]:
    """Delete the nodes of a host; return their names, and the instances of pending claims there."""
    query = sa.select(nodes_table.c.id, nodes_table.c.hypervisor_hostname).where(
        nodes_table.c.host == host, nodes_table.c.deleted == 0
    )
    names = {row.hypervisor_hostname: row.id for row in connection.execute(query)}
    compute_nodes.delete(connection, host, names)
    # From here on no place is added.
    held = places.reservations_on(connection, host)
    if held and not with_places:
        raise InUse(
            f"host {host} holds places of {some(held)}: delete these reservations first, or give"
            " up their places here with --forget-guests if the host is lost"
        )
    _log_left(connection, RESERVATION, held, host)
    claimed, _ = existing.on_nodes(connection, names.values())
    claim_rows.log(connection, [row for row in claimed if row.state in COUNTED])
    existing.delete_on_nodes(connection, names.values())
    return sorted(names), sorted(row.instance_uuid for row in claimed if row.state == PENDING)


def _leave_aggregates(connection: sa.Connection, host: str) -> None:
    names = sa.select(aggregates_table.c.name).join(aggregate_hosts)
    left = connection.scalars(names.where(aggregate_hosts.c.host == host)).all()
    members = sa.delete(aggregate_hosts).where(aggregate_hosts.c.host == host)
    if connection.execute(members).rowcount:
        revisions.advance(connection, revisions.AGGREGATES)
    _log_left(connection, AGGREGATE, left, host)


def _log_left(connection: sa.Connection, kind: str, names: Iterable[str], host: str) -> None:
    """Log that objects have a host no more."""
    changes = (Changed(kind, name, {"hosts": [host]}, {"hosts": []}, [host]) for name in names)
    audit_log.record(connection, changes)


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
        hint = ", or give up the guests with --forget-guests if the host is lost" if seen else ""
        raise InUse(
            f"host {host} is needed by {counted(managed, 'managed instance')},"
            f" {counted(seen, 'guest')} that its agent saw last and"
            f" {counted(moving, 'migration')} under way: move the instances and wait for the"
            f" migrations first{hint}"
        )
