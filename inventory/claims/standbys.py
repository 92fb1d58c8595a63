# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of standbys: room on nodes for protected instances, written together with claims.

What a node holds for standbys is part of what is used of it. So a transaction that changes the
standbys held on a node has locked the node, and writes it even where the largest sum stays. One
that only changes whose they are need not: the sums stay.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import instances
from inventory.claims import group_locks, usage_update
from inventory.claims.places import PlaceChanges
from inventory.claims.types import CONFIRMED, INSTANCE, Changes, ClaimLost, Standby
from inventory.claims.usage_update import Change, LockedNodes, bound, used_of
from inventory.dialects import utc_moment
from inventory.objects import standby
from inventory.objects.amounts import NOTHING, Amounts, amounts_of, covers, larger, plus
from inventory.objects.standby import DomainSums, OwnStandby, Protection
from inventory.objects.standby_sums import NodeSums
from inventory.rows import chunks, select_in
from inventory.tables import allocations, compute_nodes
from inventory.tables import standbys as table

_C = table.c
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_COLUMNS = (
    *(_C.id, _C.instance_uuid, _C.place_node_id, _C.compute_node_id, _C.domains),
    *(_C.group_uuid, _C.vcpus, _C.memory_mb, _C.disk_mb, _C.mode, _C.place_request),
)
_OF_INSTANCES = sa.select(*_COLUMNS).where(_C.instance_uuid.in_(_VALUES))
_INSERT = sa.insert(table).values(created_at=utc_moment())
_DELETE = sa.delete(table).where(_C.id == sa.bindparam("row_id"))
# Rows never change: a standby that moves is another row.
_BY_IDS = sa.select(*_COLUMNS).where(_C.id.in_(_VALUES))
_CLAIM, _PLACE = allocations.alias("claim"), allocations.alias("place")
# Of the reserved places that instances are in.
_OF_PLACES = (
    sa.select(*_COLUMNS, _PLACE.c.taken_by.label("member"))
    .join(_PLACE, _PLACE.c.instance_uuid == _C.instance_uuid)
    .join(_CLAIM, _CLAIM.c.place_uuid == _PLACE.c.instance_uuid)
    .where(_CLAIM.c.instance_uuid.in_(_VALUES), _CLAIM.c.instance_uuid == _PLACE.c.taken_by)
    .where(_C.place_node_id == _PLACE.c.compute_node_id)
)
_USAGE = [
    compute_nodes.c[name]
    for name in (
        *("id", "vcpus_used", "memory_mb", "free_ram_mb", "local_gb", "local_gb_used"),
        *("free_disk_gb", "disk_available_least", "disk_mb_used", "free_disk_mb"),
    )
]
_SUMS = sa.select(
    *(_C.compute_node_id, _C.domains),
    *(sa.func.sum(each) for each in (_C.vcpus, _C.memory_mb, _C.disk_mb)),
).group_by(_C.compute_node_id, _C.domains)
# Building a statement costs more than running it.
_SUMS_ON = _SUMS.where(_C.compute_node_id.in_(_VALUES))


def read_sums(connection: sa.Connection, ids: Collection[int] | None = None) -> NodeSums:
    """Return what each failure domain would bring to nodes with standbys: to these, or to all."""
    rows: list[Any] = []
    if ids is None:
        rows += connection.execute(_SUMS.where(_C.compute_node_id.is_not(None)))
    for some in chunks(sorted(ids or ())):
        rows += connection.execute(_SUMS_ON, {"values": some})
    found = NodeSums()
    for node_id, domains, *size in rows:
        vcpus, memory_mb, disk_mb = map(int, size)
        sums = found.get(node_id, {})
        found[node_id] = standby.changed(sums, domains.split(","), (vcpus, memory_mb, disk_mb))
    return found


def held_on(connection: sa.Connection, ids: Collection[int]) -> dict[int, Amounts]:
    """Return what nodes hold for standbys, those alone that hold any."""
    return {node_id: standby.held(sums) for node_id, sums in read_sums(connection, ids).items()}


