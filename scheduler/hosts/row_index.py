# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of the host table by the names of hosts, by instance, by group, and those written last."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inventory.objects.instance_group import InstanceGroup
from scheduler.hosts.columns import Rows
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

if TYPE_CHECKING:
    from scheduler.hosts.table import HostTable

# What instances are counted by: ("flavor_id", 5), ("image", "os_distro", "windows"), ...
Trait = tuple[object, ...]
EVERY: Trait = ("every",)
# How many traits are counted at a time; an image has some seventy properties.
_MAX_COUNTS = 128
# The least number of writes that a log holds; before these, all rows count as written.
MAX_WRITES = 4096
# Of a table, how many rows of columns are known to be written, and of one column in one write.
MAX_NOTED = 65_536
MAX_ROWS = 256


class ChangeLog:
    """Counts the changes of rows and holds the rows of the last ones."""

    __slots__ = ("_first", "_rows")

    def __init__(self, position: int = 0) -> None:
        self._first = position
        self._rows: list[int] = []

    @property
    def position(self) -> int:
        """The number of writes so far."""
        return self._first + len(self._rows)

    def note(self, rows: Collection[int]) -> None:
        """Count a write of each of these rows."""
        self._rows += rows
        if len(self._rows) >= 2 * MAX_WRITES:
            dropped = len(self._rows) - MAX_WRITES
            del self._rows[:dropped]
            self._first += dropped

    def since(self, position: int) -> Sequence[int] | None:
        """Return the rows written since a position, None where that may be any."""
        return self._rows[position - self._first :] if position >= self._first else None


class WriteLog:
    """Counts the writes of a table and holds the last ones: a column and its rows, None for all."""

    __slots__ = ("_first", "_rows", "_writes")

    def __init__(self, position: int = 0) -> None:
        self._first = position
        self._writes: list[tuple[str, Collection[int] | None]] = []
        self._rows = 0

    @property
    def position(self) -> int:
        """The number of writes so far."""
        return self._first + len(self._writes)

    def note(self, name: str, rows: Collection[int] | None) -> None:
        """Count a write of some rows of a column; many rows count as all."""
        if rows is None or len(rows) > MAX_ROWS:
            rows = None
        self._writes.append((name, rows))
        self._rows += 1 if rows is None else len(rows) or 1
        if self._rows > MAX_NOTED:
            # Nobody has asked for so long that the whole table costs him no more.
            self._first = self.position
            self._writes.clear()
            self._rows = 0

    def since(self, position: int) -> Sequence[tuple[str, Collection[int] | None]] | None:
        """Return the writes since a position, None where they are not known any more."""
        return self._writes[position - self._first :] if position >= self._first else None


class RowIndex:
    """Finds rows by (host, nodename), and all rows of a host by its name alone."""

    __slots__ = ("_row_of", "_rows_of", "_spellings")

    def __init__(self) -> None:
        self._row_of: dict[tuple[str, str], int] = {}
        self._rows_of: dict[str, tuple[int, ...]] = {}
        # Names of hosts by their case-folded form.
        self._spellings: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._row_of)

    @property
    def has_one_node_per_host(self) -> bool:
        """Whether no host has more than one node."""
        return len(self._rows_of) == len(self._row_of)

    def copy(self) -> "RowIndex":
        other = RowIndex()
        other._row_of = self._row_of.copy()
        other._rows_of = self._rows_of.copy()
        other._spellings = self._spellings.copy()
        return other

    def rows(self) -> Collection[int]:
        return self._row_of.values()

    def row_of(self, host: str, nodename: str) -> int | None:
        """Return the row of a node, letter case respected."""
        return self._row_of.get((host, nodename))

    def rows_of(self, host: str, any_case: bool = False) -> tuple[int, ...]:
        """Return the rows of all nodes of a host."""
        if not any_case:
            return self._rows_of.get(host, ())
        names = self._spellings.get(host.casefold(), ())
        return tuple(row for name in names for row in self._rows_of[name])

    def rows_of_each(self, hosts: Iterable[str]) -> list[int]:
        """Return the rows of all nodes of these hosts, twice for a host that is named twice."""
        return [row for host in hosts for row in self._rows_of.get(host, ())]

    def add(self, row: int, host: str, nodename: str) -> None:
        self._row_of[host, nodename] = row
        if host not in self._rows_of:
            folded = host.casefold()
            self._spellings[folded] = (*self._spellings.get(folded, ()), host)
        self._rows_of[host] = (*self._rows_of.get(host, ()), row)

    def remove(self, host: str, nodename: str) -> None:
        row = self._row_of.pop((host, nodename))
        left = tuple(other for other in self._rows_of.pop(host) if other != row)
        if left:
            self._rows_of[host] = left
            return
        folded = host.casefold()
        names = tuple(name for name in self._spellings.pop(folded) if name != host)
        if names:
            self._spellings[folded] = names


