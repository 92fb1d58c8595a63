# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregates of each host: those of the inventory, and those that Nova's services told of.

What was told of an aggregate counts until the inventory has something new to say about it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from inventory.aggregates import AggregateRecord
from scheduler.decision.host_table import HostTable
from scheduler.host_view.tracking import ToldAggregates
from scheduler.objects.aggregate import Aggregate


class HostAggregates:
    """Keeps the aggregates of a table. Not locked: its owner locks it together with the table.

    What was read or told shows in the table after settle(), so that a thousand changes at a time
    cost as much as one.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._inventory: list[Aggregate] | None = None
        self._told = ToldAggregates()
        self._by_host: dict[str, list[Aggregate]] = {}
        self._settled = True

    def read(self, records: Iterable[AggregateRecord]) -> None:
        """Take over all aggregates of the inventory.

        Of those that have changed since they were last read it counts again what is read.
        """
        found = [
            Aggregate(each.id, each.uuid, each.name, each.hosts, each.metadata) for each in records
        ]
        # What was told before the first reading is news to whoever was read.
        if self._inventory is not None:
            for aggregate in _changed(self._inventory, found):
                self._told.forget(aggregate.uuid)
        self._inventory = found
        self._settled = False

    def tell(self, aggregates: Iterable[Aggregate]) -> None:
        """Take in aggregates that were made or changed."""
        for aggregate in aggregates:
            self._told.put(aggregate)
        self._settled = False

    def tell_gone(self, aggregate: Aggregate) -> None:
        """Take in that an aggregate was deleted."""
        self._told.end(aggregate)
        self._settled = False

    def settle(self) -> None:
        """Write what has changed into the table."""
        if self._settled:
            return
        by_host: dict[str, list[Aggregate]] = defaultdict(list)
        for aggregate in self._told.over(self._inventory or ()):
            for host in dict.fromkeys(aggregate.hosts):
                by_host[host].append(aggregate)
        self._by_host = dict(by_host)
        self.write([*self._hosts.rows()])
        self._settled = True

    def write(self, rows: Sequence[int]) -> None:
        """Write the aggregates of hosts into their rows."""
        found = [self._by_host.get(self._hosts.get(row, "host"), ()) for row in rows]
        # What changes is made anew, so the identity of each tells one state from another.
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
