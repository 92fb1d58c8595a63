# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What changed in the inventory since a moment, read in one transaction."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from inventory import (
    aggregates,
    allocations,
    compute_nodes,
    eligibility,
    instances,
    revisions,
    services,
)
from inventory.aggregates import AggregateRecord
from scheduler.host_view import instance_facts, rows
from scheduler.host_view.rows import seconds, written

LOG = log.getLogger(__name__)
# A transaction stamps its rows when it begins to write; others see them when it commits. Rows are
# looked for as far back as such a transaction may take.
OVERLAP = timedelta(seconds=10)
# A refresh that takes longer, in seconds, is worth a line.
SLOW = 1.0
# What is read of a node: more than agents push, which know nothing of aggregates.
NODE_COLUMNS = (*rows.COLUMNS, eligibility.REVISION)
# What is read of a service: how it is switched, and when it was last seen.
SERVICE_COLUMNS = (
    "host",
    "disabled",
    "disabled_reason",
    "maintenance",
    "forced_down",
    "last_seen_up",
    "created_at",
)


@dataclass(slots=True)
class Changes:
    """Rows to apply. None for services or aggregates means that they were not read.

    complete says that these are all live rows, so that what is missing is gone; so is what is
    missing of the instances of hosts. claims are all that count on the nodes. eligibility has the
    eligibility_revision of nodes by their ids, as it was together with services and aggregates. now
    and revisions are those of a reading that the next one starts from.
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
    aggregates: list[AggregateRecord] | None = None

    def ought_to_have(self, node: Any) -> bool:
        """Return whether a row of a node was written so early that this reading had to find it."""
        return written(node) < seconds(self.now - OVERLAP)

    def leave_out_outrun(self, generations: Mapping[int, int]) -> None:
        """Claim to have all instances of no host of which something newer is known."""
        old = {node.host for node in self.nodes if node.generation < generations.get(node.id, -1)}
        self.hosts = [host for host in self.hosts if host not in old]

    def without_rows(self) -> "Changes":
        """Return what the next reading starts from."""
        return Changes(self.complete, self.now, self.revisions)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reading is to find besides what was written since the last one.

    generations, {node id: generation}, says which rows are known already, nodes which are to be
    read anyway, hosts of which all instances are; heartbeats asks for the services even if nobody
    has switched one.
    """

    generations: Mapping[int, int]
    nodes: Collection[int] = ()
    hosts: Collection[str] = ()
    heartbeats: bool = True


def everything(connection: sa.Connection) -> Changes:
    """Return all live rows."""
    numbers, now = revisions.current_and_now(connection)
    nodes = compute_nodes.all_live(connection, NODE_COLUMNS)
    return Changes(
        complete=True,
        now=now,
        revisions=numbers,
        nodes=nodes,
        eligibility=_eligibility(nodes),
        claims=allocations.counted(connection),
        instances=instances.all_live(connection, instance_facts.COLUMNS),
        services=_services(connection),
        aggregates=aggregates.everything(connection),
    )


def of_nodes(connection: sa.Connection, ids: Collection[int]) -> Changes:
    """Return the rows of some nodes, dead ones included, as far as they are there."""
    nodes = compute_nodes.by_ids(connection, ids, NODE_COLUMNS)
    return Changes(complete=False, nodes=nodes, claims=allocations.counted(connection, ids))


def since(connection: sa.Connection, last: Changes, wanted: Wanted) -> Changes:
    """Return what was written since the last reading, and what is wanted besides."""
    numbers, now = revisions.current_and_now(connection)
    found = Changes(complete=False, now=now, revisions=numbers)
    moment = last.now - OVERLAP
    marks = compute_nodes.written_since(connection, moment)
    new = {mark.id for mark in marks if wanted.generations.get(mark.id) != mark.generation}
    new.update(wanted.nodes)
    if new:
        nodes = of_nodes(connection, new)
        found.nodes, found.claims = nodes.nodes, nodes.claims
    found.eligibility = _eligibility(marks) | _eligibility(found.nodes)
    found.hosts = wanted.hosts
    found.instances = [
        *instances.written_since(connection, moment, instance_facts.COLUMNS),
        *instances.of_hosts(connection, wanted.hosts, instance_facts.COLUMNS),
    ]
    if wanted.heartbeats or _moved(found, last, revisions.SERVICES):
        found.services = _services(connection)
    if _moved(found, last, revisions.AGGREGATES):
        found.aggregates = aggregates.everything(connection)
    return found


def say_how_long(changes: Changes, took: float) -> None:
    """Log how many seconds a reading took with all that was made of it."""
    level = logging.INFO if took > SLOW else logging.DEBUG
    what = "all" if changes.complete else "changes of"
    LOG.log(level, "Read %s %s nodes in %.1f ms", what, len(changes.nodes), 1000 * took)


def _eligibility(found: Iterable[Any]) -> dict[int, int]:
    return {node.id: node.eligibility_revision for node in found}


def _moved(found: Changes, last: Changes, name: str) -> bool:
    return found.revisions.get(name) != last.revisions.get(name)


def _services(connection: sa.Connection) -> list[Any]:
    return services.all_live(connection, services.COMPUTE[0], SERVICE_COLUMNS)