def read_protection(
    connection: sa.Connection, mode: str, uuids: Collection[str], sums: NodeSums
) -> Protection:
    """Return what a decision needs to know to protect the instances of a request.

    sums are those of all nodes, which may be a little older.
    """
    of_places = _read(connection, _OF_PLACES, sorted(uuids))
    rows = [*(_read(connection, _OF_INSTANCES, sorted(uuids)) | of_places).values()]
    nodes = {row.compute_node_id for row in rows if row.compute_node_id is not None}
    now_held = held_on(connection, nodes)
    used = {
        each.id: plus(used_of(each._asdict()), now_held.get(each.id, NOTHING), -1)
        for each in select_in(connection, sa.select(*_USAGE), compute_nodes.c.id, nodes)
    }
    seen = instances.seen_on(connection, uuids) if rows else set()
    own = tuple(
        OwnStandby(
            row.instance_uuid,
            row.place_node_id,
            row.compute_node_id if row.compute_node_id in used else None,
            amounts_of(row),
            used.get(row.compute_node_id, NOTHING),
            row.instance_uuid if row.id in of_places else None,
            (getattr(row, "member", row.instance_uuid).lower(), row.place_node_id) in seen,
        )
        for row in rows
    )
    return Protection(mode, sums, own)


@dataclass(slots=True)
class Moved:
    """What one request changes: rows that go, standbys that come, and the sums of nodes then."""

    gone: list[Any] = field(default_factory=list)
    made: list[Standby] = field(default_factory=list)
    sums: dict[int, DomainSums] = field(default_factory=dict)
    # Nodes to which instances are evacuated that have a standby there.
    taken: set[int] = field(default_factory=set)


class StandbyChanges:
    """The standbys that a transaction makes and ends; LockedNodes has to lock nodes, too."""

    def __init__(
        self,
        connection: sa.Connection,
        wanted: Sequence[Standby],
        old: Iterable[Any] = (),
        ending: Sequence[int] = (),
        first: bool = False,
    ) -> None:
        """old are claims that are replaced, ending the ids of rows that end by themselves.

        first: no instance has a claim, so hardly any has a standby. It is looked for those of
        places and of evacuated instances only, and for those of others that move; write() raises
        ClaimLost if another one is for the same place.
        """
        self._connection = connection
        self._replaced = {
            (row.instance_uuid, row.compute_node_id) for row in old if row.state != CONFIRMED
        }
        self._ending = {*ending}
        old_too = [
            each
            for each in wanted
            if each.of_place or each.evacuates is not None or each.replaces is not None
        ]
        asked = old_too if first else wanted
        uuids = sorted({each.instance_uuid for each in asked})
        self._before = _read(connection, _OF_INSTANCES, uuids)
        self._before |= _read(connection, _BY_IDS, sorted(ending))
        self.nodes: set[int] = {each.node_id for each in wanted if each.node_id is not None}
        self.nodes |= {row.compute_node_id for row in self._before.values() if row.compute_node_id}
        self._sums: dict[int, DomainSums] = {}
        self._rows = dict(self._before)
        self._gone: list[Any] = []
        self._made: list[Standby] = []

    def read(self) -> None:
        """Read what is held on the nodes, which are locked. Raises ClaimLost."""
        self._sums = dict(read_sums(self._connection, self.nodes))
        held = {each.id for each in self._before.values() if each.compute_node_id is not None}
        if held and _read(self._connection, _BY_IDS, sorted(held)).keys() != held:
            raise ClaimLost((), "a standby of the instance has changed", INSTANCE)

    def moved(self, wanted: Sequence[Standby]) -> Moved:
        """Return what making these standbys changes. Raises ClaimLost."""
        found = Moved()
        for each in wanted:
            size, request = each.size, each.request if each.of_place else None
            if each.replaces is not None and each.replaces not in self._rows:
                raise ClaimLost((), "a standby of an instance has ended", INSTANCE)
            for row in self._of(each.instance_uuid):
                at = row.place_node_id
                is_replaced = (each.instance_uuid, at) in self._replaced
                if at not in {each.place_node_id, each.evacuates} and not is_replaced:
                    continue
                if each.replaces is not None and row.id != each.replaces:
                    raise ClaimLost((), "a standby of the instance has changed", INSTANCE)
                self._end(found, row)
                if each.of_place:
                    request = row.place_request
                if at == each.place_node_id and not is_replaced and not each.shrinks:
                    # Resized in place, an instance may go back to its old size.
                    size = larger(size, amounts_of(row))
                takes = at == each.evacuates and row.compute_node_id == each.place_node_id
                if takes and covers(amounts_of(row), each.size):
                    found.taken.add(each.place_node_id)
            if each.node_id is not None:
                sums = found.sums.get(each.node_id, self._sums.get(each.node_id, {}))
                found.sums[each.node_id] = standby.changed(sums, each.domains, size)
            found.made.append(replace(each, size=size, place_request=request))
        return found

    def ended(self) -> Moved:
        """Return what the end of the rows changes that end by themselves."""
        found = Moved()
        for row in self._rows.values():
            if row.id in self._ending:
                self._end(found, row)
        return found

    def count(self, changes: dict[int, Change], moved: Moved) -> None:
        """Count in the changes of nodes how much more or less they hold then, and guard them."""
        for node_id, sums in moved.sums.items():
            change = changes.setdefault(node_id, Change())
            before = standby.held(self._sums.get(node_id, {}))
            after = standby.held(sums)
            change.hold(*plus(after, before, -1))
            if node_id in moved.taken:
                change.credit = after
        for each in moved.made:
            if each.node_id is not None:
                bound(changes[each.node_id], each)

    def apply(self, moved: Moved) -> None:
        """Take in what moved() or ended() has returned; write() writes it."""
        self._sums.update(moved.sums)
        for row in moved.gone:
            self._rows.pop(row.id, None)
        self._gone += moved.gone
        self._made += moved.made

    def write(self) -> None:
        """Write all that has changed. Raises ClaimLost."""
        for row in sorted(self._gone, key=lambda row: row.id):
            if self._connection.execute(_DELETE, {"row_id": row.id}).rowcount != 1:
                raise ClaimLost((), "a standby of the instance has ended", INSTANCE)
        if not self._made:
            return
        rows = [_row(each) for each in self._made]
        rows.sort(key=lambda row: (row["instance_uuid"], row["place_node_id"]))
        try:
            # The statement for a list costs more than that for one row.
            self._connection.execute(_INSERT, rows if len(rows) > 1 else rows[0])
        except DBDuplicateEntry:
            reason = "a standby of the same instance was made at the same time"
            raise ClaimLost((), reason, INSTANCE) from None

    def _of(self, instance_uuid: str) -> list[Any]:
        return [row for row in self._rows.values() if row.instance_uuid == instance_uuid]

    def _end(self, found: Moved, row: Any) -> None:
        if row in found.gone:
            return
        found.gone.append(row)
        if (node_id := row.compute_node_id) is not None:
            sums = found.sums.get(node_id, self._sums.get(node_id, {}))
            domains = row.domains.split(",")
            found.sums[node_id] = standby.changed(sums, domains, amounts_of(row), -1)


