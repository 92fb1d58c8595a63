# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of a cell by the node that they are on, and their migrations."""

import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from compute_agent.virt.driver import Guest, Move, NodeName
from compute_agent.virt.nova import guests
from compute_agent.virt.nova.changed_rows import EVERY_HOST
from inventory import stored_documents
from inventory.nova import servers
from inventory.nova.database import NovaDatabase
from inventory.nova.servers import Extra
from inventory.objects.node_json import guest_topology_from_json

# Seconds in which what belongs to an instance may be written after it, without another change.
RECENT = 2.0


@dataclass(frozen=True, slots=True)
class ServerRows:
    """What was read: instances, what belongs to those that may differ, and migrations.

    missed are changed instances that have no new stamp.
    """

    instances: Sequence[Any]
    extras: Mapping[str, Extra]
    migrations: Sequence[Any]
    missed: Sequence[Any]


@dataclass(slots=True)
class _Server:
    row: Any
    place: NodeName
    # With what it has in Placement, and with what its flavor has, which Nova's rows count.
    guest: Guest
    by_flavor: Guest
    flavors: guests.Flavors = field(default_factory=dict)
    context: guests.MoveContext | None = None

    def is_like(self, other: "_Server") -> bool:
        """Return whether both are counted alike, on one node."""
        mine, its = ((each.place, each.guest, each.by_flavor) for each in (self, other))
        return mine == its


class Servers:
    """What is on the nodes of a cell, and what is on its way."""

    def __init__(self) -> None:
        self._known: dict[str, _Server] = {}
        # Those being deleted, which are asked for: the end of a row leaves no stamp with an index.
        self._ending: set[str] = set()
        # When those were read for the last time that have changed lately.
        self._recent: dict[str, float] = {}
        self._on_node: dict[NodeName, dict[str, _Server]] = {}
        self._migrations: dict[int, Any] = {}
        self._newest = 0
        self._moves: dict[NodeName, tuple[Move, ...]] = {}
        self._moves_by_flavor: dict[NodeName, tuple[Move, ...]] = {}

    def on(self, node: NodeName) -> list[Guest]:
        """Return the instances on a node.

        One that is at its destination already may still have its cells and CPUs of the source.
        """
        found = [each.guest for each in self._on_node.get(node, {}).values()]
        arrived = {
            each.instance_uuid: each.new_numa
            for each in self.moves(node)
            if each.destination == node != each.source and each.new_numa is not None
        }
        if not arrived:
            return found
        return [replace(each, numa=arrived.get(each.uuid, each.numa)) for each in found]

    def moves(self, node: NodeName) -> Sequence[Move]:
        return self._moves.get(node, ())

    def by_flavor(self, node: NodeName) -> tuple[Sequence[Guest], Sequence[Move]]:
        """Return the instances and moves of a node with the sizes that Nova's rows count."""
        guests = [each.by_flavor for each in self._on_node.get(node, {}).values()]
        return guests, self._moves_by_flavor.get(node, ())

    def read(
        self,
        connection: sa.Connection,
        cell: NovaDatabase,
        since: datetime | None,
        hosts: Collection[str] = (),
    ) -> ServerRows:
        """Return the rows for apply(): all, or those that changed since and all of hosts."""
        known = None if since is None else self._migrations
        migrations = servers.migrations(connection, cell, known, self._newest)
        # What their contexts have is written without a change of the instance.
        watched = {row.instance_uuid for row in migrations if servers.is_under_way(row)}
        missed: list[Any] = []
        if since is None:
            rows = servers.instances(connection, cell)
        else:
            watched |= self._recent.keys()
            rows = servers.written_instances(connection, cell, since, self._ending | watched)
            rows += servers.instances(connection, cell, hosts)
            missed = [row for row in rows if self._is_news(row) and row.updated_at < since]
        wanted = {
            row.uuid
            for row in rows
            if guests.place(row) and (row.uuid in watched or self._differs(row))
        }
        extras = servers.extras(connection, cell, wanted) if wanted else {}
        return ServerRows(rows, extras, migrations, missed)

    def apply(self, rows: ServerRows, hosts: Container[str]) -> set[NodeName]:
        """Take what was read, all rows of hosts; return the nodes of which something changed."""
        changed, now = set(), time.monotonic()
        self._recent = {uuid: at for uuid, at in self._recent.items() if now - at < RECENT}
        for row in rows.instances:
            # Of all that is there nothing has changed lately.
            if hosts is not EVERY_HOST and guests.place(row) and self._differs(row):
                self._recent[row.uuid] = now
            changed |= self._take(row, rows.extras.get(row.uuid))
        there = {row.uuid for row in rows.instances}
        # Of most polls none: thousands are known.
        for uuid in self._known.keys() - there if hosts else ():
            if self._known[uuid].place.host in hosts:
                changed.add(self._forget(uuid))
        for row in rows.migrations:
            self._newest = max(self._newest, row.id)
            self._migrations[row.id] = row
        read = {row.id for row in rows.migrations}
        self._migrations = {
            number: row
            for number, row in self._migrations.items()
            if number in read and servers.is_under_way(row)
        }
        return changed | self._count_moves()

    def _is_news(self, row: Any) -> bool:
        """Return whether an instance on a host has changed, and so must have a new stamp."""
        is_stamped = guests.place(row) is not None and row.updated_at is not None
        return is_stamped and self._differs(row)

    def _differs(self, row: Any) -> bool:
        known = self._known.get(row.uuid)
        return known is None or known.row != row

    def _take(self, row: Any, extra: Extra | None) -> set[NodeName]:
        known, place = self._known.get(row.uuid), guests.place(row)
        if place is None:
            return {self._forget(row.uuid)} if known else set()
        if known and extra is None and known.row == row:
            return set()
        new = _server(row, place, extra or Extra())
        self._known[row.uuid] = new
        (self._ending.add if row.task_state == "deleting" else self._ending.discard)(row.uuid)
        left = {self._leave(known)} if known else set()
        self._on_node.setdefault(place, {})[row.uuid] = new
        if known and known.is_like(new):
            return set()
        return {place, *left}

    def _forget(self, uuid: str) -> NodeName:
        self._ending.discard(uuid)
        return self._leave(self._known.pop(uuid))

    def _leave(self, server: _Server) -> NodeName:
        del self._on_node[server.place][server.row.uuid]
        return server.place

    def _count_moves(self) -> set[NodeName]:
        """Find out what moves; return the nodes of which that changed."""
        old, self._moves = self._moves, self._moves_by_node()
        new, self._moves_by_flavor = self._moves, self._moves_by_node(by_flavor=True)
        return {node for node in old.keys() | new.keys() if old.get(node) != new.get(node)}

    def _moves_by_node(self, by_flavor: bool = False) -> dict[NodeName, tuple[Move, ...]]:
        found: dict[NodeName, tuple[Move, ...]] = {}
        for number in sorted(self._migrations, reverse=True):
            row = self._migrations[number]
            if (its := self._known.get(row.instance_uuid)) is None:
                continue
            move = guests.move(row, its.row, its.flavors, its.context, by_flavor)
            if move is not None:
                for end in filter(None, {move.source, move.destination}):
                    found[end] = (*found.get(end, ()), move)
        return found


