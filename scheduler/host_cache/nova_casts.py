# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What casts of Nova announce: instances, aggregates, and lists that the database contradicts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oslo_log import log

from inventory.aggregates import AggregateRecord
from inventory.objects.aggregate import Aggregate
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)
MAX_INSTANCES = 1_000_000
MAX_ON_A_HOST = 10_000
MAX_AGGREGATES = 10_000
# For how many seconds an instance counts that its host does not announce again. Services list all
# instances every two minutes, unless they are configured to do so less often, or never.
LIFETIME = 3600.0


class CastInstances:
    """Instances by the name of the host whose compute service announced them.

    Times are in seconds since 1970 on the database's clock, and 0 before that is known.
    """

    def __init__(self) -> None:
        self._by_host: dict[str, dict[str, Instance]] = {}
        self._times: dict[str, dict[str, float]] = {}
        self._count = 0
        self._was_full = False

    def on(self, host: str) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a host, letter case respected."""
        return self._by_host.get(host, {})

    def hosts(self) -> list[str]:
        """Return the hosts that have any."""
        return list(self._by_host)

    def put(self, host: str, instance: Instance, time: float) -> Instance | None:
        """Add an instance to those of a host; return it, or None if there are too many."""
        here = self.on(host)
        if instance.uuid not in here:
            if len(here) >= MAX_ON_A_HOST or self._count >= MAX_INSTANCES:
                if not self._was_full:
                    LOG.warning(
                        "Casts announced more than %s instances of one host or %s of all hosts;"
                        " the others are ignored",
                        MAX_ON_A_HOST,
                        MAX_INSTANCES,
                    )
                self._was_full = True
                return None
            self._count += 1
        if instance.host != host:
            instance = replace(instance, host=host)
        self._by_host.setdefault(host, {})[instance.uuid] = instance
        self._times.setdefault(host, {})[instance.uuid] = time
        return instance

    def renew(self, host: str, time: float) -> None:
        """Record that a host announced all its instances again."""
        if host in self._times:
            self._times[host] = dict.fromkeys(self._times[host], time)

    def announced_at(self, host: str, uuid: str) -> float:
        """Return when a host last announced an instance that it has."""
        return self._times[host][uuid]

    def drop(self, host: str, uuid: str) -> bool:
        """Remove one instance of a host; return whether there was one."""
        here = self._by_host.get(host, {})
        if here.pop(uuid, None) is None:
            return False
        self._count -= 1
        del self._times[host][uuid]
        if not here:
            del self._by_host[host], self._times[host]
        return True

    def expire(self, now: float) -> Iterator[tuple[str, str]]:
        """Remove and yield (host, uuid) of the instances that were not announced for too long."""
        for host, times in list(self._times.items()):
            for uuid, time in list(times.items()):
                if not time:
                    times[uuid] = now
                elif time + LIFETIME <= now:
                    self.drop(host, uuid)
                    yield host, uuid


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
            LOG.warning("Casts announced more than %s aggregates; %s ignored", MAX_AGGREGATES, name)
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


@dataclass(slots=True)
class SyncMismatch:
    """A difference between the list of a host and the database, as a hash.

    is_lasting: this difference or an earlier one was logged.
    """

    difference: int
    is_lasting: bool = False
    was_read: bool = False
    was_logged: bool = False


class SyncMismatches:
    """The differences by host. Those in unread make the cache read the host's instances again."""

    def __init__(self) -> None:
        self._by_host: dict[str, SyncMismatch] = {}
        self.unread: dict[str, SyncMismatch] = {}

    def compare(self, host: str, listed: Collection[str], in_database: Collection[str]) -> None:
        """Record which instances only the list of a host has, and which only the database has."""
        known = self._by_host.get(host)
        if not listed and not in_database:
            if known is not None:
                self.forget(host)
                if known.is_lasting:
                    LOG.info("Host %s and the database agree about its instances again", host)
            return
        difference = hash((frozenset(listed), frozenset(in_database)))
        if known is None or known.difference != difference:
            is_lasting = known is not None and known.is_lasting
            self._by_host[host] = self.unread[host] = SyncMismatch(difference, is_lasting)
        # Instances that are being built or deleted differ for a moment: not worth a line.
        elif known.was_read and not known.was_logged:
            known.was_logged = known.is_lasting = True
            LOG.info(
                "Host %s and the database disagree about its instances: %s that only the host"
                " lists (%s), %s that only the database has (%s)",
                host,
                len(listed),
                first_names(listed),
                len(in_database),
                first_names(in_database),
            )

    def mark_read(self, read: Mapping[str, SyncMismatch]) -> None:
        """Record that the instances of these hosts were read again."""
        for host, mismatch in read.items():
            mismatch.was_read = True
            if self.unread.get(host) is mismatch:
                del self.unread[host]

    def forget(self, host: str) -> None:
        """Forget the difference of a host."""
        self._by_host.pop(host, None)
        self.unread.pop(host, None)


def first_names(names: Collection[str], most: int = 5) -> str:
    """Return the first of some names, for a log line."""
    more = ", ..." if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more
