# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of compute nodes and services in the host table; each complete reading is compared."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from oslo_log import log

from inventory import services
from inventory.claims.types import NodeChange
from inventory.errors import counted
from scheduler.host_cache.assumed import Place
from scheduler.host_cache.host_aggregates import HostAggregates, first_names
from scheduler.host_cache.node_rows import write_documents, write_nodes, write_usage, written_at
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.columns import INTEGERS
from scheduler.hosts.table import HostTable

LOG = log.getLogger(__name__)
# How many seconds a pushed row may be ahead of the database's clock as it is known here. Resources
# consumed before a row was written do not count any more: with a row of next year, for a year.
MAX_AHEAD = 60.0
# How many changes of a node wait at most. Of more, all are dropped: the node is read anyway.
MAX_WAITING = 64
# For how many seconds changes may wait for others before their node is read.
PATIENCE = 1.0
# As the known generation of a node whose row cannot take changes: all of them wait.
NONE = -1


class Nodes:
    """The nodes of a host table, locked together with it."""

    def __init__(
        self, hosts: HostTable, aggregates: HostAggregates, cell_uuid: str | None = None
    ) -> None:
        self._hosts = hosts
        self._aggregates = aggregates
        self._cell_uuid = cell_uuid
        # By node id; those of dead nodes stay until all are read again.
        self.generations: dict[int, int] = {}
        self._rows: dict[int, int] = {}
        self.early = PushOrder()
        # eligibility_revision by node id, as read with services and aggregates: pushes lack these.
        self.eligibility: dict[int, int] = {}
        # Hosts whose nodes were added or removed; the owner clears it.
        self.changed_hosts: set[str] = set()
        self.services_at = float("-inf")
        self._services: Mapping[str, Any] = {}
        # Seconds from the last heartbeats to services_at, by host; none where it was young.
        self._heartbeat_ages: Mapping[str, float] = {}
        self._trust: Mapping[str, str] = {}
        # When resources of a node were consumed that its row does not have yet: see write_nodes().
        self.consumed: dict[int, float] = {}

    def newer(self, nodes: Iterable[Any], stale: Collection[int]) -> list[Any]:
        """Return the rows that are newer than the known ones, or equal to them if stale."""
        return [
            node
            for node in nodes
            if self._is_newer(node) or (node.id in stale and self._is_newest(node))
        ]

    def newer_pushed(self, nodes: Iterable[Any], last: Delta, now: float) -> list[Any]:
        """Return the pushed rows that are newer than the known ones and plausible.

        now is in seconds since 1970 on the database's clock.
        """
        return [
            node for node in nodes if self._is_newer(node) and self._is_plausible(node, last, now)
        ]

    def missed(self, found: Delta, last: Delta | None) -> list[str]:
        """Return the hosts of newer rows that the last reading should have found."""
        newer = (node for node in found.nodes if self._is_newer(node))
        return [node.host for node in newer if last is not None and last.should_have(node)]

    def apply_changes(
        self, changes: Iterable[NodeChange], now: float
    ) -> list[tuple[int, NodeChange]]:
        """Write what claims have changed; return the changes that could be applied, by row.

        now is in seconds since 1970 on the database's clock.
        """
        applied: list[tuple[int, NodeChange]] = []
        for change in changes:
            node_id = change.node_id
            known, row = self.generations.get(node_id), self._rows.get(node_id)
            if known is None or row is None or change.after <= known:
                continue
            if not self._has_row(node_id, row):
                known = NONE
            if found := self.early.following(change, known, now):
                applied += [(row, each) for each in found]
                self.generations[node_id] = found[-1].after
        if applied:
            write_usage(self._hosts, dict(applied), now)
        for row, change in applied:
            write_documents(self._hosts, row, change.documents)
        return applied

    def mark_consumed(self, row: int, time: float) -> None:
        """Keep what was consumed from a row until its node is written later than this time."""
        self.consumed[self._node_id(row)] = time
        self._hosts.set(row, "updated", time)

    def write(self, nodes: Iterable[Any]) -> None:
        """Write rows of the database into the table; remove the nodes of deleted ones."""
        alive = self._alive(nodes)
        if not alive:
            return
        for place, node in alive.items():
            row = self._hosts.row_of(*place)
            # Another node may have its name now.
            if row is not None and self._node_id(row) != node.id:
                self._remove(row)
        self._add([place for place in alive if self._hosts.row_of(*place) is None])
        rows = {}
        for place, node in alive.items():
            row = self._hosts.row_of(*place)
            assert row is not None
            rows[row] = node
        for node in write_nodes(self._hosts, rows, self.consumed):
            self.consumed.pop(node.id, None)
        self._rows.update({node.id: row for row, node in rows.items()})
        # Last: what could not be written is to be read again.
        self.generations.update({node.id: node.generation for node in alive.values()})

    def places(self, nodes: Iterable[Any]) -> set[Place]:
        """Return the places of written nodes, without those that other nodes have by now."""
        places = ((node, (node.host, node.hypervisor_hostname)) for node in nodes)
        return {
            place
            for node, place in places
            if not node.deleted or self._hosts.row_of(*place) is None
        }

    def replace_all(self, nodes: Sequence[Any]) -> tuple[list[Any], set[int]]:
        """Remove all nodes but these and forget all generations; return the rows to write.

        Return also the nodes of which newer rows are known. They may have changed since these rows
        were read, or the database was restored from a backup: the next row counts, however old.
        """
        alive = {(node.host, node.hypervisor_hostname) for node in nodes}
        for row in list(self._hosts.rows()):
            if (self._hosts.get(row, "host"), self._hosts.get(row, "nodename")) not in alive:
                self._remove(row)
        known = self.generations
        newer = {node.id for node in nodes if node.generation < known.get(node.id, -1)}
        self.generations.clear()
        self.eligibility.clear()
        return [node for node in nodes if node.id not in newer], newer

    def remove(self, node_ids: Collection[int]) -> None:
        """Remove nodes by their ids, as far as they exist."""
        for node_id in self._rows.keys() & node_ids:
            self._remove(self._rows[node_id])

    def read_services(self, found: Iterable[Any], began: float) -> None:
        """Replace all compute services, read at a time of the monotonic clock."""
        self._services = {service.host: service for service in found}
        self._read_ages(self._services.values(), began)

    def read_heartbeats(self, late: Iterable[Any], began: float) -> None:
        """Take all services but the late ones for alive, as read at a time of the monotonic clock.

        Ten thousand heartbeats take longer to read than all else, and say one thing.
        """
        self._read_ages(late, began)
        hosts, ages = self._hosts, self._heartbeat_ages
        hosts.fill("last_seen", np.where(hosts.served, began, hosts.last_seen))
        self._write_last_seen([row for host in ages for row in hosts.rows_of_host(host)])

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Set the levels of trust by node."""
        # As a rule nothing has changed since the last request.
        if levels != self._trust:
            self._trust = levels
            self._write_trust(self._hosts.rows())

    def _alive(self, nodes: Iterable[Any]) -> dict[Place, Any]:
        """Remove the nodes of deleted rows; return the others by place."""
        alive: dict[Place, Any] = {}
        for node in nodes:
            place = (node.host, node.hypervisor_hostname)
            if not node.deleted:
                alive[place] = node
                continue
            row = self._hosts.row_of(*place)
            if row is not None and self._node_id(row) == node.id:
                self._remove(row)
            if place in alive and alive[place].id == node.id:
                del alive[place]
            self.generations[node.id] = node.generation
        return alive

    def _add(self, places: Sequence[Place]) -> None:
        rows = self._hosts.add_each(places)
        self.changed_hosts.update(host for host, _ in places)
        self._aggregates.write(rows)
        self.write_services(rows)
        self._write_trust(rows)

    def _is_newer(self, node: Any) -> bool:
        known = self.generations.get(node.id, -1)
        return bool(node.generation > known)

    def _is_newest(self, node: Any) -> bool:
        return bool(node.generation == self.generations.get(node.id))

    def _has_row(self, node_id: int, row: int) -> bool:
        """Return whether all that is in use on a node is that of its row, which is complete."""
        return node_id not in self.consumed and self._hosts.get(row, "updated") is not None

    def _is_plausible(self, node: Any, last: Delta, now: float) -> bool:
        if written_at(node) - now > MAX_AHEAD:
            return False
        if node.deleted or node.id in self.generations:
            return True
        # An unknown node that the last reading should have found was deleted before it. One whose
        # service is unknown could not be used; it is read together with that.
        return node.host in self._services and not last.should_have(node)

    def _remove(self, row: int) -> None:
        node_id = self._node_id(row)
        self.early.take([node_id])
        by_node: dict[int, Any]
        for by_node in (self.generations, self.eligibility, self.consumed, self._rows):
            by_node.pop(node_id, None)
        self.changed_hosts.add(self._hosts.get(row, "host"))
        self._hosts.remove(row)

    def _write_trust(self, rows: Iterable[int]) -> None:
        rows = [*rows]
        nodes = [self._hosts.get(row, "nodename") for row in rows]
        self._hosts.write(rows, "trust_level", map(self._trust.get, nodes))

    def write_services(self, rows: Iterable[int]) -> None:
        """Write the services of hosts into their rows."""
        found = {row: self._services.get(self._hosts.get(row, "host")) for row in rows}
        for row, service in found.items():
            if service is None and not self._hosts.get(row, "unserved"):
                host = self._hosts.get(row, "host")
                LOG.warning(
                    "Host %s has a compute node but no compute service; the host is not used", host
                )
        self._hosts.write([*found], "unserved", [service is None for service in found.values()])
        served = {row: service for row, service in found.items() if service is not None}
        for name, value_of in {
            "service_disabled": lambda each: services.switched_off(each)[0],
            "disabled_reason": lambda each: services.switched_off(each)[1],
            "forced_down": lambda each: each.forced_down,
            "cell_uuid": lambda each: each.cell_uuid or self._cell_uuid,
        }.items():
            self._hosts.write([*served], name, map(value_of, served.values()))
        self._write_last_seen([*served])

    def _read_ages(self, found: Iterable[Any], began: float) -> None:
        self._heartbeat_ages = {each.host: services.heartbeat_age(each) for each in found}
        self.services_at = began

    def _write_last_seen(self, rows: Sequence[int]) -> None:
        age, hosts = self._heartbeat_ages.get, [self._hosts.get(row, "host") for row in rows]
        self._hosts.write(rows, "last_seen", [self.services_at - age(host, 0.0) for host in hosts])

    def _node_id(self, row: int) -> int:
        found: int = self._hosts.get(row, "node_id")
        return found


class CacheDigest:
    """The figures of a host table before a complete reading; nodes in ignored are known wrong."""

    def __init__(self, hosts: HostTable, ignored: Collection[int]) -> None:
        self._hosts = hosts
        self._ignored = ignored
        self._present = hosts.present.copy()
        self._figures = {name: getattr(hosts, name).copy() for name in INTEGERS}

    def log_differences(self, missed: Sequence[str]) -> None:
        """Warn of hosts whose changes were missed, or whose figures differ without a change."""
        differing = self._differing()
        if missed or differing:
            LOG.warning(
                "The host cache was out of date and is corrected: it had missed changes of %s and"
                " had wrong figures of %s: %s",
                counted(len(missed), "node"),
                counted(len(differing), "other"),
                first_names([*missed, *differing]),
            )

    def _differing(self) -> list[str]:
        """Return the hosts that have other figures now and still the same generation."""
        hosts, size = self._hosts, len(self._present)
        equal = {name: getattr(hosts, name)[:size] == old for name, old in self._figures.items()}
        same = self._present & hosts.present[:size] & equal["node_id"] & equal["generation"]
        rows = np.flatnonzero(same & ~np.logical_and.reduce([*equal.values()])).tolist()
        return [
            hosts.get(row, "host") for row in rows if hosts.get(row, "node_id") not in self._ignored
        ]


class PushOrder:
    """Holds back the changes of nodes that have come before others which they follow.

    They come from many schedulers. Times are in seconds.
    """

    def __init__(self) -> None:
        # By node id and generation before.
        self._waiting: dict[int, dict[int, NodeChange]] = {}
        self._since: dict[int, float] = {}

    def following(self, change: NodeChange, known: int, now: float) -> list[NodeChange]:
        """Return the changes that lead from a known generation of a node to a newer one.

        That is this change with those that have waited for it, or nothing if others are missing.
        """
        node_id = change.node_id
        waiting = self._waiting.get(node_id)
        if waiting is None:
            if change.before == known:
                return [change]
            waiting, self._since[node_id] = {}, now
            self._waiting[node_id] = waiting
        elif len(waiting) >= MAX_WAITING:
            waiting.clear()
        waiting[change.before] = change
        found, newest = list[NodeChange](), known
        while newest in waiting:
            found.append(waiting.pop(newest))
            newest = found[-1].after
        if not waiting:
            del self._waiting[node_id], self._since[node_id]
        return found

    def overdue(self, now: float) -> set[int]:
        """Return the nodes whose changes have waited for too long."""
        return {node_id for node_id, since in self._since.items() if since < now - PATIENCE}

    def take(self, node_ids: Iterable[int]) -> list[NodeChange]:
        """Return the changes of nodes that wait, which are forgotten here."""
        found = list[NodeChange]()
        for node_id in node_ids if self._waiting else ():
            found += self._waiting.pop(node_id, {}).values()
            self._since.pop(node_id, None)
        return found
