# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What changed in the inventory since a moment, read in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory import aggregates, allocations, compute_nodes, instances, revisions, services
from inventory.aggregates import AggregateRecord
from inventory.tables import utc_moment
from scheduler.host_view.rows import seconds, written

# A transaction stamps its rows when it begins to write; others see them when it commits. Rows are
# looked for as far back as such a transaction may take.
OVERLAP = timedelta(seconds=10)


@dataclass(slots=True)
class Changes:
    """Rows to apply. None for services or aggregates means that they were not read.

    complete says that these are all live rows, so that what is missing is gone. claims are all
    that count on the nodes. now and revisions are those of a reading that the next one starts from.
    """

    complete: bool
    now: datetime = datetime.min
    revisions: Mapping[str, int] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    claims: Sequence[Any] = ()
    instances: list[Any] = field(default_factory=list)
    services: list[Any] | None = None
    aggregates: list[AggregateRecord] | None = None

    def ought_to_have(self, node: Any) -> bool:
        """Return whether a row of a node was written so early that this reading had to find it."""
        return written(node) < seconds(self.now - OVERLAP)


def everything(connection: sa.Connection) -> Changes:
    """Return all live rows."""
    return Changes(
        complete=True,
        now=_now(connection),
        revisions=revisions.current(connection),
        nodes=compute_nodes.all_live(connection),
        claims=allocations.counted(connection),
        instances=list(instances.all_live(connection)),
        services=_services(connection),
        aggregates=aggregates.everything(connection),
    )


def of_nodes(connection: sa.Connection, ids: Collection[int]) -> Changes:
    """Return the rows of some nodes, dead ones included, as far as they are there."""
    nodes = compute_nodes.by_ids(connection, ids)
    return Changes(complete=False, nodes=nodes, claims=allocations.counted(connection, ids))


def since(
    connection: sa.Connection,
    last: Changes,
    generations: Mapping[int, int],
    heartbeats: bool,
    doubtful: Collection[int] = (),
) -> Changes:
    """Return what was written since the last reading.

    generations, {node id: generation}, says which rows are known already, doubtful which nodes are
    to be read anyway; heartbeats asks for the services even if nobody has switched one.
    """
    found = Changes(complete=False, now=_now(connection), revisions=revisions.current(connection))
    moment = last.now - OVERLAP
    new = {
        row.id
        for row in compute_nodes.written_since(connection, moment)
        if generations.get(row.id) != row.generation
    }
    new.update(doubtful)
    if new:
        nodes = of_nodes(connection, new)
        found.nodes, found.claims = nodes.nodes, nodes.claims
    found.instances = list(instances.written_since(connection, moment))
    if heartbeats or _moved(found, last, revisions.SERVICES):
        found.services = _services(connection)
    if _moved(found, last, revisions.AGGREGATES):
        found.aggregates = aggregates.everything(connection)
    return found


def _moved(found: Changes, last: Changes, name: str) -> bool:
    return found.revisions.get(name) != last.revisions.get(name)


def _services(connection: sa.Connection) -> list[Any]:
    return list(services.all_live(connection, services.COMPUTE[0]))


def _now(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(sa.select(utc_moment())).scalar_one()
    return now
