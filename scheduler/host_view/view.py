# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's view of all hosts: a table in memory that follows the database.

Before a decision it is brought up to date with what changed, which concurrent requests share; now
and then it is read anew, which heals whatever was missed. In between agents push what they have
written: of two rows of a node the one of the higher generation counts, however they come. Between
two writes of a row, what decisions took from its host is remembered here.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from oslo_log import log

from inventory import services
from inventory.engine import Database, DatabaseUnavailable
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.host_view.aggregates import HostAggregates
from scheduler.host_view.changes import Changes, everything, since
from scheduler.host_view.rows import seconds, write_node, written
from scheduler.host_view.shared_turn import SharedTurn, TurnTimeout
from scheduler.host_view.whereabouts import Whereabouts
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

LOG = log.getLogger(__name__)
# Agents beat every ten seconds; reading the beats more often tells nothing new.
HEARTBEATS_EVERY = 10.0
# How far a row may be ahead of the database's clock as it is known here, in seconds. What was taken
# from a host before a row was written does not count any more: a row of next year would count for
# a year.
MOST_AHEAD = 60.0


class HostView:
    """Keeps the table fresh. Times are seconds of the monotonic clock unless said otherwise."""

    def __init__(
        self,
        database: Database,
        max_age: float = 0.0,
        reload_interval: float = 300.0,
        timeout: float = 60.0,
        cell_uuid: str | None = None,
    ) -> None:
        self._database = database
        self._max_age = max_age
        self._reload_interval = reload_interval
        self._cell_uuid = cell_uuid
        self._lock = RLock()
        self._hosts = HostTable()
        # Those of dead nodes stay until everything is read anew.
        self._generations: dict[int, int] = {}
        self._services: dict[str, Any] = {}
        self._trust: Mapping[str, str] = {}
        self._aggregates = HostAggregates(self._hosts)
        self._whereabouts = Whereabouts(self._hosts)
        # Hosts whose nodes came or went while changes are applied.
        self._moved: set[str] = set()
        self._last: Changes | None = None
        self._read_at = self._loaded_at = self._services_at = float("-inf")
        self._timeout = timeout
        self._turn = SharedTurn(self.refresh, "view")

    @contextmanager
    def current(self, max_age: float | None = None) -> Iterator[HostTable]:
        """Yield the table, fresh and locked; copy it before consuming from it.

        max_age in seconds replaces the configured one; whether services are alive is then what was
        known when they were read. Raises DatabaseUnavailable when the table is older and cannot be
        read again.
        """
        if time.monotonic() - self._read_at > (self._max_age if max_age is None else max_age):
            try:
                self._turn.take(self._timeout)
            except TurnTimeout as error:
                raise DatabaseUnavailable(str(error)) from error
        with self._lock:
            self._aggregates.settle()
            # Heartbeats would age with a view that is meant to be old, and living hosts look dead.
            moment = time.monotonic() if max_age is None else self._services_at
            self._hosts.fill("heartbeat_age", moment - self._hosts.last_seen)
            yield self._hosts

    def nodenames(self, max_age: float | None = None) -> list[str]:
        """Return the names of all nodes, each once; see current()."""
        with self.current(max_age) as hosts:
            return [name for name in hosts.distinct("nodename") if name is not None]

    def set_numa_packing(self, packing: bool) -> None:
        """Say whether guests fill one NUMA cell after the other; see HostTable."""
        with self._lock:
            self._hosts.numa_packing = packing

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Take over the levels of trust by node; nodes without one are unknown.

        levels must not change any more.
        """
        with self._lock:
            # As a rule nothing is new since the last request that asked.
            if levels == self._trust:
                return
            self._trust = levels
            for row in self._hosts.rows():
                self._write_trust(row)

    def refresh(self) -> None:
        """Read what changed and apply it; everything, when the last complete reading is old."""
        began = time.monotonic()
        last = self._last
        if last is None or began - self._loaded_at >= self._reload_interval:
            changes = self._database.read(everything)
        else:
            known, heartbeats = self._generations, began - self._services_at >= HEARTBEATS_EVERY
            changes = self._database.read(
                lambda connection: since(connection, last, known, heartbeats)
            )
        with self._lock:
            self._apply(changes, began)

    def take(self, nodes: Sequence[Any], instances: Sequence[Any]) -> None:
        """Take rows of nodes that an agent has just written, as far as they are news.

        Rows of instances count with those of their nodes. The view gets no younger by that: what
        else has changed is still to be read.
        """
        with self._lock:
            if self._last is None:
                return
            news = []
            for node in nodes:
                if self._is_news(node, self._last):
                    self._apply_node(node)
                    news.append(node)
            places = {(node.host, node.hypervisor_hostname) for node in news}
            changes = Changes(self._last.now, {}, complete=False, nodes=news)
            changes.instances = [each for each in instances if (each.host, each.node) in places]
            self._apply_instances(changes)

    def consume(self, decision: Decision, spec: RequestSpec) -> None:
        """Remember what a decision took, until its hosts report again."""
        if spec.is_rebuild:
            return
        with self._lock:
            now = time.monotonic()
            for placement in decision.placements:
                chosen = placement.chosen
                row = self._hosts.row_of(chosen.host, chosen.nodename)
                if row is None:
                    continue
                uuid = placement.instance_uuid
                known = self._hosts.residents.on(row).get(uuid or "")
                state = HostState.of(self._hosts, row)
                state.consume_from_request(spec.for_instance(uuid))
                self._hosts.set(row, "updated", self._database_time(now))
                if uuid:
                    self._whereabouts.promise(row, uuid, known, now)
            # The decision has carried the same warnings already.
            self._hosts.warnings.clear()

    def update_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        """Take aggregates that a service told of, in the place of those that are the same."""
        with self._lock:
            self._aggregates.tell(aggregates)

    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Forget an aggregate that a service told of."""
        with self._lock:
            self._aggregates.tell_gone(aggregate)

    def update_instances(self, host: str, instances: Sequence[Instance]) -> None:
        """Take instances that a host told of, besides those that it has already."""
        with self._lock:
            self._whereabouts.tell(host, instances)

    def delete_instance(self, host: str, uuid: str) -> None:
        """Take it that a host has lost an instance, until its agent looks and sees it."""
        with self._lock:
            self._whereabouts.tell_gone(host, uuid, self._database_time(time.monotonic()))

    def sync_instances(self, host: str, uuids: Sequence[str]) -> None:
        """Take the uuids of all instances that a host told of."""
        with self._lock:
            self._whereabouts.tell_all(host, uuids)

    def forget_instances(self) -> None:
        """Forget what hosts told of their instances; agents' rows and decisions stay."""
        with self._lock:
            self._whereabouts.forget_told()

    def _apply(self, changes: Changes, began: float) -> None:
        if changes.complete:
            self._forget_missing(changes)
            # Whatever was known: the database may have been restored from a backup.
            self._generations.clear()
            self._loaded_at = began
        if changes.services is not None:
            self._services = {service.host: service for service in changes.services}
            self._services_at = began
        for node in changes.nodes:
            if self._is_newer(node):
                self._apply_node(node)
        if changes.aggregates is not None:
            self._aggregates.read(changes.aggregates)
            self._aggregates.settle()
        if changes.services is not None:
            for row in self._hosts.rows():
                self._write_service(row)
        self._apply_instances(changes)
        self._last, self._read_at = changes, began

    def _apply_instances(self, changes: Changes) -> None:
        self._whereabouts.follow(self._moved)
        self._moved.clear()
        self._whereabouts.read(changes, time.monotonic())

    def _is_newer(self, node: Any) -> bool:
        return bool(node.generation > self._generations.get(node.id, -1))

    def _is_news(self, node: Any, last: Changes) -> bool:
        """Return whether a row that was pushed is newer than what is known, and can be true."""
        ahead = written(node) - self._database_time(time.monotonic())
        if not self._is_newer(node) or ahead > MOST_AHEAD:
            return False
        if node.deleted or node.id in self._generations:
            return True
        # A node that the last reading ought to have found, and has not, was deleted before it. One
        # whose service is still to be read could not be used; it is read together with that.
        return node.host in self._services and not last.ought_to_have(node)

    def _forget_missing(self, changes: Changes) -> None:
        alive = {(node.host, node.hypervisor_hostname) for node in changes.nodes}
        for row in list(self._hosts.rows()):
            if self._place(row) not in alive:
                self._remove(row)
        last = self._last
        missed = [each for each in changes.nodes if self._is_newer(each)]
        missed = [each for each in missed if last is not None and last.ought_to_have(each)]
        if missed:
            LOG.warning("The view of the hosts had missed changes of %s nodes; healed", len(missed))

    def _apply_node(self, node: Any) -> None:
        row = self._hosts.row_of(node.host, node.hypervisor_hostname)
        same = row is not None and self._hosts.get(row, "node_id") == node.id
        if row is not None and same == bool(node.deleted):
            # It is gone, or another one has its name now.
            self._remove(row)
            row = None
        if node.deleted:
            self._generations[node.id] = node.generation
            return
        if row is None:
            row = self._hosts.add(node.host, node.hypervisor_hostname)
            self._moved.add(node.host)
            self._hosts.set(row, "cell_uuid", self._cell_uuid)
            self._aggregates.write(row)
            self._write_service(row)
            self._write_trust(row)
        write_node(self._hosts, row, node)
        # Last: one that could not be written is to be read again.
        self._generations[node.id] = node.generation

    def _write_trust(self, row: int) -> None:
        level = self._trust.get(self._hosts.get(row, "nodename"))
        if self._hosts.get(row, "trust_level") != level:
            self._hosts.set(row, "trust_level", level)

    def _remove(self, row: int) -> None:
        self._generations.pop(self._hosts.get(row, "node_id"), None)
        self._moved.add(self._hosts.get(row, "host"))
        self._hosts.remove(row)

    def _write_service(self, row: int) -> None:
        host = self._hosts.get(row, "host")
        service = self._services.get(host)
        known = self._hosts.get(row, "unserved")
        self._hosts.set(row, "unserved", service is None)
        if service is None:
            if not known:
                LOG.warning("Host %s has a compute node and no compute service; not used", host)
            return
        disabled, reason = services.switched_off(service)
        self._hosts.set(row, "service_disabled", disabled)
        self._hosts.set(row, "disabled_reason", reason)
        self._hosts.set(row, "forced_down", service.forced_down)
        self._hosts.set(row, "last_seen", self._services_at - services.heartbeat_age(service))

    def _place(self, row: int) -> tuple[str, str]:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")

    def _database_time(self, now: float) -> float:
        """Return a moment as the database's clock shows it, in seconds since 1970."""
        return seconds(self._last.now) + now - self._read_at if self._last else 0.0
