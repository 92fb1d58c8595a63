# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The host cache of a process: the host table in memory, kept fresh for decisions."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from threading import RLock
from typing import Any

from oslo_log import log

from inventory.claims.types import NodeChange
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.objects.aggregate import Aggregate
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.decision.types import Decision
from scheduler.host_cache import refresh_queries
from scheduler.host_cache.assumed import InFlightClaims
from scheduler.host_cache.host_aggregates import HostAggregates
from scheduler.host_cache.instance_tracker import InstanceTracker
from scheduler.host_cache.node_rows import epoch_seconds
from scheduler.host_cache.nodes import CacheDigest, Nodes
from scheduler.host_cache.refresh_queries import Delta, DeltaQuery
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

LOG = log.getLogger(__name__)
# Seconds between two readings of heartbeats; agents send them as often.
HEARTBEAT_INTERVAL = 10.0
# Seconds by which the database's clock may differ from what it should say.
CLOCK_TOLERANCE = 10.0


class HostCache:
    """The host table and what keeps it fresh.

    Times are in seconds of the monotonic clock unless said otherwise. Many threads may use it.
    """

    def __init__(
        self,
        database: Database,
        max_age: float = 0.0,
        reload_interval: float = 300.0,
        timeout: float = 60.0,
        cell_uuid: str | None = None,
    ) -> None:
        self._database = database
        # Up to which age the cache is used without a refresh; a reload may change it.
        self.max_age = max_age
        self._reload_interval = reload_interval
        # How often heartbeats are read. Younger ones are taken for as young as the reading.
        self.heartbeat_interval = HEARTBEAT_INTERVAL
        # Called before each refresh, and with True when the database's clock was set: heartbeats
        # that could not be written say nothing. May raise DatabaseUnavailable.
        self.catch_up: Callable[[bool], None] = lambda _: None
        # The projects with reservations.
        self.reserving: Collection[str] = frozenset()
        # For callers, too, that do several things at once; see locked() for the table.
        self.lock = RLock()
        self._hosts = HostTable()
        self._aggregates = HostAggregates(self._hosts)
        self._nodes = Nodes(self._hosts, self._aggregates, cell_uuid)
        self._tracker = InstanceTracker(self._hosts)
        self._in_flight = InFlightClaims(self._hosts, self._tracker.add_claim)
        # Nodes to be read again. Each time that one is marked it gets a new mark.
        self._stale: dict[int, int] = {}
        self._marks = count()
        # Hosts to be read again with their instances, marked in the same way.
        self._stale_hosts: dict[str, int] = {}
        # Casts about aggregates in their order, until one of their threads has the lock.
        self._casts: deque[Callable[[], None]] = deque()
        self._last: Delta | None = None
        self._read_at = self._loaded_at = float("-inf")
        # How far the database's clock was ahead of the monotonic one, at least and at most.
        self._ahead = float("-inf"), float("inf")
        self._timeout = timeout
        self._threads = CachedThreadPool()
        # The refresh that has begun last.
        self._refresh_under_way: Future[None] | None = None

    @property
    def age(self) -> float:
        """The seconds since the last refresh began; infinite before the first one."""
        return time.monotonic() - self._read_at

    def eligibility_revision(self, node_id: int) -> int:
        """Return the eligibility_revision of a node; -1, as no row has, if it was only pushed."""
        with self.lock:
            return self._nodes.eligibility.get(node_id, -1)

    @contextmanager
    def current(self, max_age: float | None = None, fresh: bool = False) -> Iterator[HostTable]:
        """Yield the host table, locked, after refresh_if_older(); see there and locked()."""
        self.refresh_if_older(max_age, fresh)
        # Otherwise living hosts would look dead in a cache that is meant to be old.
        with self.locked(as_of_reading=max_age is not None and not fresh) as hosts:
            yield hosts

    def refresh_if_older(
        self, max_age: float | None = None, fresh: bool = False, patient: bool = False
    ) -> None:
        """Refresh the cache if it is older than the age that is configured, or is given in seconds.

        fresh means with all that was committed before; patient is who waits however long it takes,
        as a start does. Raises DatabaseUnavailable.
        """
        most = self.max_age if max_age is None else max_age
        oldest = time.monotonic() - (0.0 if fresh else most)
        # One that had begun before then lacks what was committed since: it is followed by another.
        while self._read_at < oldest:
            try:
                self._begin_refresh().result(None if patient else self._timeout)
            except TimeoutError:
                raise DatabaseUnavailable(
                    f"host cache: no answer within {self._timeout:g} s"
                ) from None

    @contextmanager
    def locked(self, as_of_reading: bool = False) -> Iterator[HostTable]:
        """Yield the host table, locked; copy it before consuming from it.

        The age of heartbeats is that of now or of the reading.
        """
        with self.lock:
            self._aggregates.write_changes()
            self._hosts.set_time(self._nodes.services_at if as_of_reading else time.monotonic())
            yield self._hosts

    def nodenames(self, max_age: float | None = None) -> list[str]:
        """Return the names of all nodes, each once; see current()."""
        with self.current(max_age) as hosts:
            return [name for name in hosts.distinct("nodename") if name is not None]

    def set_numa_packing(self, packing: bool) -> None:
        """Set whether instances fill one NUMA cell after the other; see HostTable."""
        with self.lock:
            self._hosts.numa_packing = packing

    def set_flavor_mix(self, mix: FlavorMix) -> None:
        """Set what is usually asked for."""
        with self.lock:
            self._hosts.set_flavor_mix(mix)

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Set the levels of trust by node, which must not change any more; others are unknown."""
        with self.lock:
            self._nodes.set_trust(levels)

    def refresh(self) -> None:
        """Read what changed and apply it; read all if the last complete reading is too old."""
        self.catch_up(False)
        began = time.monotonic()
        complete = self._last is None or began - self._loaded_at >= self._reload_interval
        with refresh_queries.gc_paused(complete):
            self._refresh(began, complete)

    def _refresh(self, began: float, complete: bool) -> None:
        with self.lock:
            last, stale = self._last, self._stale.copy()
            hosts = self._stale_hosts.copy()
            overdue = self._nodes.early.overdue(self._database_time(began))
            nodes = stale.keys() | overdue | self._tracker.node_ids(hosts)
        if last is None or complete:
            delta = self._database.read(refresh_queries.read_all)
        else:
            interval = self.heartbeat_interval
            late_after = interval if began - self._nodes.services_at >= interval else None
            query = DeltaQuery(self._nodes.generations, nodes, hosts, late_after)
            delta = self._database.read(
                lambda connection: refresh_queries.read_changes(connection, last, query)
            )
            if self._clock_was_set(delta, began):
                LOG.warning("The database's clock was set; reading all nodes")
                self.catch_up(True)
                # By their times it is unknown which rows have changed.
                delta = self._database.read(refresh_queries.read_all)
        with self.lock:
            self._apply(delta, began, stale)
            self._nodes.early.take(overdue)
            for host in hosts if delta.complete else delta.hosts:
                if self._stale_hosts.get(host) == hosts[host]:
                    del self._stale_hosts[host]
        refresh_queries.log_duration(delta, time.monotonic() - began)

    def mark_stale(self, node_ids: Collection[int]) -> None:
        """Let the next refresh read these nodes and overwrite what was consumed there."""
        with self.lock:
            self._stale.update(dict.fromkeys(node_ids, next(self._marks)))

    def apply_push(
        self, nodes: Sequence[Any], instances: Sequence[Any], claims: Sequence[Any] = ()
    ) -> None:
        """Apply rows that an agent or a scheduler has pushed, if they are newer.

        Rows of instances and claims count with those of their nodes. The age of the cache stays:
        other changes are still to be read.
        """
        with self.lock:
            if self._last is None:
                return
            now = self._database_time(time.monotonic())
            newer = self._nodes.newer_pushed(nodes, self._last, now)
            self._nodes.write(newer)
            places = self._nodes.places(newer)
            delta = Delta(complete=False, nodes=newer, claims=claims)
            delta.instances = [each for each in instances if (each.host, each.node) in places]
            self._apply_instances(delta)

    def apply_changes(self, changes: Sequence[NodeChange]) -> None:
        """Apply what claims have changed of nodes, each to the generation that it follows.

        A change of another generation is ignored if it is older. If it is newer it waits for what
        is missing, for a second; then the next refresh reads the node.
        """
        with self.lock:
            if self._last is None:
                return
            now = self._database_time(time.monotonic())
            if applied := self._nodes.apply_changes(changes, now):
                self._tracker.apply_changes(applied)

    def begin_claim(self, decision: Decision, spec: RequestSpec) -> frozenset[int]:
        """Consume what was decided until its nodes are read again; return their ids.

        Cells and devices stay as they are. end_claim() has to follow, and before it
        mark_stale() unless the claims were made.
        """
        with self.lock:
            return self._in_flight.begin(decision, spec)

    @property
    def nodes_in_flight(self) -> Collection[int]:
        """The ids of the nodes with claims in flight."""
        with self.lock:
            return frozenset(self._in_flight.open)

    def end_claim(self, node_ids: Collection[int]) -> None:
        """End a claim in flight: it is in the rows of its nodes now, or never will be."""
        with self.lock:
            self._in_flight.end(node_ids)

    def reports(self, uuid: str, host: str, node: str) -> bool:
        """Return whether the agent of a node has reported an instance there."""
        with self.lock:
            return self._tracker.reports((host, node), uuid)

    def consume(self, decision: Decision, spec: RequestSpec) -> None:
        """Consume what was decided, without claims, until its hosts report again."""
        if spec.is_rebuild:
            return
        with self.lock:
            now = time.monotonic()
            for placement in decision.placements:
                chosen, uuid = placement.chosen, placement.instance_uuid
                row = self._hosts.row_of(chosen.host, chosen.nodename)
                if row is None:
                    continue
                known = self._hosts.instances.on(row).get(uuid or "")
                state = HostState.of(self._hosts, row)
                state.consume_from_request(spec.for_instance(uuid))
                self._nodes.mark_consumed(row, self._database_time(now))
                if uuid:
                    self._tracker.assume(row, uuid, known, now)
            # The decision has the same warnings.
            self._hosts.warnings.clear()

    def update_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        """Add or replace aggregates that a service cast."""
        self._apply_cast(lambda: self._aggregates.update(aggregates))

    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Delete an aggregate that a service cast."""
        self._apply_cast(lambda: self._aggregates.delete(aggregate))

    def mark_host_stale(self, host: str) -> None:
        """Let the next refresh read the nodes of a host, and all instances there, again."""
        with self.lock:
            if self._hosts.rows_of_host(host):
                self._stale_hosts[host] = next(self._marks)

    def compare_instances(self, host: str, uuids: Collection[str]) -> None:
        """Mark a host as stale unless the list of its instances agrees with what is known here."""
        with self.lock:
            if not self._tracker.agrees(host, {*uuids}):
                self.mark_host_stale(host)

    def forget_instance(self, host: str, uuid: str) -> None:
        """Assume an instance, which its host has deleted, there no longer; read the host again."""
        with self.lock:
            self._tracker.forget(host, uuid)
            self.mark_host_stale(host)

    def _begin_refresh(self) -> "Future[None]":
        """Return the refresh under way, which has begun now if there was none."""
        with self.lock:
            refresh = self._refresh_under_way
            if refresh is None or refresh.done():
                refresh = self._refresh_under_way = self._threads.run(self.refresh)
            return refresh

    def _apply_cast(self, apply: Callable[[], None]) -> None:
        """Apply a cast, and before it those that came earlier and wait for the lock, too."""
        self._casts.append(apply)
        with self.lock:
            while self._casts:
                self._casts.popleft()()

    def _apply(self, delta: Delta, began: float, stale: Mapping[int, int]) -> None:
        if delta.services is not None:
            self._nodes.read_services(delta.services, began)
        elif delta.late is not None:
            self._nodes.read_heartbeats(delta.late, began)
        if delta.complete:
            self._replace_nodes(delta, stale)
            self._loaded_at = began
        else:
            delta.drop_outdated_hosts(self._nodes.generations)
            read = {node.id for node in delta.nodes}
            self._nodes.remove(stale.keys() - read)
            delta.nodes = self._nodes.newer(delta.nodes, stale)
            self._nodes.write(delta.nodes)
            # A push was faster than the reading, which lacks what was consumed since: still stale.
            outdated = read - {node.id for node in delta.nodes}
            stale = {each: mark for each, mark in stale.items() if each not in outdated}
        self._nodes.eligibility.update(delta.eligibility)
        for node_id, mark in stale.items():
            # It may have been marked again meanwhile.
            if self._stale.get(node_id) == mark:
                del self._stale[node_id]
        if delta.aggregates is not None:
            self._aggregates.read(delta.aggregates)
            self._aggregates.write_changes()
        if delta.reserving is not None:
            self.reserving = delta.reserving
        if delta.services is not None:
            self._nodes.write_services(self._hosts.rows())
        self._apply_instances(delta)
        # A member of a cluster that is late goes on to have older ones: see _changed().
        known = self._last.revisions if self._last and not delta.complete else {}
        newest = {name: max(each, known.get(name, 0)) for name, each in delta.revisions.items()}
        self._last = Delta(delta.complete, delta.now, newest)
        self._read_at = began

    def _replace_nodes(self, delta: Delta, stale: Collection[int]) -> None:
        doubtful = {*stale, *self._nodes.consumed, *self._in_flight.open}
        digest = CacheDigest(self._hosts, doubtful)
        missed = self._nodes.missed(delta, self._last)
        delta.nodes, overtaken = self._nodes.replace_all(delta.nodes)
        self.mark_stale(overtaken)
        self._nodes.write(delta.nodes)
        digest.log_differences(missed)

    def _apply_instances(self, delta: Delta) -> None:
        self._tracker.rewrite(self._nodes.changed_hosts)
        self._nodes.changed_hosts.clear()
        self._tracker.read(delta, time.monotonic())
        self.apply_changes(self._nodes.early.take(node.id for node in delta.nodes))

    def _clock_was_set(self, delta: Delta, began: float) -> bool:
        """Return whether the database's clock was set since the last reading."""
        now, (least, most) = epoch_seconds(delta.now), self._ahead
        self._ahead = now - time.monotonic(), now - began
        is_ahead = self._ahead[0] > most + CLOCK_TOLERANCE
        return is_ahead or self._ahead[1] < least - CLOCK_TOLERANCE

    def _database_time(self, now: float) -> float:
        """Return a time of the monotonic clock in seconds since 1970 on the database's clock."""
        return epoch_seconds(self._last.now) + now - self._read_at if self._last else 0.0
