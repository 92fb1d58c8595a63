# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's view of all hosts: a table in memory that follows the database.

Before a decision it is brought up to date with what changed, which concurrent requests share; now
and then it is read anew, which heals whatever was missed. Between two writes of a row, what
decisions took from its host is remembered here.
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
from scheduler.host_view.changes import OVERLAP, Changes, everything, since
from scheduler.host_view.rows import seconds, write_node
from scheduler.host_view.shared_turn import SharedTurn, TurnTimeout
from scheduler.host_view.whereabouts import Whereabouts
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

LOG = log.getLogger(__name__)
# Agents beat every ten seconds; reading the beats more often tells nothing new.
HEARTBEATS_EVERY = 10.0


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
            self._loaded_at = began
        if changes.services is not None:
            self._services = {service.host: service for service in changes.services}
            self._services_at = began
        for node in changes.nodes:
            self._apply_node(node)
        if changes.aggregates is not None:
            self._aggregates.read(changes.aggregates)
            self._aggregates.settle()
        if changes.services is not None:
            for row in self._hosts.rows():
                self._write_service(row)
        self._whereabouts.follow(self._moved)
        self._moved.clear()
        self._whereabouts.read(changes, time.monotonic())
        self._last, self._read_at = changes, began

    def _forget_missing(self, changes: Changes) -> None:
        alive = {(node.host, node.hypervisor_hostname) for node in changes.nodes}
        for row in list(self._hosts.rows()):
            if self._place(row) not in alive:
                self._remove(row)
        missed = sum(1 for node in changes.nodes if self._should_have_known(node))
        if missed:
            LOG.warning("The view of the hosts had missed changes of %s nodes; healed", missed)

    def _should_have_known(self, node: Any) -> bool:
        """Return whether an earlier reading ought to have found this state of a node."""
        if self._last is None or self._generations.get(node.id) == node.generation:
            return False
        written = seconds(node.updated_at or node.created_at)
        return written < seconds(self._last.now - OVERLAP)

    def _apply_node(self, node: Any) -> None:
        row = self._hosts.row_of(node.host, node.hypervisor_hostname)
        if node.deleted:
            self._generations.pop(node.id, None)
            if row is not None and self._hosts.get(row, "node_id") == node.id:
                self._remove(row)
            return
        if row is None:
            row = self._hosts.add(node.host, node.hypervisor_hostname)
            self._moved.add(node.host)
            self._hosts.set(row, "cell_uuid", self._cell_uuid)
            self._aggregates.write(row)
            self._write_service(row)
            self._write_trust(row)
        write_node(self._hosts, row, node)
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
        self._hosts.set(row, "service_disabled", service.disabled)
        self._hosts.set(row, "disabled_reason", service.disabled_reason)
        self._hosts.set(row, "forced_down", service.forced_down)
        self._hosts.set(row, "last_seen", self._services_at - services.heartbeat_age(service))

    def _place(self, row: int) -> tuple[str, str]:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")

    def _database_time(self, now: float) -> float:
        """Return a moment as the database's clock shows it, in seconds since 1970."""
        return seconds(self._last.now) + now - self._read_at if self._last else 0.0
