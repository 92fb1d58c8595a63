# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances live on which row of the table, looked up from either side."""

from collections.abc import Collection, Hashable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from scheduler.decision.journal import Journal
from scheduler.objects.instance import Instance

Counts = npt.NDArray[np.int64]
# What instances are counted by: ("flavor_id", 5), ("image", "os_distro", "windows"), ...
Trait = tuple[object, ...]
EVERY: Trait = ("every",)
# An image has some seventy properties.
_MOST_COUNTED = 128


def traits(instance: Instance) -> Iterator[Trait]:
    """Yield what an instance is counted by.

    These are EVERY, ("flavor_id", id) or, where that is unknown, ("flavor_name", name), and
    ("image", property, text) for each property of its image.
    """
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


class Residents:
    """Instances by row and rows by instance.

    A copy keeps what it changes to itself and looks the rest up here, so making it costs nothing.
    It holds as long as this one is not changed.
    """

    __slots__ = ("_base", "_by_row", "_counts", "_rows_of", "journal")

    def __init__(self, base: "Residents | None" = None) -> None:
        self._base = base
        self._by_row: dict[int, dict[str, Instance]] = {}
        self._rows_of: dict[str, frozenset[int]] = {}
        # How many instances of a trait are on each row, for those that were asked about.
        self._counts: dict[Trait, Counts] = {}
        self.journal = Journal()

    def copy(self) -> "Residents":
        return Residents(self)

    def detached(self) -> "Residents":
        """Return the same for a table of its own; this one must not be a copy."""
        other = Residents()
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
        """Return the rows on which an instance lives; two while it moves."""
        rows = self._rows_of.get(uuid)
        if rows is None:
            return () if self._base is None else self._base.rows_of(uuid)
        return rows

    def rows_of_each(self, uuids: Collection[str]) -> list[int]:
        """Return the rows on which these instances live, one for each of them that is there."""
        if self._base is not None and not self._rows_of:
            return self._base.rows_of_each(uuids)
        known = self._rows_of.get if self._base is None else self.rows_of
        return [row for uuid in uuids for row in known(uuid) or ()]

    def occupied(self) -> Iterator[int]:
        """Yield the rows that have any instance."""
        yield from (row for row, instances in self._by_row.items() if instances)
        if self._base is not None:
            yield from (row for row in self._base.occupied() if row not in self._by_row)

    def count(self, trait: Trait, size: int) -> Counts:
        """Return how many instances with a trait are on each of the first size rows.

        The first time a trait is asked about all instances are looked at, later none.
        """
        if self._base is not None and not self._by_row:
            return self._base.count(trait, size)
        counts = self._counts.pop(trait, None)
        if counts is None or len(counts) < size:
            counts = self._counted(trait, size)
        while len(self._counts) >= _MOST_COUNTED:
            del self._counts[next(iter(self._counts))]
        self._counts[trait] = counts
        return counts[:size]

    def add(self, row: int, uuid: str, instance: Instance) -> None:
        self.change(row, {uuid: instance})

    def discard(self, row: int, uuid: str) -> None:
        if uuid in self.on(row):
            self.change(row, {}, [uuid])

    def replace(self, row: int, instances: Mapping[str, Instance]) -> None:
        """Make these the only instances of a row."""
        self.change(row, instances, [uuid for uuid in self.on(row) if uuid not in instances])

    def change(self, row: int, added: Mapping[str, Instance], gone: Collection[str] = ()) -> None:
        """Add instances to a row, and drop others that may be there, at the cost of one."""
        # A new dictionary, since somebody may still look at the old one.
        here = {**self.on(row)}
        for uuid in gone:
            if uuid in here:
                self._recount(row, here.pop(uuid), -1)
                self._leave(row, uuid)
        for uuid, instance in added.items():
            if uuid in here:
                self._recount(row, here[uuid], -1)
            else:
                self._rows_of[uuid] = frozenset((*self.rows_of(uuid), row))
            here[uuid] = instance
            self._recount(row, instance, 1)
        self._by_row[row] = here
        self.journal.note(row)

    def _leave(self, row: int, uuid: str) -> None:
        self._rows_of[uuid] = frozenset(other for other in self.rows_of(uuid) if other != row)
        if self._base is None and not self._rows_of[uuid]:
            del self._rows_of[uuid]

    def _counted(self, trait: Trait, size: int) -> Counts:
        counts = np.zeros(size, np.int64)
        if self._base is not None:
            counts += self._base.count(trait, size)
        # Thousands of instances are of a few kinds: same flavor, same image.
        kinds: dict[Hashable, bool] = {}
        for row, instances in self._by_row.items():
            found = (_has(each, trait, kinds) for each in instances.values())
            counts[row] = len(instances) if trait == EVERY else sum(found)
        return counts

    def _recount(self, row: int, instance: Instance, change: int) -> None:
        """Keep the counts that were asked for."""
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