def _server(row: Any, place: NodeName, extra: Extra) -> _Server:
    try:
        return _parsed(row, place, extra)
    except stored_documents.UNREADABLE:
        return _parsed(row, place, _readable(row, extra))


def _parsed(row: Any, place: NodeName, extra: Extra) -> _Server:
    by_flavor = guests.guest(row, extra)
    return _Server(
        row,
        place,
        guests.as_requested(by_flavor, extra),
        by_flavor,
        guests.flavors(extra.flavor),
        guests.context(extra.migration_context),
    )


def _readable(row: Any, extra: Extra) -> Extra:
    """Return what belongs to an instance without the documents that cannot be read."""
    texts = {name: getattr(extra, name) for name in _DOCUMENTS}
    unreadable = {
        name: None for name, text in texts.items() if text and not _is_readable(row, name, text)
    }
    return replace(extra, **unreadable)  # type: ignore[arg-type]


def _is_readable(row: Any, name: str, text: str) -> bool:
    # Some documents say nothing, which is None, too.
    found = stored_documents.read(
        lambda text: (_DOCUMENTS[name](text),),
        text,
        f"Document {name} of instance {row.uuid} in Nova",
        "the instance counts without it, with the room that its row has. Nova writes it again"
        " when the instance is resized or migrated",
    )
    return found is not None


_DOCUMENTS: Mapping[str, Callable[[str], object]] = {
    "flavor": guests.flavors,
    "numa_topology": guest_topology_from_json,
    "migration_context": guests.context,
}
