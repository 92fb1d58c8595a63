# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Make our aggregates those of another owner, Nova: what differs is written, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from inventory import aggregates, revisions
from inventory.aggregates import AggregateRecord
from inventory.engine import Database
from inventory.objects.aggregate import PROJECT_KEY
from inventory.rows import execute_in
from inventory.tables import aggregate_hosts, aggregate_metadata
from inventory.tables import aggregates as table


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was written: names of aggregates."""

    written: Sequence[str] = ()
    deleted: Sequence[str] = ()


def mirror(database: Database, wanted: Sequence[AggregateRecord]) -> Mirrored:
    """Make all aggregates the wanted ones, ids and uuids included; raises DatabaseUnavailable."""
    if not any(_differing(database.read(aggregates.everything), wanted)):
        return Mirrored()
    return database.write(lambda connection: _write(connection, wanted))


def _write(connection: sa.Connection, wanted: Sequence[AggregateRecord]) -> Mirrored:
    # Waits for operations of others, and counts one.
    revisions.advance(connection, revisions.AGGREGATES)
    old, new = _differing(aggregates.everything(connection), wanted)
    # A project may use all hosts unless some are set aside for it.
    everywhere = any(key.startswith(PROJECT_KEY) for each in old + new for key in each.metadata)
    revisions.advance_eligibility(connection, _affected_hosts(old, new), everywhere)
    replaced = [each.id for each in old]
    # Members first, for SQLite does not cascade; and all before any is made again, since two
    # aggregates may have swapped their names.
    for parts in (aggregate_hosts, aggregate_metadata):
        execute_in(connection, sa.delete(parts), parts.c.aggregate_id, replaced)
    execute_in(connection, sa.delete(table), table.c.id, replaced)
    for each in new:
        names = {"id": each.id, "uuid": each.uuid, "name": each.name}
        aggregates.insert(connection, names, sorted(each.hosts), each.metadata)
    kept = {each.id for each in new}
    gone = [each.name for each in old if each.id not in kept]
    return Mirrored(written=[each.name for each in new], deleted=gone)


def _differing(
    present: Sequence[AggregateRecord], wanted: Sequence[AggregateRecord]
) -> tuple[list[AggregateRecord], list[AggregateRecord]]:
    """Return those aggregates that are not as wanted, and those that are wanted and not there."""
    are, should_be = {*map(_key, present)}, {*map(_key, wanted)}
    return (
        [each for each in present if _key(each) not in should_be],
        [each for each in wanted if _key(each) not in are],
    )


def _affected_hosts(old: Sequence[AggregateRecord], new: Sequence[AggregateRecord]) -> set[str]:
    """Return the hosts that may be eligible for other requests than before."""
    was, hosts = {each.id: each for each in old}, set[str]()
    for each in new:
        before = was.pop(each.id, None)
        if before is not None and before.metadata == each.metadata:
            hosts |= {*before.hosts} ^ {*each.hosts}
        else:
            hosts |= {*each.hosts, *(before.hosts if before else ())}
    return hosts.union(*(each.hosts for each in was.values()))


def _key(record: AggregateRecord) -> object:
    return (
        record.id,
        record.uuid,
        record.name,
        frozenset(record.hosts),
        frozenset(record.metadata.items()),
    )
