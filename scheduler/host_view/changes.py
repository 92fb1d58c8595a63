# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What changed in the inventory since a moment, read in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory import aggregates, compute_nodes, instances, revisions, services
from inventory.aggregates import AggregateRecord
from inventory.tables import utc_moment
from scheduler.host_view.rows import seconds, written

# A transaction stamps its rows when it begins to write; others see them when it commits. Rows are
# looked for as far back as such a transaction may take.
OVERLAP = timedelta(seconds=3)


@dataclass(slots=True)
class Changes:
    """Rows to apply. None for services or aggregates means that they were not read.

    complete says that these are all live rows, so that what is missing is gone.
    """

    now: datetime
    revisions: dict[str, int]
    complete: bool
    nodes: list[Any] = field(default_factory=list)
    instances: list[Any] = field(default_factory=list)
    services: list[Any] | None = None
    aggregates: list[AggregateRecord] | None = None

    def ought_to_have(self, node: Any) -> bool:
        """Return whether a row of a node was written so early that this reading had to find it."""
        return written(node) < seconds(self.now - OVERLAP)


def everything(connection: sa.Connection) -> Changes:
    """Return all live rows."""
    return Changes(
        _now(connection),
        revisions.current(connection),
        complete=True,
        nodes=compute_nodes.all_live(connection),
        instances=list(instances.all_live(connection)),
        services=_services(connection),
        aggregates=aggregates.everything(connection),
    )


def since(
    connection: sa.Connection,
    last: Changes,
    generations: Mapping[int, int],
    heartbeats: bool,
) -> Changes:
    """Return what was written since the last reading.

    generations, {node id: generation}, says which rows are known already; heartbeats asks for the
    services even if nobody has switched one.
    """
    found = Changes(_now(connection), revisions.current(connection), complete=False)
    moment = last.now - OVERLAP
    new = [
        row.id
        for row in compute_nodes.written_since(connection, moment)
        if generations.get(row.id) != row.generation
    ]
    if new:
        found.nodes = compute_nodes.by_ids(connection, new)
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
