# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reserved places: rows of allocations without instances, which a claim of their project takes.

A place holds what it has more than the instance that has taken it. So what is used of its node is
the same before and after it is taken or given back, unless the instance is larger than the place.
All changes of places are made in transactions that have locked and written their nodes.

A place may be promised to a later reservation, too. From the end of its own on it belongs to that
one by the clock of the database, whoever writes it first: an audit or a claim.

A place with a standby goes there when its node is lost: with the instance that is in it, or by the
keeper of standbys if nobody is. If its reservation ends while a protected instance is in it, the
standby is the instance's from then on.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from inventory.claims.types import HOST, RESERVED, WAITING, Claim, ClaimLost, ClaimRequest, Standby
from inventory.dialects import utc_moment
from inventory.objects.amounts import NAMES, NOTHING, Amounts, amounts_of, covers, plus, without
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import NONE
from inventory.rows import chunks, execute_in, named
from inventory.tables import allocations, compute_nodes, reservations, standbys

if TYPE_CHECKING:
    # It brings numpy, for which commands would wait that read a list.
    from inventory.claims.usage_update import Change

_A, _R, _S = allocations.c, reservations.c, standbys.c
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
# Between its start and its end the places of a reservation may be taken.
_BEGUN = sa.or_(_R.starts_at.is_(None), _R.starts_at <= utc_moment())
_LASTS = sa.or_(_R.ends_at.is_(None), _R.ends_at > utc_moment())
_PLACE = (_A.instance_uuid, _A.compute_node_id, *(_R[name] for name in NAMES))
_CURRENT = sa.select(_R.uuid, _R.project_id, *(_R[name] for name in NAMES)).where(
    _R.project_id.in_(_VALUES), _BEGUN, _LASTS
)
# By values: a join by one or the other column would read the rows of all claims.
_FREE = (
    sa.select(
        *(_A.instance_uuid, _A.compute_node_id, _S.id.is_not(None), _S.compute_node_id),
        *(_A.reservation_uuid, _A.next_reservation_uuid),
    )
    .join(standbys, _S.instance_uuid == _A.instance_uuid, isouter=True)
    .where(sa.or_(_A.reservation_uuid.in_(_VALUES), _A.next_reservation_uuid.in_(_VALUES)))
    .where(_A.state == RESERVED)
    .order_by(_A.id)
)
_ENDING = (
    sa.select(*_PLACE)
    .join(reservations, _R.uuid == _A.reservation_uuid)
    .where(_A.state == RESERVED, _A.next_reservation_uuid.is_(None), _LASTS)
    # One that is protected ends with its reservation.
    .where(~sa.exists().where(_S.instance_uuid == _A.instance_uuid))
)
_PASSES = sa.and_(_A.next_reservation_uuid.is_not(None), _A.expires_at <= utc_moment())
_BY_UUIDS = (
    sa.select(
        *(_A.id, _A.instance_uuid, _A.state, _A.compute_node_id, _A.taken_by),
        *(_A.vcpus, _A.memory_mb, _A.disk_mb, _R.project_id),
        *(_BEGUN.label("begun"), _LASTS.label("lasts"), _PASSES.label("passes")),
        *(_R[name].label(f"full_{name}") for name in NAMES),
    )
    .join(
        reservations,
        _R.uuid == sa.case((_PASSES, _A.next_reservation_uuid), else_=_A.reservation_uuid),
    )
    .where(_A.instance_uuid.in_(_VALUES))
)
# Servers assign from left to right.
_PASS_ON = sa.update(allocations).ordered_values(
    (_A.reservation_uuid, _A.next_reservation_uuid),
    (
        _A.expires_at,
        sa.select(_R.ends_at).where(_R.uuid == _A.next_reservation_uuid).scalar_subquery(),
    ),
    (_A.next_reservation_uuid, None),
)
_WRITTEN = ("state", "taken_by", *NAMES)
_HOLD = (
    sa.update(allocations)
    .where(_A.id == sa.bindparam("row_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in _WRITTEN})
)
# Locked and read as they are then, since the keeper may move them meanwhile.
_OUTLIVING = (
    sa.select(standbys, _A.taken_by)
    .join(allocations, _A.instance_uuid == _S.instance_uuid)
    .where(_A.id.in_(_VALUES), _A.taken_by.is_not(None), _S.mode != NONE)
    .with_for_update()
)
_OWN = sa.select(_S.instance_uuid, _S.place_node_id).where(_S.instance_uuid.in_(_VALUES))
_NODE = sa.bindparam("node_id", type_=sa.Integer)
_MOVE = (
    sa.update(allocations)
    .where(_A.id == sa.bindparam("row_id"))
    .values(
        {
            name: sa.select(compute_nodes.c[its])
            .where(compute_nodes.c.id == _NODE)
            .scalar_subquery()
            for name, its in (("host", "host"), ("node", "hypervisor_hostname"))
        }
        | {"compute_node_id": _NODE, "slot": -_NODE}
    )
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place as a row: size is that of its reservation, holds what is used of the node for it.

    passes: the reservation is the next one, since that in the row has ended. left is the node from
    which it is moved.
    """

    row_id: int
    uuid: str
    node_id: int
    state: str
    taken_by: str | None
    size: Amounts
    holds: Amounts
    project: str | None = None
    begun: bool = True
    lasts: bool = True
    passes: bool = False
    left: int | None = None

    def free(self) -> "Place":
        """Return the place held again in full."""
        return replace(self, state=RESERVED, taken_by=None, holds=self.size)

    def taken(self, instance_uuid: str, takes: Amounts) -> "Place":
        """Return the place taken by an instance that takes so much of the node."""
        holds = without(self.size, takes)
        return replace(self, state=WAITING, taken_by=instance_uuid, holds=holds)

    def moved(self, node_id: int) -> "Place":
        """Return the place on another node."""
        return replace(self, node_id=node_id, left=self.node_id)


def write(connection: sa.Connection, places: Iterable[Place]) -> None:
    """Write places whose state, or what they hold, has changed, or that pass on or move."""
    rows: list[dict[str, Any]] = []
    ordered = sorted(places, key=lambda each: each.row_id)
    for each in ordered:
        values: tuple[Any, ...] = (each.state, each.taken_by, *each.holds)
        pairs = zip(_WRITTEN, values, strict=True)
        rows.append({"row_id": each.row_id} | {f"new_{name}": value for name, value in pairs})
    if rows:
        connection.execute(_HOLD, rows)
    pass_on(connection, [each.row_id for each in ordered if each.passes])
    for each in ordered:
        if each.left is not None:
            connection.execute(_MOVE, {"row_id": each.row_id, "node_id": each.node_id})


def pass_on(connection: sa.Connection, ids: Sequence[int]) -> None:
    """Give places, by the ids of their rows, to the reservations that have them next."""
    execute_in(connection, _PASS_ON, _A.id, ids)


def delete(connection: sa.Connection, ids: Collection[int]) -> None:
    """Delete places, by the ids of their rows, whose reservations have ended.

    The standby of a place becomes that of the protected instance in it, if it has none of its own.
    Its row is a new one: who has read the old one decides again.
    """
    for some in chunks(sorted(ids)):
        rows = named(connection.execute(_OUTLIVING, {"values": some}))
        owners = [row.taken_by for row in rows]
        own = {(uuid, node_id) for uuid, node_id in connection.execute(_OWN, {"values": owners})}
        # Resized in place, an instance is in two places: it keeps the larger standby.
        kept = {
            (row.taken_by, row.place_node_id): row
            for row in sorted(rows, key=amounts_of)
            if (row.taken_by, row.place_node_id) not in own
        }.values()
        execute_in(connection, sa.delete(standbys), _S.id, [row.id for row in kept])
        for row in kept:
            values = {each.name: getattr(row, each.name) for each in _S if each is not _S.id}
            values |= {"instance_uuid": row.taken_by, "place_request": None}
            connection.execute(sa.insert(standbys), values)
    execute_in(connection, sa.delete(allocations), _A.id, ids)


def of_rows(connection: sa.Connection, rows: Iterable[Any]) -> list[Place]:
    """Return the places among rows of allocations."""
    return _read(connection, [row.instance_uuid for row in rows if row.reservation_uuid])


def ending_by(connection: sa.Connection, moment: datetime) -> list[ReservedPlace]:
    """Return the free places whose reservations end by a time, and that nobody has next."""
    found = connection.execute(_ENDING.where(_R.ends_at <= moment))
    return [ReservedPlace(*row) for row in found]


def reservations_on(connection: sa.Connection, host: str) -> list[str]:
    """Return the names of the reservations with places on a host."""
    query = sa.select(_R.name).join(allocations, _A.reservation_uuid == _R.uuid)
    return sorted({*connection.scalars(query.where(_A.host == host))})


class PlaceChanges:
    """Places that claims take or give back in one transaction, whose nodes are locked."""

    def __init__(self, connection: sa.Connection, uuids: Sequence[str]) -> None:
        self._connection = connection
        self._changed: set[str] = set()
        self._places = {each.uuid: each for each in _read(connection, uuids)}

    def moved(self, old: Iterable[Any], claims: Iterable[Claim]) -> dict[str, Place]:
        """Return the places that old claims give back and new ones take, as they are then.

        An instance takes its place along from a node that it has lost. Raises ClaimLost for a place
        that is not to be had any more.
        """
        found: dict[str, Place] = {}
        for row in old:
            place = self._places.get(row.place_uuid)
            at = row.instance_uuid, row.compute_node_id
            if place is not None and (place.taken_by, place.node_id) == at:
                found[place.uuid] = place.free()
        for each in claims:
            if each.place is None:
                continue
            before, takes = self._places.get(each.place), amounts_of(each)
            if before and before.taken_by == each.instance_uuid and before.node_id != each.node_id:
                found[before.uuid] = before.moved(each.node_id).taken(each.instance_uuid, takes)
                continue
            place = found.get(each.place, before)
            if (
                place is None
                or (place.state, place.node_id) != (RESERVED, each.node_id)
                or not (place.begun and place.lasts)
                # It may have passed on since.
                or place.project != each.about.get("project_id")
                or not covers(place.size, takes)
            ):
                raise ClaimLost({each.node_id}, "a reserved place is taken or has ended", HOST)
            found[place.uuid] = place.taken(each.instance_uuid, takes)
        return found

    def follow(self, made: Iterable[Standby], nodes: Collection[int]) -> dict[str, Place]:
        """Return free places moved to the nodes that their standbys were on.

        made are their new standbys, nodes those of the old ones. Raises ClaimLost for a place that
        is taken.
        """
        found = {}
        for each in made:
            place = self._places.get(each.instance_uuid)
            at = (RESERVED, each.evacuates)
            is_held = each.place_node_id in nodes
            if place is None or (place.state, place.node_id) != at or not is_held:
                raise ClaimLost((), "a reserved place was taken or has moved", HOST)
            found[place.uuid] = place.moved(each.place_node_id)
        return found

    def count(self, changes: "Mapping[int, Change]", moved: Mapping[str, Place]) -> None:
        """Count in the changes of nodes how much more or less these places hold then."""
        for uuid, after in moved.items():
            before = self._places[uuid]
            for place, sign in ((before, -1), (after, 1)):
                if change := changes.get(place.node_id):
                    change.hold(*plus(NOTHING, place.holds, sign))

    def apply(self, moved: Mapping[str, Place]) -> None:
        """Take in what moved() has returned; write() writes it."""
        self._places.update(moved)
        self._changed |= moved.keys()

    def write(self) -> None:
        """Write all places that have changed."""
        write(self._connection, (self._places[uuid] for uuid in self._changed))


def _read(connection: sa.Connection, uuids: Sequence[str]) -> list[Place]:
    found = []
    for some in chunks(uuids):
        for row in connection.execute(_BY_UUIDS, {"values": some}):
            size = row.full_vcpus, row.full_memory_mb, row.full_disk_mb
            names = row.id, row.instance_uuid, row.compute_node_id, row.state, row.taken_by
            flags = row.project_id, bool(row.begun), bool(row.lasts), bool(row.passes)
            found.append(Place(*names, size, amounts_of(row), *flags))
    return found


class FreePlaces:
    """The places of projects that can be taken, without those that were taken since."""

    def __init__(self, places: Mapping[str, Sequence[ReservedPlace]]) -> None:
        self._places = places
        self._taken: set[str] = set()

    @classmethod
    def read(cls, connection: sa.Connection, projects: Collection[str]) -> "FreePlaces":
        """Return the places of these projects."""
        found: dict[str, list[ReservedPlace]] = defaultdict(list)
        current = {
            uuid: fields
            for some in chunks(sorted(projects))
            for uuid, *fields in connection.execute(_CURRENT, {"values": some})
        }
        for some in chunks(sorted(current)):
            for place, node_id, *its, first, second in connection.execute(_FREE, {"values": some}):
                uuids = first, second
                # The later of its reservations does not begin before the other one has ended.
                project, *size = next(current[uuid] for uuid in uuids if uuid in current)
                found[project].append(ReservedPlace(place, node_id, *size, *its))
        return cls(found)

    def of(self, project: str | None) -> tuple[ReservedPlace, ...]:
        """Return the places of a project."""
        here = self._places.get(project or "", ())
        return tuple(each for each in here if each.uuid not in self._taken)

    def add(self, request: ClaimRequest) -> None:
        """Take in that the claims of a request are going to take places."""
        self._taken.update(each.place for each in request.claims if each.place)
