# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to reservations: to hold their places, for longer, and no longer.

Operations run one after the other, as for server groups. All functions raise OperationRefused,
after which the transaction is rolled back.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import audit_log, reservations, revisions
from inventory.audit_log import RESERVATION, Changed
from inventory.claims import claim_rows, places, usage_update
from inventory.claims.standbys import StandbyChanges
from inventory.claims.types import HOST, RESERVED, Claim, ClaimLost, ClaimRequest
from inventory.claims.usage_update import Change, LockedNodes
from inventory.dialects import current_time
from inventory.errors import InUse, Malformed, checked_text, collated, taken
from inventory.objects.amounts import NAMES, Amounts, amounts_facts, amounts_of, covers
from inventory.rows import execute_in, select_in
from inventory.tables import allocations
from inventory.tables import reservations as table

_LOGGED = (
    *("project_id", "flavor_name", "availability_zone", "number", *NAMES),
    *("spread", "starts_at", "ends_at"),
)


@dataclass(frozen=True, slots=True)
class NewReservation:
    """What is to be reserved; starts_at and ends_at are in UTC, None for now and for no end.

    With failover each place has a standby.
    """

    name: str
    project_id: str
    size: Amounts
    flavor_name: str | None = None
    availability_zone: str | None = None
    spread: str | None = None
    ends_at: datetime | None = None
    starts_at: datetime | None = None
    failover: bool = False


def check(connection: sa.Connection, new: NewReservation) -> None:
    """Raise InUse for a name that is taken, Malformed for what cannot be stored or has ended."""
    name = checked_text("name", new.name)
    checked_text("project", new.project_id)
    for row in reservations.rows(connection):
        if collated(row.name) == collated(name):
            raise taken("a reservation", name, row.name)
    now = current_time(connection)
    for field, moment in (("from", new.starts_at), ("until", new.ends_at)):
        if moment is not None and moment <= now:
            raise Malformed(field, f"{moment} is in the past; times are in UTC")
    if new.starts_at and new.ends_at and new.ends_at <= new.starts_at:
        raise Malformed("until", f"{new.ends_at} is not later than {new.starts_at}, the start")


def create(connection: sa.Connection, new: NewReservation, request: ClaimRequest) -> str:
    """Hold the places that were decided, all or none; return the uuid of the reservation.

    The claims of the request are the places, and their instances the uuids of these; so are those
    of standbys. One that takes a place is that place, from the end of its reservation on. Raises
    ClaimLost as well, where others have changed the hosts since.
    """
    revisions.advance(connection, revisions.RESERVATIONS)
    check(connection, new)
    wanted = [replace(each, of_place=True) for each in request.standbys]
    standbys = StandbyChanges(connection, wanted)
    nodes = LockedNodes(connection, {each.node_id for each in request.claims} | standbys.nodes)
    standbys.read()
    changes = usage_update.changes((), request.claims)
    for each in changes.values():
        # No instance is on its way.
        each.claims = 0
    following = _following(connection, new, request)
    for claim in following.values():
        changes[claim.node_id].hold(*(-each for each in amounts_of(claim)))
    held = standbys.moved(wanted)
    standbys.count(changes, held)
    standbys.apply(held)
    nodes.change(changes)
    nodes.write()
    standbys.write()
    uuid, name, now = str(uuid4()), new.name.strip(), current_time(connection)
    of_place = {"reservation_uuid": uuid, "state": RESERVED, "expires_at": new.ends_at}
    claim_rows.insert(
        connection,
        [
            row | of_place | {"slot": -row["compute_node_id"], "answer": None}
            for row in claim_rows.build(
                request, [each for each in request.claims if not each.place], now
            )
        ],
    )
    follow = sa.update(allocations).values(next_reservation_uuid=uuid)
    execute_in(connection, follow, allocations.c.instance_uuid, following)
    values = {
        "uuid": uuid,
        "name": name,
        "project_id": new.project_id.strip(),
        "flavor_name": new.flavor_name,
        "availability_zone": new.availability_zone,
        "number": len(request.claims),
        **amounts_facts(new.size),
        "spread": new.spread,
        "starts_at": new.starts_at,
        "ends_at": new.ends_at,
    }
    connection.execute(sa.insert(table).values(**values, created_at=now))
    hosts = {each.host for each in request.claims}
    fields = {**_fields(values, hosts), "failover": new.failover}
    audit_log.record(connection, [Changed(RESERVATION, name, {}, fields, hosts)])
    return uuid


