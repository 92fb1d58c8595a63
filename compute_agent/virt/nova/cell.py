# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One cell of a Nova cloud in memory, kept true by polls of its database."""

import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from compute_agent.virt.driver import Guest, Move, NodeFacts, NodeName
from compute_agent.virt.nova.changed_rows import (
    EVERY_HOST,
    INTERVAL,
    NONE,
    ChangedHosts,
    Digests,
    DigestTimer,
    changed_hosts,
)
from compute_agent.virt.nova.node_rows import NodeRows
from compute_agent.virt.nova.servers import ServerRows, Servers
from inventory.dialects import current_time, utc_now
from inventory.nova import computes
from inventory.nova.database import NovaDatabase
from inventory.services import ServiceState

LOG = log.getLogger(__name__)
# A transaction commits later than it stamps. What is stamped by a clock that is further behind is
# found by digests.
OVERLAP = timedelta(seconds=10)
# After an outage of this length services that were up stay up for this time: those that could not
# write their heartbeats meanwhile get time for the next ones.
GAP, GRACE = timedelta(seconds=15), timedelta(seconds=20)
# Seconds between two warnings of such a clock.
WARNING_INTERVAL = 600.0
HEALTHY = ServiceState()


class ServiceStates:
    """The states of the cell's compute services by host, as Nova has them.

    limit is the age in seconds up to which a heartbeat counts as alive.
    """

    def __init__(self, limit: float) -> None:
        # Replaced when it changes, so that readers need no lock.
        self.by_host: dict[str, ServiceState] = {}
        # Those that are not healthy.
        self._unusual: set[str] = set()
        self._limit = limit
        # Until when, on the server's clock, those that were up are excused.
        self.excused_until = datetime.min

    def read(
        self, connection: sa.Connection, cell: NovaDatabase, now: datetime, since: datetime
    ) -> Sequence[Any]:
        """Return the rows that matter, for apply()."""
        seen_since = now - timedelta(seconds=self._limit)
        return computes.unusual_services(connection, cell, since, seen_since)

    def apply(self, rows: Iterable[Any], now: datetime, hosts: Container[str]) -> set[str]:
        """Take the states from rows, all rows of hosts; return the hosts of which they changed."""
        old = self.by_host
        # Who is no longer among the unusual ones is healthy again.
        found: dict[str, ServiceState | None] = dict.fromkeys(self._unusual, HEALTHY)
        found |= dict.fromkeys(host for host in old if host in hosts)
        for row in rows:
            found[row.host] = None if row.deleted else self._state(row, now, old.get(row.host))
        self._unusual = {host for host, each in found.items() if each not in (None, HEALTHY)}
        changed = {host for host, each in found.items() if old.get(host) != each}
        if changed:
            new = {**old, **found}
            self.by_host = {host: each for host, each in new.items() if each is not None}
        return changed

    def _state(self, row: Any, now: datetime, before: ServiceState | None) -> ServiceState:
        reason = None
        if row.disabled:
            reason = "disabled in Nova" + (
                f": {row.disabled_reason}" if row.disabled_reason else ""
            )
        alive = computes.is_alive(row, now, self._limit)
        if now < self.excused_until and not row.forced_down:
            alive = alive or (before is not None and before.is_alive)
        is_down, at = bool(row.forced_down), computes.switched_at(row)
        if before and (before.disabled_reason, before.forced_down) == (reason, is_down):
            # A heartbeat may have hidden it since.
            at = before.switched_at
        return ServiceState(reason, is_down, alive, switched_at=at)


@dataclass(frozen=True, slots=True)
class _Rows:
    now: datetime
    # The hosts of which all rows were read, None for all of them.
    hosts: ChangedHosts | None
    digests: Digests | None
    services: Sequence[Any]
    nodes: Sequence[Any]
    servers: ServerRows


