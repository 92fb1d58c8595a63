# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's view of all hosts: a table in memory that follows the database.

Before a decision it is brought up to date with what changed, which concurrent requests share; now
and then it is read anew, which heals whatever was missed. Between two writes of a row, what
decisions took from its host is remembered here.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from oslo_log import log

from inventory import services
from inventory.engine import Database, DatabaseUnavailable
from scheduler import inventory_changes
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.host_rows import seconds, write_node
from scheduler.inventory_changes import Changes
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.promises import Promises
from scheduler.shared_turn import SharedTurn, TurnTimeout

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
        self._aggregates: dict[str, list[Aggregate]] = {}
        self._services: dict[str, Any] = {}
        self._promises = Promises()
        self._last: Changes | None = None
        self._read_at = self._loaded_at = self._services_at = float("-inf")
        self._timeout = timeout
        self._turn = SharedTurn(self.refresh, "view")

    @contextmanager
    def current(self, max_age: float | None = None) -> Iterator[HostTable]:
        """Yield the table, fresh and locked; copy it before consuming from it.

        max_age in seconds replaces the configured one. Raises DatabaseUnavailable when the table is
        older and cannot be read again.
        """
        if time.monotonic() - self._read_at > (self._max_age if max_age is None else max_age):
            try:
                self._turn.take(self._timeout)
            except TurnTimeout as error:
                raise DatabaseUnavailable(str(error)) from error
        with self._lock:
            self._hosts.fill("heartbeat_age", time.monotonic() - self._hosts.last_seen)
            yield self._hosts

    def refresh(self) -> None:
        """Read what changed and apply it; everything, when the last complete reading is old."""
        began = time.monotonic()
        last = self._last
        if last is None or began - self._loaded_at >= self._reload_interval:
            changes = self._database.read(inventory_changes.everything)
        else:
            known, heartbeats = self._generations, began - self._services_at >= HEARTBEATS_EVERY
            changes = self._database.read(
                lambda connection: inventory_changes.since(connection, last, known, heartbeats)
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
                state = HostState.of(self._hosts, row)
                state.consume_from_request(spec.for_instance(placement.instance_uuid))
                self._hosts.set(row, "updated", self._database_time(now))
                if placement.instance_uuid:
                    self._promise(placement.instance_uuid, (chosen.host, chosen.nodename), now)

    def _apply(self, changes: Changes, began: float) -> None:
        if changes.complete:
            self._forget_missing(changes)
            self._loaded_at = began
        if changes.aggregates is not None:
            self._aggregates = _by_host(changes.aggregates)
        if changes.services is not None:
            self._services = {service.host: service for service in changes.services}
            self._services_at = began
        for node in changes.nodes:
            self._apply_node(node)
        if changes.aggregates is not None:
            for row in self._hosts.rows():
                self._write_aggregates(row)
        if changes.services is not None:
            for row in self._hosts.rows():
                self._write_service(row)
        self._apply_instances(changes)
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
        return written < seconds(self._last.now - inventory_changes.OVERLAP)

    def _apply_node(self, node: Any) -> None:
        row = self._hosts.row_of(node.host, node.hypervisor_hostname)
        if node.deleted:
            self._generations.pop(node.id, None)
            if row is not None and self._hosts.get(row, "node_id") == node.id:
                self._remove(row)
            return
        if row is None:
            row = self._hosts.add(node.host, node.hypervisor_hostname)
            self._hosts.set(row, "cell_uuid", self._cell_uuid)
            self._write_aggregates(row)
            self._write_service(row)
        write_node(self._hosts, row, node)
        self._generations[node.id] = node.generation

    def _remove(self, row: int) -> None:
        self._generations.pop(self._hosts.get(row, "node_id"), None)
        self._hosts.remove(row)

    def _write_aggregates(self, row: int) -> None:
        found = self._aggregates.get(self._hosts.get(row, "host"), [])
        # Aggregates are made anew at each reading, so their identity tells one state from another.
        self._hosts.set(row, "aggregates", found, tuple(id(each) for each in found))

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

    def _apply_instances(self, changes: Changes) -> None:
        residents = self._hosts.residents
        if changes.complete:
            for row in list(residents.occupied()):
                residents.replace(row, {})
        for each in changes.instances:
            here = self._hosts.row_of(each.host, each.node)
            if here is not None and each.deleted:
                residents.discard(here, each.uuid)
            elif here is not None:
                self._promises.kept(each.uuid, (each.host, each.node))
                residents.add(here, each.uuid, _instance(each))
        for uuid, place in self._promises.expired(time.monotonic()):
            self._vacate(uuid, place)
        if changes.complete:
            for uuid, (host, node) in self._promises:
                promised = self._hosts.row_of(host, node)
                if promised is not None:
                    residents.add(promised, uuid, Instance(uuid=uuid, host=host, node=node))

    def _promise(self, uuid: str, place: tuple[str, str], now: float) -> None:
        before = (self._place(row) for row in self._hosts.residents.rows_of(uuid))
        older = self._promises.add(uuid, place, now, before)
        if older is not None and older != place:
            self._vacate(uuid, older)

    def _vacate(self, uuid: str, place: tuple[str, str]) -> None:
        row = self._hosts.row_of(*place)
        if row is not None:
            self._hosts.residents.discard(row, uuid)

    def _place(self, row: int) -> tuple[str, str]:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")

    def _database_time(self, now: float) -> float:
        """Return a moment as the database's clock shows it, in seconds since 1970."""
        return seconds(self._last.now) + now - self._read_at if self._last else 0.0


def _by_host(records: list[Any]) -> dict[str, list[Aggregate]]:
    found: dict[str, list[Aggregate]] = defaultdict(list)
    for record in records:
        aggregate = Aggregate(record.id, record.uuid, record.name, record.hosts, record.metadata)
        for host in record.hosts:
            found[host].append(aggregate)
    return dict(found)


def _instance(row: Any) -> Instance:
    return Instance(
        uuid=row.uuid,
        host=row.host,
        node=row.node,
        project_id=row.project_id,
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        root_gb=row.root_gb,
        vm_state=row.vm_state,
    )
