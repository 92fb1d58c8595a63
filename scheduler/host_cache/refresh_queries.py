# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Read what changed in the database since the last reading, in one transaction."""

import gc
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from inventory import (
    aggregates,
    change_marks,
    compute_nodes,
    instances,
    reservations,
    revisions,
    services,
)
from inventory.aggregates import AggregateRecord
from inventory.claims import existing
from scheduler.host_cache import instance_sources, node_rows
from scheduler.host_cache.node_rows import epoch_seconds, written_at

LOG = log.getLogger(__name__)
# A transaction stamps its rows when it begins to write; others see them when it commits. So each
# reading looks as far back as a transaction may take.
OVERLAP = timedelta(seconds=10)
# Seconds; a longer refresh is logged at INFO.
SLOW = 1.0
# More than agents push, which know nothing of aggregates.
NODE_COLUMNS = (*node_rows.COLUMNS, revisions.ELIGIBILITY)
SERVICE_COLUMNS = (
    *("host", "disabled", "disabled_reason", "maintenance", "forced_down"),
    *("last_seen_up", "created_at", "cell_uuid"),
)


@dataclass(slots=True)
class Delta:
    """Rows to apply. Services, aggregates and projects with reservations are None if not read.

    late are the services without a young heartbeat, None if neither these nor all were read.

    If complete, these are all live rows and others are gone; so are other instances of the hosts
    named in hosts. claims are all that count on the nodes. eligibility has eligibility_revision by
    node id, as read with services and aggregates. The next reading starts from now and revisions.
    """

    complete: bool
    now: datetime = datetime.min
    revisions: Mapping[str, int] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    eligibility: Mapping[int, int] = field(default_factory=dict)
    claims: Sequence[Any] = ()
    instances: list[Any] = field(default_factory=list)
    hosts: Collection[str] = ()
    services: list[Any] | None = None
    late: list[Any] | None = None
    aggregates: list[AggregateRecord] | None = None
    reserving: Collection[str] | None = None

    def should_have(self, node: Any) -> bool:
        """Return whether the row of a node is so old that this reading must have found it."""
        return written_at(node) < epoch_seconds(self.now - OVERLAP)

    def drop_outdated_hosts(self, generations: Mapping[int, int]) -> None:
        """Drop hosts of which newer rows are known: their instances may not be all."""
        old = {node.host for node in self.nodes if node.generation < generations.get(node.id, -1)}
        self.hosts = [host for host in self.hosts if host not in old]


@dataclass(frozen=True, slots=True)
class DeltaQuery:
    """What to read besides the rows written since the last reading.

    generations are those of the known nodes by id. Rows of nodes, and all instances of hosts, are
    read anyway, and the services without a heartbeat in the last late_after seconds.
    """

    generations: Mapping[int, int]
    nodes: Collection[int] = ()
    hosts: Collection[str] = ()
    late_after: float | None = None


def read_all(connection: sa.Connection) -> Delta:
    """Return all live rows."""
    numbers, now = revisions.current(connection)
    nodes = compute_nodes.all_live(connection, NODE_COLUMNS)
    return Delta(
        complete=True,
        now=now,
        revisions=numbers,
        nodes=nodes,
        eligibility=_eligibility(nodes),
        claims=existing.as_instances(connection),
        instances=instances.all_live(connection, instance_sources.COLUMNS),
        services=_services(connection),
        aggregates=aggregates.everything(connection),
        reserving=reservations.projects(connection),
    )


def read_nodes(connection: sa.Connection, ids: Collection[int]) -> Delta:
    """Return the rows of some nodes, dead ones included, as far as they are there."""
    nodes = compute_nodes.by_ids(connection, ids, NODE_COLUMNS)
    return Delta(complete=False, nodes=nodes, claims=existing.as_instances(connection, ids))


def read_changes(connection: sa.Connection, last: Delta, query: DeltaQuery) -> Delta:
    """Return what was written since the last reading, and what the query adds to it."""
    after = last.now - OVERLAP
    now, numbers, marks, has_instances = change_marks.since(connection, after)
    found = Delta(complete=False, now=now, revisions=numbers)
    new = {mark.id for mark in marks if query.generations.get(mark.id) != mark.generation}
    new.update(query.nodes)
    if new:
        nodes = read_nodes(connection, new)
        found.nodes, found.claims = nodes.nodes, nodes.claims
    found.eligibility = _eligibility(marks) | _eligibility(found.nodes)
    found.hosts = query.hosts
    if has_instances:
        found.instances = instances.written_since(connection, after, instance_sources.COLUMNS)
    if query.hosts:
        found.instances += instances.of_hosts(connection, query.hosts, instance_sources.COLUMNS)
    if _changed(found, last, revisions.SERVICES):
        found.services = _services(connection)
    elif query.late_after is not None:
        found.late = services.late(connection, services.COMPUTE[0], now, query.late_after)
    if _changed(found, last, revisions.AGGREGATES):
        found.aggregates = aggregates.everything(connection)
    if _changed(found, last, revisions.RESERVATIONS):
        found.reserving = reservations.projects(connection)
    return found


@contextmanager
def gc_paused(many: bool) -> Iterator[None]:
    """Pause the garbage collection while many objects are made that stay."""
    pauses = many and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def log_duration(delta: Delta, seconds: float) -> None:
    """Log how long it took to read and apply a delta."""
    level = logging.INFO if seconds > SLOW else logging.DEBUG
    what = "all nodes" if delta.complete else "changed nodes"
    LOG.log(level, "Read %s (%s) in %.1f ms", what, len(delta.nodes), 1000 * seconds)


def _eligibility(found: Iterable[Any]) -> dict[int, int]:
    return {node.id: node.eligibility_revision for node in found}


def _changed(found: Delta, last: Delta, name: str) -> bool:
    """Return whether a table is newer than it ever was since all rows were read.

    It may be older, at a member of a cluster that is late. It would not go with the revisions that
    are known of nodes: claims would hold that are against what operators have changed since.
    """
    return found.revisions.get(name, 0) > last.revisions.get(name, 0)


def _services(connection: sa.Connection) -> list[Any]:
    return services.all_live(connection, services.COMPUTE[0], SERVICE_COLUMNS)