def traits(instance: Instance) -> Iterator[Trait]:
    """Yield EVERY, the id of the flavor or else its name, and each property of the image."""
    yield EVERY
    identity, name = instance.flavor_identity
    if identity is not None:
        yield "flavor_id", identity
    elif name is not None:
        yield "flavor_name", name
    for each, text in (instance.image_properties or {}).items():
        yield "image", each, text


def _has(instance: Instance, trait: Trait, kinds: dict[Hashable, bool]) -> bool:
    kind = (
        instance.instance_type_id,
        instance.flavor_name,
        id(instance.flavor),
        id(instance.image_properties),
    )
    if kind not in kinds:
        kinds[kind] = trait in traits(instance)
    return kinds[kind]


class InstanceIndex:
    """Instances by row and rows by instance.

    With a base it is a copy of that, which holds its own changes and looks up all else in its base,
    so making it costs nothing. It is valid as long as the base does not change.
    """

    __slots__ = ("_base", "_by_row", "_counts", "_rows_of", "changes")

    def __init__(self, base: "InstanceIndex | None" = None) -> None:
        self._base = base
        self._by_row: dict[int, dict[str, Instance]] = {}
        self._rows_of: dict[str, frozenset[int]] = {}
        # How many instances with a trait are on each row, for the traits that were counted.
        self._counts: dict[Trait, Rows] = {}
        self.changes = ChangeLog()

    def detached(self) -> "InstanceIndex":
        """Return an independent index; this one must not be a copy."""
        other = InstanceIndex()
        other._by_row = self._by_row.copy()
        other._rows_of = self._rows_of.copy()
        return other

    def on(self, row: int) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a row."""
        here = self._by_row.get(row)
        if here is None:
            return {} if self._base is None else self._base.on(row)
        return here

    def rows_of(self, uuid: str) -> Collection[int]:
        """Return the rows of an instance; two while it moves."""
        rows = self._rows_of.get(uuid)
        if rows is None:
            return () if self._base is None else self._base.rows_of(uuid)
        return rows

    def rows_of_each(self, uuids: Collection[str]) -> list[int]:
        """Return the rows of all of these instances, a row once for each instance."""
        if self._base is not None and not self._rows_of:
            return self._base.rows_of_each(uuids)
        known = self._rows_of.get if self._base is None else self.rows_of
        return [row for uuid in uuids for row in known(uuid) or ()]

    def occupied(self) -> Iterator[int]:
        """Yield the rows that have any instance."""
        yield from (row for row, instances in self._by_row.items() if instances)
        if self._base is not None:
            yield from (row for row in self._base.occupied() if row not in self._by_row)

    def count(self, trait: Trait, size: int) -> Rows:
        """Return how many instances with a trait are on each of the first size rows.

        The first count of a trait looks at all instances, later ones at none.
        """
        if self._base is not None and not self._by_row:
            return self._base.count(trait, size)
        counts = self._counts.pop(trait, None)
        if counts is None or len(counts) < size:
            counts = np.zeros(size, np.int64)
            if self._base is not None:
                counts += self._base.count(trait, size)
            # Thousands of instances are of a few kinds: same flavor, same image.
            kinds: dict[Hashable, bool] = {}
            for row, instances in self._by_row.items():
                found = (_has(each, trait, kinds) for each in instances.values())
                counts[row] = len(instances) if trait == EVERY else sum(found)
        while len(self._counts) >= _MAX_COUNTS:
            del self._counts[next(iter(self._counts))]
        self._counts[trait] = counts
        return counts[:size]

    def add(self, row: int, uuid: str, instance: Instance) -> None:
        self.change(row, {uuid: instance})

    def replace(self, row: int, instances: Mapping[str, Instance]) -> None:
        """Make these the only instances of a row."""
        self.change(row, instances, [uuid for uuid in self.on(row) if uuid not in instances])

    def change(self, row: int, added: Mapping[str, Instance], gone: Collection[str] = ()) -> None:
        """Add instances to a row and drop others, which need not be there, in one go."""
        # A new dictionary, since readers may still have the old one.
        here = {**self.on(row)}
        for uuid in gone:
            if uuid in here:
                self._recount(row, here.pop(uuid), -1)
                self._rows_of[uuid] = frozenset(each for each in self.rows_of(uuid) if each != row)
                if self._base is None and not self._rows_of[uuid]:
                    del self._rows_of[uuid]
        for uuid, instance in added.items():
            if uuid in here:
                self._recount(row, here[uuid], -1)
            else:
                self._rows_of[uuid] = frozenset((*self.rows_of(uuid), row))
            here[uuid] = instance
            self._recount(row, instance, 1)
        self._by_row[row] = here
        self.changes.note((row,))

    def _recount(self, row: int, instance: Instance, change: int) -> None:
        """Add the change to the counts of the instance's traits."""
        if not self._counts:
            return
        for trait in traits(instance):
            counts = self._counts.get(trait)
            if counts is None:
                continue
            if row < len(counts):
                counts[row] += change
            else:
                del self._counts[trait]


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Members by row, and how many of them count since the group's own list names the host."""

    members: Rows
    named: Rows

    def add(self, rows: Sequence[int], times: Rows | int = 1) -> None:
        """Count more members on these rows."""
        self.members[rows] += times
        self.named[rows] += times

    def place(self, rows: Collection[int], is_new: bool) -> None:
        """Count an instance on the rows of its host, unless it is there and counted already."""
        for column in (self.members, self.named):
            for row in rows:
                column[row] = column[row] + 1 if is_new else max(column[row], 1)

    def part(self, rows: Rows, times: Rows | int) -> "GroupCounts":
        """Return the counts of some rows, with times further members each."""
        return GroupCounts(self.members[rows] + times, self.named[rows] + times)


def group_with(policy: str, spec: RequestSpec) -> InstanceGroup | None:
    """Return the group of the instance if it has this policy."""
    group = spec.instance_group
    return group if group is not None and group.policy == policy else None


def group_counts(hosts: "HostTable", group: InstanceGroup) -> GroupCounts:
    """Return the counts of the decision that is being made, else those of the table."""
    return count_members(hosts, group) if hosts.group_counts is None else hosts.group_counts


def count_members(hosts: "HostTable", group: InstanceGroup) -> GroupCounts:
    """Count the members of a group on each row.

    A host that the group's own list names has at least as many as the list says, even if no agent
    has reported them yet: callers up to Newton send nothing else.
    """
    found = np.array(hosts.instances.rows_of_each({*group.members}), np.int64)
    named = np.array(hosts.names.rows_of_each(group.hosts), np.int64)
    counts = [np.bincount(rows, minlength=hosts.size) for rows in (found, named)]
    return GroupCounts(np.maximum(*counts), counts[1])
