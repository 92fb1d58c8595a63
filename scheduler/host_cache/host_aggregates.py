# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregates of hosts: those of the database, and what casts of Nova announce of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from oslo_log import log

from inventory.aggregates import AggregateRecord
from inventory.objects.aggregate import Aggregate
from scheduler.hosts.table import HostTable

LOG = log.getLogger(__name__)
MAX_AGGREGATES = 10_000


class CastAggregates:
    """Aggregates by uuid, or by id where one comes without."""

    def __init__(self) -> None:
        self._by_uuid: dict[str, Aggregate] = {}
        self._by_id: dict[int | None, Aggregate] = {}
        # The uuids of the aggregates with an id.
        self._uuids: dict[int | None, dict[str, None]] = defaultdict(dict)
        # Uuids of deleted aggregates, the oldest first: the database may have them still.
        self._deleted: dict[str, None] = {}

    def put(self, aggregate: Aggregate) -> None:
        """Add an aggregate, or replace it."""
        self._drop(aggregate)
        if len(self._by_uuid) + len(self._by_id) >= MAX_AGGREGATES:
            name = aggregate.uuid or aggregate.id
            LOG.warning(
                "Casts of Nova announced more than %s aggregates; aggregate %s is ignored",
                MAX_AGGREGATES,
                name,
            )
        elif aggregate.uuid:
            self._by_uuid[aggregate.uuid] = aggregate
            self._uuids[aggregate.id][aggregate.uuid] = None
        else:
            self._by_id[aggregate.id] = aggregate

    def delete(self, aggregate: Aggregate) -> None:
        """Record that an aggregate was deleted; without a uuid, only forget what was cast of it."""
        self._drop(aggregate)
        if aggregate.uuid:
            self._deleted[aggregate.uuid] = None
            if len(self._deleted) > MAX_AGGREGATES:
                del self._deleted[next(iter(self._deleted))]

    def forget(self, uuid: str | None) -> None:
        """Forget all casts about the aggregate with a uuid."""
        found = self._by_uuid.pop(uuid or "", None)
        if found is not None and found.uuid:
            here = self._uuids[found.id]
            del here[found.uuid]
            if not here:
                del self._uuids[found.id]
        self._deleted.pop(uuid or "", None)

    def merge_into(self, read: Iterable[Aggregate]) -> list[Aggregate]:
        """Return the aggregates of the database with those of casts replaced, added and deleted.

        Ids of the database are its own, so they say nothing about aggregates of casts.
        """
        found = [
            self._by_uuid.get(each.uuid, each) if each.uuid else each
            for each in read
            if each.uuid not in self._deleted
        ]
        replaced = {id(each) for each in found}
        cast = (*self._by_uuid.values(), *self._by_id.values())
        added = [each for each in cast if id(each) not in replaced]
        return found + sorted(added, key=lambda each: (each.id or 0, each.uuid or ""))

    def _drop(self, aggregate: Aggregate) -> None:
        self.forget(aggregate.uuid)
        if aggregate.id is not None:
            self._by_id.pop(aggregate.id, None)
            if not aggregate.uuid:
                for uuid in [*self._uuids.get(aggregate.id, ())]:
                    self.forget(uuid)


class HostAggregates:
    """The aggregates of a host table, of the database and of casts, locked with it.

    What was cast of an aggregate counts until its row in the database changes. write_changes()
    writes what has changed.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._read: list[Aggregate] | None = None
        self._casts = CastAggregates()
        self._by_host: dict[str, list[Aggregate]] = {}
        self._is_written = True

    def read(self, records: Iterable[AggregateRecord]) -> None:
        """Replace all aggregates of the database; forget the casts of those that changed."""
        found = [
            Aggregate(each.id, each.uuid, each.name, each.hosts, each.metadata) for each in records
        ]
        # What was cast before the first reading may be newer than it.
        if self._read is not None:
            for aggregate in _changed(self._read, found):
                self._casts.forget(aggregate.uuid)
        self._read = found
        self._is_written = False

    def update(self, aggregates: Iterable[Aggregate]) -> None:
        """Add aggregates that were cast, or replace them."""
        for aggregate in aggregates:
            self._casts.put(aggregate)
        self._is_written = False

    def delete(self, aggregate: Aggregate) -> None:
        """Delete an aggregate as a cast says."""
        self._casts.delete(aggregate)
        self._is_written = False

    def write_changes(self) -> None:
        """Write what has changed into the table."""
        if self._is_written:
            return
        by_host: dict[str, list[Aggregate]] = defaultdict(list)
        for aggregate in self._casts.merge_into(self._read or ()):
            for host in dict.fromkeys(aggregate.hosts):
                by_host[host].append(aggregate)
        self._by_host = dict(by_host)
        self.write([*self._hosts.rows()])
        self._is_written = True

    def write(self, rows: Sequence[int]) -> None:
        """Write the aggregates of hosts into their rows."""
        found = [self._by_host.get(self._hosts.get(row, "host"), ()) for row in rows]
        # A changed aggregate is a new object, so identities tell one state from another.
        keys = [tuple(map(id, each)) for each in found]
        sets = dict(zip(keys, found, strict=True))
        self._hosts.share(rows, "aggregates", keys, lambda key: [*sets[key]])


def _changed(before: Iterable[Aggregate], after: Iterable[Aggregate]) -> Iterator[Aggregate]:
    """Yield the aggregates that only one of both has, and those that differ."""
    one, other = ({each.uuid: each for each in both} for both in (before, after))
    for uuid, aggregate in (one | other).items():
        if uuid not in one or uuid not in other or _facts(one[uuid]) != _facts(other[uuid]):
            yield aggregate


def _facts(aggregate: Aggregate) -> tuple[object, ...]:
    # A database returns hosts in any order.
    return aggregate.name, sorted(aggregate.hosts), aggregate.metadata


def first_names(names: Collection[str], most: int = 5) -> str:
    """Return the first of some names, for a log line."""
    more = ", ..." if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more