def _read(
    connection: sa.Connection, query: sa.Select[Any], values: Sequence[Any]
) -> dict[int, Any]:
    """Return rows by their ids."""
    return {
        row.id: row
        for some in chunks(values)
        for row in connection.execute(query, {"values": some})
    }


def _row(made: Standby) -> dict[str, Any]:
    vcpus, memory_mb, disk_mb = made.size
    return {
        "instance_uuid": made.instance_uuid,
        "project_id": made.project_id,
        "group_uuid": made.group.uuid if made.group else None,
        "place_node_id": made.place_node_id,
        "domains": standby.domains_text(made.domains),
        "compute_node_id": made.node_id,
        "reason": made.reason,
        "mode": made.mode,
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "disk_mb": disk_mb,
        "request": made.request,
        "place_request": made.place_request,
    }


def settle(
    connection: sa.Connection, made: Sequence[Standby], ending: Sequence[int] = ()
) -> Changes:
    """Make standbys in place of those for the same places, and end rows; return what has changed.

    Free places whose nodes are lost go to where their standbys were. Raises ClaimLost and
    GroupUnlisted, after which the transaction is to be rolled back.
    """
    groups = group_locks.lock_each(connection, [each.group for each in made])
    group_locks.check_standbys(made, groups)
    changing = StandbyChanges(connection, made, (), ending)
    moving = [each for each in made if each.left is not None]
    ends = {each.left for each in moving if each.left} | {each.place_node_id for each in moving}
    nodes = LockedNodes(connection, changing.nodes | ends)
    changing.read()
    places = PlaceChanges(connection, [each.instance_uuid for each in moving])
    for moved in (changing.ended(), changing.moved(made)):
        changes = usage_update.changes((), more=ends if moved.made else ())
        there = places.follow(moving, moved.taken) if moved.made else {}
        places.count(changes, there)
        changing.count(changes, moved)
        nodes.change(changes)
        changing.apply(moved)
        places.apply(there)
    nodes.write()
    changing.write()
    places.write()
    return nodes.changed(())
