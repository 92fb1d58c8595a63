# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All standbys, with where their instances are, for who keeps or shows them."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from inventory.claims.types import CONFIRMED, RESERVED
from inventory.dialects import utc_moment
from inventory.objects.standby import NONE, REQUIRED
from inventory.rows import named, select_in
from inventory.tables import allocations, compute_nodes, instances, reservations
from inventory.tables import standbys as table

_C, _A, _I, _R = table.c, allocations.c, instances.c, reservations.c
# Without the requests, which are long.
_COLUMNS = [each for each in _C if not each.name.endswith("request")]
_PROTECTED = sa.select(_C.instance_uuid)
# A place has to have its standby, whatever is asked for the instance that is in it.
_MODE = sa.case((_C.place_request.is_not(None), REQUIRED), else_=_C.mode)
# Places of reservations that have ended are there until an audit, for which a lost host may wait.
# The audit gives the standbys of those with protected instances to these.
_LASTS = sa.or_(
    *(_A.reservation_uuid.is_(None), _A.expires_at.is_(None), _A.expires_at > utc_moment()),
    sa.and_(_A.taken_by.is_not(None), _A.instance_uuid.in_(_PROTECTED.where(_C.mode != NONE))),
)


@dataclass(slots=True)
class InstancePlaces:
    """The nodes for which an instance has claims, by ids, and the (host, node) where it is seen.

    There it has so many vCPUs and so much memory in MB. The same for a reserved place, which is
    free if no instance has taken it, which taken_by is. is_changing: the instance is on its way, or
    a resize of it is neither confirmed nor reverted.
    """

    claimed: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    seen: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    is_free: bool = False
    taken_by: str | None = None
    is_changing: bool = False


@dataclass(slots=True)
class StandbyRows:
    """The rows, where the instances are that are anywhere, and the generations of nodes by id."""

    rows: list[Any]
    instances: dict[str, InstancePlaces]
    generations: dict[int, int]


def read(connection: sa.Connection) -> StandbyRows:
    """Return all standbys."""
    is_of_place = _C.place_request.is_not(None).label("of_place")
    rows = named(connection.execute(sa.select(*_COLUMNS, is_of_place).order_by(_C.id)))
    found: dict[str, InstancePlaces] = defaultdict(InstancePlaces)
    generations: dict[int, int] = {}
    if rows:
        nodes = sa.select(compute_nodes.c.id, compute_nodes.c.generation)
        held_on = compute_nodes.c.id.in_(sa.select(_C.compute_node_id))
        generations = {row.id: row.generation for row in connection.execute(nodes.where(held_on))}
        claimed = sa.select(_A.instance_uuid, _A.compute_node_id, _A.state, _A.taken_by)
        claimed = claimed.where(_A.instance_uuid.in_(_PROTECTED), _LASTS)
        for uuid, node_id, state, taken_by in connection.execute(claimed):
            found[uuid.lower()].claimed.add(node_id)
            if state == CONFIRMED:
                found[uuid.lower()].confirmed.add(node_id)
            else:
                found[uuid.lower()].is_changing = True
            found[uuid.lower()].is_free = state == RESERVED
            found[uuid.lower()].taken_by = taken_by
        columns = _I.uuid, _I.host, _I.node, _I.vm_state, _I.task_state, _I.vcpus, _I.memory_mb
        seen = sa.select(*columns).where(_I.deleted == 0, _I.uuid.in_(_PROTECTED))
        for uuid, host, node, vm_state, task_state, *size in connection.execute(seen):
            found[uuid.lower()].seen[host, node] = (size[0], size[1])
            found[uuid.lower()].is_changing |= vm_state == "resized" or bool(task_state)
    return StandbyRows(rows, dict(found), generations)


def requests_of(connection: sa.Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the requests to evacuate the instances of rows, as text.

    That of a reserved place is its own as long as nobody is in it.
    """
    is_free = sa.and_(_A.instance_uuid == _C.instance_uuid, _A.state == RESERVED)
    request = sa.func.coalesce(sa.case((_A.id.is_not(None), _C.place_request)), _C.request)
    query = sa.select(_C.id, request.label("request"))
    rows = select_in(connection, query.join(allocations, is_free, isouter=True), _C.id, ids)
    return {row.id: row.request for row in rows}


def reasons(connection: sa.Connection) -> dict[str, str]:
    """Return why instances have no standby, by their uuids."""
    query = sa.select(_C.instance_uuid, _C.reason).where(_C.compute_node_id.is_(None))
    return {uuid: reason or "" for uuid, reason in connection.execute(query)}


def lacking_requests(connection: sa.Connection, reason: str) -> dict[str, str]:
    """Return the requests of instances without a standby for a reason, as text, by their uuids."""
    query = sa.select(_C.instance_uuid, _C.request).order_by(_C.id)
    found = connection.execute(query.where(_C.compute_node_id.is_(None), _C.reason == reason))
    return {row.instance_uuid: row.request for row in found}


def mode_of(connection: sa.Connection, instance_uuid: str) -> str | None:
    """Return how an instance is protected, None where it is not."""
    query = sa.select(_C.mode).where(_C.instance_uuid == instance_uuid).order_by(_C.id.desc())
    found: str | None = connection.scalar(query.limit(1))
    return found


def lacking(connection: sa.Connection) -> dict[str, int]:
    """Return the number of instances without a standby by mode, and of all that are protected."""
    query = sa.select(_MODE, sa.func.count(), sa.func.count(_C.compute_node_id))
    found: dict[str, int] = {"protected": 0}
    for mode, number, held in connection.execute(query.group_by(_MODE)):
        found[mode] = number - held
        found["protected"] += number
    return found


def protected(
    connection: sa.Connection, project: str | None = None, without: bool = False
) -> list[dict[str, Any]]:
    """Return the protected instances by host and uuid: of one project, or those without a standby.

    An instance that moves is there twice, once for each of its places. Reserved places are there
    as well, with their reservations, and by the instances that are in them.
    """
    place, standby = compute_nodes.alias("place"), compute_nodes.alias("standby")
    instance = sa.func.coalesce(_A.taken_by, _C.instance_uuid)
    is_of_place = sa.and_(_A.instance_uuid == _C.instance_uuid, _A.reservation_uuid.is_not(None))
    name = (
        sa.select(sa.func.max(_I.display_name))
        .where(_I.uuid == instance, _I.deleted == 0)
        .scalar_subquery()
    )
    query = (
        sa.select(
            *(instance.label("instance"), name.label("name"), _R.name.label("reservation")),
            *(_C.project_id.label("project"), place.c.host.label("host")),
            *(_C.domains.label("domain"), _MODE.label("mode")),
            *(standby.c.host.label("standby"), _C.reason, _C.vcpus, _C.memory_mb, _C.disk_mb),
        )
        .join(place, place.c.id == _C.place_node_id, isouter=True)
        .join(standby, standby.c.id == _C.compute_node_id, isouter=True)
        .join(allocations, is_of_place, isouter=True)
        .join(reservations, _R.uuid == _A.reservation_uuid, isouter=True)
        .order_by(place.c.host, _C.instance_uuid)
    )
    if project is not None:
        query = query.where(_C.project_id == project)
    if without:
        query = query.where(_C.compute_node_id.is_(None))
    return [dict(row) for row in connection.execute(query).mappings()]
