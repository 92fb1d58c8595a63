# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of a cell by the node that they are on, and their migrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from compute_agent.virt.driver import Guest, Move, NodeName
from compute_agent.virt.nova import guests
from inventory.nova import servers
from inventory.nova.database import NovaDatabase
from inventory.nova.servers import Extra

LOG = log.getLogger(__name__)
# What belongs to an instance may be written after it in the same second; stamps tell no more.
RECENT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class ServerRows:
    """What was read: instances, what belongs to those that may differ, and migrations."""

    instances: Sequence[Any]
    extras: Mapping[str, Extra]
    migrations: Sequence[Any]


@dataclass(slots=True)
class _Server:
    row: Any
    place: NodeName
    guest: Guest
    flavors: guests.Flavors = field(default_factory=dict)
    context: guests.MoveContext | None = None


class Servers:
    """What is on the nodes of a cell, and what is on its way."""

    def __init__(self) -> None:
        self._known: dict[str, _Server] = {}
        # Those being deleted, which are asked for: the end of a row leaves no stamp with an index.
        self._ending: set[str] = set()
        self._on_node: dict[NodeName, dict[str, Guest]] = {}
        self._migrations: dict[int, Any] = {}
        self._newest = 0
        self._moves: dict[NodeName, tuple[Move, ...]] = {}

    def on(self, node: NodeName) -> list[Guest]:
        """Return the instances on a node.

        One that is at its destination already may still have its cells and CPUs of the source.
        """
        found = list(self._on_node.get(node, {}).values())
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

    def read(
        self, connection: sa.Connection, cell: NovaDatabase, now: datetime, since: datetime | None
    ) -> ServerRows:
        """Return the rows for apply(): all, or those that changed since."""
        migrations = servers.migrations(connection, cell, since, self._newest)
        # What their contexts have is written without a stamp of the instance.
        moving = {each.instance_uuid for each in (*migrations, *self._migrations.values())}
        rows = servers.instances(connection, cell, since, self._ending | moving)
        wanted = {
            row.uuid
            for row in rows
            if guests.place(row) and (row.uuid in moving or self._differs(row, now))
        }
        extras = servers.extras(connection, cell, wanted) if wanted else {}
        return ServerRows(rows, extras, migrations)

    def apply(self, rows: ServerRows, whole: bool) -> set[NodeName]:
        """Take what was read; return the nodes of which something changed."""
        changed = set()
        for row in rows.instances:
            changed |= self._take(row, rows.extras.get(row.uuid))
        if whole:
            there = {row.uuid for row in rows.instances}
            for uuid in self._known.keys() - there:
                changed.add(self._forget(uuid))
            self._migrations = {}
        for row in rows.migrations:
            self._newest = max(self._newest, row.id)
            self._migrations[row.id] = row
            if not servers.is_under_way(row):
                del self._migrations[row.id]
        return changed | self._count_moves()

    def _differs(self, row: Any, now: datetime) -> bool:
        known = self._known.get(row.uuid)
        recent = row.updated_at is not None and row.updated_at > now - RECENT
        return recent or known is None or known.row != row

    def _take(self, row: Any, extra: Extra | None) -> set[NodeName]:
        known, place = self._known.get(row.uuid), guests.place(row)
        if place is None:
            return {self._forget(row.uuid)} if known else set()
        if known and extra is None and known.row == row:
            return set()
        new = _server(row, place, extra or Extra())
        self._known[row.uuid] = new
        (self._ending.add if row.task_state == "deleting" else self._ending.discard)(row.uuid)
        if known and (known.place, known.guest) == (place, new.guest):
            return set()
        left = {self._leave(known)} if known else set()
        self._on_node.setdefault(place, {})[row.uuid] = new.guest
        return {place, *left}

    def _forget(self, uuid: str) -> NodeName:
        self._ending.discard(uuid)
        return self._leave(self._known.pop(uuid))

    def _leave(self, server: _Server) -> NodeName:
        del self._on_node[server.place][server.row.uuid]
        return server.place

    def _count_moves(self) -> set[NodeName]:
        """Find out what moves; return the nodes of which that changed."""
        found: dict[NodeName, list[Move]] = {}
        for number in sorted(self._migrations, reverse=True):
            row = self._migrations[number]
            server = self._known.get(row.instance_uuid)
            move = guests.move(row, server.row, server.flavors, server.context) if server else None
            if move is not None:
                for end in filter(None, {move.source, move.destination}):
                    found.setdefault(end, []).append(move)
        old, new = self._moves, {node: tuple(each) for node, each in found.items()}
        self._moves = new
        return {node for node in old.keys() | new.keys() if old.get(node) != new.get(node)}


def _server(row: Any, place: NodeName, extra: Extra) -> _Server:
    # It takes its room all the same, which its row tells.
    found = _Server(row, place, guests.guest(row, Extra()))
    try:
        found.guest, found.flavors = guests.guest(row, extra), guests.flavors(extra.flavor)
        found.context = guests.context(extra.migration_context)
    except (ValueError, KeyError, TypeError) as error:
        LOG.warning("Instance %s has a document that cannot be read: %s", row.uuid, error)
    return found