def _following(
    connection: sa.Connection, new: NewReservation, request: ClaimRequest
) -> dict[str, Claim]:
    """Return the claims that are places of others until the start, by these; raise ClaimLost."""
    found = {each.place: each for each in request.claims if each.place}
    ending = places.ending_by(connection, new.starts_at) if found and new.starts_at else ()
    sizes = {each.uuid: each.size for each in ending}
    for uuid, claim in found.items():
        if uuid not in sizes or not covers(sizes[uuid], amounts_of(claim)):
            reason = (
                "a place that is to be handed over was taken meanwhile, or its reservation has"
                " another end now"
            )
            raise ClaimLost({claim.node_id}, reason, HOST)
    return found


def extend(connection: sa.Connection, text: str, ends_at: datetime) -> None:
    """Hold a reservation until a later time, in UTC."""
    revisions.advance(connection, revisions.RESERVATIONS)
    row = reservations.find(reservations.rows(connection), text)
    if row.ends_at is None:
        raise InUse(f"reservation {row.name} has no end; end it with 'reservation delete'")
    if row.ends_at <= current_time(connection):
        raise InUse(f"reservation {row.name} has ended: create another one")
    if ends_at <= row.ends_at:
        raise Malformed("until", f"{ends_at} is not later than its present end, {row.ends_at}")
    _check_next(connection, row, ends_at)
    change = sa.update(table).where(table.c.id == row.id).values(ends_at=ends_at)
    connection.execute(change)
    held = sa.update(allocations).where(allocations.c.reservation_uuid == row.uuid)
    connection.execute(held.values(expires_at=ends_at))
    hosts = {each.host for each in reservations.places_of(connection, [row.uuid])}
    before, after = {"ends_at": row.ends_at}, {"ends_at": ends_at}
    audit_log.record(connection, [Changed(RESERVATION, row.name, before, after, hosts)])


def _check_next(connection: sa.Connection, row: sa.Row[Any], ends_at: datetime) -> None:
    """Raise InUse if places are promised from an earlier time on."""
    query = (
        sa.select(table.c.name, table.c.starts_at)
        .join(allocations, allocations.c.next_reservation_uuid == table.c.uuid)
        .where(allocations.c.reservation_uuid == row.uuid, table.c.starts_at < ends_at)
        .order_by(table.c.starts_at)
    )
    if (first := connection.execute(query).first()) is not None:
        raise InUse(
            f"places of reservation {row.name} go to reservation {first.name} at"
            f" {first.starts_at}: extend it until then at most, or delete reservation {first.name}"
            " first"
        )


def delete(connection: sa.Connection, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Delete reservations, all or none of them; instances in their places stay where they are."""
    revisions.advance(connection, revisions.RESERVATIONS)
    known = reservations.rows(connection)
    found = {row.uuid: row for row in (reservations.find(known, text) for text in texts)}
    gone = [each for each in reservations.listed(connection) if each["id"] in found]
    there = reservations.places_of(connection, [*found])
    _end(connection, there, found.keys())
    execute_in(connection, sa.delete(table), table.c.uuid, found)
    for row in found.values():
        hosts = {
            each.host
            for each in there
            if row.uuid in (each.reservation_uuid, each.next_reservation_uuid)
        }
        change = Changed(RESERVATION, row.name, _fields(row._mapping, hosts), {}, hosts)
        audit_log.record(connection, [change])
    return gone


def _end(connection: sa.Connection, there: Sequence[sa.Row[Any]], ended: Set[str]) -> None:
    """Delete the places of reservations that end, unless others have them, now or next.

    The next audit settles what a place holds that goes to another reservation.
    """
    nodes = LockedNodes(connection, {row.compute_node_id for row in there})
    changes: dict[int, Change] = {}
    now, ids = current_time(connection), [row.id for row in there]
    gone, passing, staying = [], [], []
    for row in select_in(connection, sa.select(allocations), allocations.c.id, ids):
        if ended.isdisjoint((row.reservation_uuid, row.next_reservation_uuid)):
            # An audit has passed it on meanwhile.
            continue
        change = changes.setdefault(row.compute_node_id, Change())
        if row.next_reservation_uuid not in {None, *ended}:
            passing.append(row.id)
        elif row.reservation_uuid not in ended and row.expires_at > now:
            staying.append(row.id)
        else:
            gone.append(row.id)
            change.hold(*(-each for each in amounts_of(row)))
    nodes.change(changes)
    nodes.write()
    places.delete(connection, gone)
    places.pass_on(connection, passing)
    stay = sa.update(allocations).values(next_reservation_uuid=None)
    execute_in(connection, stay, allocations.c.id, staying)


def _fields(values: Mapping[Any, Any], hosts: Iterable[str]) -> audit_log.Fields:
    """Return what the audit log has of a reservation."""
    return {**{name: values[name] for name in _LOGGED}, "hosts": sorted(hosts)}