class CellMirror:
    """One thread polls, another asks. limit is the age of a service's last heartbeat, if alive."""

    def __init__(self, database: NovaDatabase, limit: float) -> None:
        # When the last poll began that went well, by time.monotonic(); None before it.
        self.polled_at: float | None = None
        self.services = ServiceStates(limit)
        self.nodes = NodeRows()
        self._servers = Servers()
        self._database = database
        # The server's time at the last poll.
        self._read_at: datetime | None = None
        # Whether the last poll failed.
        self._lost = False
        self._timer = DigestTimer()
        self._digests: Digests = {}
        self._warned_at = float("-inf")
        self._lock = Lock()

    def move_to(self, database: NovaDatabase) -> None:
        """Read another database from now on, at first all of it."""
        with self._lock:
            self._database, self._read_at = database, None

    def poll(self, whole: bool) -> set[NodeName]:
        """Read what changed, or everything; return the nodes that differ.

        Raises NovaDatabaseUnavailable.
        """
        began, database = time.monotonic(), self._database
        was_lost, self._lost = self._lost, True
        if whole:
            database.forget_schema()
        rows = database.read(lambda connection: self._read(connection, database, whole))
        with self._lock:
            # The cell may have moved meanwhile.
            if self._database is not database:
                return set()
            if was_lost and self._read_at is not None and rows.now - self._read_at > GAP:
                self.services.excused_until = rows.now + GRACE
            self._lost = False
            self._read_at, self.polled_at = rows.now, began
            return self._apply(rows)

    def poll_services(self) -> set[NodeName]:
        """Read the states of services alone; return the nodes of hosts of which they differ.

        Raises NovaDatabaseUnavailable.
        """
        database = self._database

        def read(connection: sa.Connection) -> tuple[datetime, Sequence[Any]]:
            now = current_time(connection, utc_now)
            return now, self.services.read(connection, database, now, now - OVERLAP)

        now, rows = database.read(read)
        with self._lock:
            if self._database is not database or self._read_at is None:
                return set()
            return self._nodes_of(self.services.apply(rows, now, NONE.services))

    def facts(self, node: NodeName) -> NodeFacts:
        """Return the facts of a node; raises KeyError for one that is gone."""
        with self._lock:
            return self.nodes.facts(node)

    def guests(self, node: NodeName) -> Sequence[Guest]:
        with self._lock:
            return self._servers.on(node)

    def moves(self, node: NodeName) -> Sequence[Move]:
        return self._servers.moves(node)

    def _read(self, connection: sa.Connection, cell: NovaDatabase, whole: bool) -> _Rows:
        # As the stamps of rows, which have no fractions.
        now = current_time(connection, utc_now)
        since = None if whole or self._read_at is None else self._read_at - OVERLAP
        digests = self._timer.take(connection, cell, since is None)
        if since is None:
            services, nodes = computes.services(connection, cell), computes.nodes(connection, cell)
            servers = self._servers.read(connection, cell, None)
            return _Rows(now, None, digests, services, nodes, servers)
        hosts = NONE if digests is None else changed_hosts(self._digests, digests)
        return _Rows(
            now,
            hosts,
            digests,
            [
                *self.services.read(connection, cell, now, since),
                *computes.services(connection, cell, hosts.services),
            ],
            [
                *computes.written_nodes(connection, cell, since),
                *computes.nodes(connection, cell, hosts.compute_nodes),
            ],
            self._servers.read(connection, cell, since, hosts.instances),
        )

    def _apply(self, rows: _Rows) -> set[NodeName]:
        self._digests = rows.digests or self._digests
        self._warn_of_clocks(rows)
        of_instances, of_nodes, of_services = rows.hosts or (EVERY_HOST, EVERY_HOST, EVERY_HOST)
        hosts = self.services.apply(rows.services, rows.now, of_services)
        changed = self.nodes.apply(rows.nodes, of_nodes)
        touched = self._servers.apply(rows.servers, of_instances)
        changed |= touched | self._reserve(changed | touched)
        return changed | self._nodes_of(hosts)

    def _nodes_of(self, hosts: set[str]) -> set[NodeName]:
        return {name for name in self.nodes.names() if name.host in hosts} if hosts else set()

    def _warn_of_clocks(self, rows: _Rows) -> None:
        """Warn of the oldest stamp of what has changed since the last digest."""
        missed, now = rows.servers.missed, time.monotonic()
        if not missed or now - self._warned_at < WARNING_INTERVAL:
            return
        self._warned_at = now
        oldest = min(missed, key=lambda row: row.updated_at)
        LOG.warning(
            "Instance %s of cell %s has just changed, and the stamp of the change is %.0f s old:"
            " the clock of the Nova service that wrote the row is behind the clock of the"
            " database. Changes by this service are seen up to %g s later. Synchronize the clocks"
            " of Nova's machines",
            oldest.uuid,
            self._database.name,
            (rows.now - oldest.updated_at).total_seconds(),
            INTERVAL,
        )

    def _reserve(self, changed: set[NodeName]) -> set[NodeName]:
        """Find out what is reserved of nodes; return those of which that changed."""
        now = time.monotonic()
        return {
            name
            for name in changed | self.nodes.unsettled
            if self.nodes.reserve(name, *self._servers.by_flavor(name), now)
        }
