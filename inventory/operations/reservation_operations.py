# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to reservations: to hold their places, for longer, and no longer.

Operations run one after the other, as for server groups. All functions raise OperationRefused,
after which the transaction is rolled back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import audit_log, reservations, revisions
from inventory.audit_log import RESERVATION, Changed
from inventory.claims import claim_rows, usage_update
from inventory.claims.types import RESERVED, ClaimRequest
from inventory.claims.usage_update import Change, LockedNodes
from inventory.dialects import utc_moment
from inventory.errors import InUse, Malformed, checked_text, collated, taken
from inventory.objects.amounts import NAMES, Amounts, amounts_facts, amounts_of
from inventory.rows import execute_in, select_in
from inventory.tables import allocations
from inventory.tables import reservations as table

_LOGGED = (
    *("project_id", "flavor_name", "availability_zone", "number", *NAMES),
    *("spread", "ends_at"),
)


@dataclass(frozen=True, slots=True)
class NewReservation:
    """What is to be reserved; ends_at is in UTC, None for no end."""

    name: str
    project_id: str
    size: Amounts
    flavor_name: str | None = None
    availability_zone: str | None = None
    spread: str | None = None
    ends_at: datetime | None = None


def check(connection: sa.Connection, new: NewReservation) -> None:
    """Raise InUse for a name that is taken, Malformed for what cannot be stored or has ended."""
    name = checked_text("name", new.name)
    checked_text("project", new.project_id)
    for row in reservations.rows(connection):
        if collated(row.name) == collated(name):
            raise taken("a reservation", name, row.name)
    if new.ends_at is not None and new.ends_at <= _now(connection):
        raise Malformed("until", f"{new.ends_at} is in the past; times are in UTC")


def create(connection: sa.Connection, new: NewReservation, request: ClaimRequest) -> str:
    """Hold the places that were decided, all or none; return the uuid of the reservation.

    The claims of the request are the places, and their instances the uuids of these. Raises
    ClaimLost as well, where others have changed the hosts since.
    """
    revisions.advance(connection, revisions.RESERVATIONS)
    check(connection, new)
    nodes = LockedNodes(connection, {each.node_id for each in request.claims})
    changes = usage_update.changes((), request.claims)
    for each in changes.values():
        # No instance is on its way.
        each.claims = 0
    nodes.change(changes)
    nodes.write()
    uuid, name, now = str(uuid4()), new.name.strip(), _now(connection)
    of_place = {"reservation_uuid": uuid, "state": RESERVED, "expires_at": new.ends_at}
    claim_rows.insert(
        connection,
        [
            row | of_place | {"slot": -row["compute_node_id"], "answer": None}
            for row in claim_rows.build(request, request.claims, now)
        ],
    )
    values = {
        "uuid": uuid,
        "name": name,
        "project_id": new.project_id.strip(),
        "flavor_name": new.flavor_name,
        "availability_zone": new.availability_zone,
        "number": len(request.claims),
        **amounts_facts(new.size),
        "spread": new.spread,
        "ends_at": new.ends_at,
    }
    connection.execute(sa.insert(table).values(**values, created_at=now))
    hosts = {each.host for each in request.claims}
    change = Changed(RESERVATION, name, {}, _fields(values, hosts), hosts)
    audit_log.record(connection, [change])
    return uuid


def extend(connection: sa.Connection, text: str, ends_at: datetime) -> None:
    """Hold a reservation until a later time, in UTC."""
    revisions.advance(connection, revisions.RESERVATIONS)
    row = reservations.find(reservations.rows(connection), text)
    if row.ends_at is None:
        raise InUse(f"reservation {row.name} has no end; end it with 'reservation delete'")
    if row.ends_at <= _now(connection):
        raise InUse(f"reservation {row.name} has ended: create another one")
    if ends_at <= row.ends_at:
        raise Malformed("until", f"{ends_at} is not later than {row.ends_at}, when it ends now")
    change = sa.update(table).where(table.c.id == row.id).values(ends_at=ends_at)
    connection.execute(change)
    places = sa.update(allocations).where(allocations.c.reservation_uuid == row.uuid)
    connection.execute(places.values(expires_at=ends_at))
    hosts = {each.host for each in reservations.places_of(connection, [row.uuid])}
    before, after = {"ends_at": row.ends_at}, {"ends_at": ends_at}
    audit_log.record(connection, [Changed(RESERVATION, row.name, before, after, hosts)])


def delete(connection: sa.Connection, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Delete reservations, all or none of them; instances in their places stay where they are."""
    revisions.advance(connection, revisions.RESERVATIONS)
    known = reservations.rows(connection)
    found = {row.uuid: row for row in (reservations.find(known, text) for text in texts)}
    gone = [each for each in reservations.listed(connection) if each["id"] in found]
    places = reservations.places_of(connection, [*found])
    free(connection, places)
    execute_in(connection, sa.delete(table), table.c.uuid, found)
    for row in found.values():
        hosts = {each.host for each in places if each.reservation_uuid == row.uuid}
        change = Changed(RESERVATION, row.name, _fields(row._mapping, hosts), {}, hosts)
        audit_log.record(connection, [change])
    return gone


def free(connection: sa.Connection, places: Sequence[sa.Row[Any]]) -> None:
    """Delete places, and give back what they hold when their nodes are locked."""
    nodes = LockedNodes(connection, {row.compute_node_id for row in places})
    changes: dict[int, Change] = {}
    ids = [row.id for row in places]
    now = select_in(connection, sa.select(allocations), allocations.c.id, ids)
    for row in now:
        change = changes.setdefault(row.compute_node_id, Change())
        change.hold(*(-each for each in amounts_of(row)))
    nodes.change(changes)
    nodes.write()
    execute_in(connection, sa.delete(allocations), allocations.c.id, [row.id for row in now])


def _fields(values: Mapping[Any, Any], hosts: Iterable[str]) -> audit_log.Fields:
    """Return what the audit log has of a reservation."""
    return {**{name: values[name] for name in _LOGGED}, "hosts": sorted(hosts)}


def _now(connection: sa.Connection) -> datetime:
    found: datetime = connection.execute(sa.select(utc_moment())).scalar_one()
    return found
