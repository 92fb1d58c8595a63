# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances live on which row of the table, looked up from either side."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from scheduler.objects.instance import Instance

Counts = npt.NDArray[np.int64]
# What instances are counted by: ("flavor_id", 5), ("image", "os_distro", "windows"), ...
Trait = tuple[object, ...]
EVERY: Trait = ("every",)
_MOST_COUNTED = 64


def traits(instance: Instance) -> Iterator[Trait]:
    """Yield what an instance is counted by.

    These are EVERY, ("flavor_id", id) or, where that is unknown, ("flavor_name", name), and
    ("image", property, text) for each property of its image.
    """
    yield EVERY
    flavor = instance.flavor
    identity = instance.instance_type_id or (flavor.id if flavor else None)
    name = instance.flavor_name or (flavor.name if flavor else None)
    if identity is not None:
        yield "flavor_id", identity
    elif name is not None:
        yield "flavor_name", name
    for each, text in (instance.image_properties or {}).items():
        yield "image", each, text


class Residents:
    """Instances by row and rows by instance; a copy shares all that it does not change."""

    __slots__ = ("_borrowed", "_by_row", "_counts", "_rows_of", "_shared")

    def __init__(self) -> None:
        self._by_row: dict[int, dict[str, Instance]] = {}
        self._rows_of: dict[str, frozenset[int]] = {}
        # How many instances of a trait are on each row, for those that were asked about.
        self._counts: dict[Trait, Counts] = {}
        self._borrowed: set[Trait] = set()
        self._shared = False

    def on(self, row: int) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a row."""
        return self._by_row.get(row, {})

    def rows_of(self, uuid: str) -> Iterable[int]:
        """Return the rows on which an instance lives; two while it moves."""
        return self._rows_of.get(uuid, ())

    def occupied(self) -> Iterable[int]:
        """Return the rows that have any instance."""
        return (row for row, instances in self._by_row.items() if instances)

    def count(self, trait: Trait, size: int) -> Counts:
        """Return how many instances with a trait are on each of the first size rows.

        The first time a trait is asked about all instances are looked at, later none.
        """
        counts = self._counts.pop(trait, None)
        if counts is None or len(counts) < size:
            counts = np.zeros(size, np.int64)
            for row, instances in self._by_row.items():
                counts[row] = sum(trait in traits(each) for each in instances.values())
        while len(self._counts) >= _MOST_COUNTED:
            del self._counts[next(iter(self._counts))]
        self._counts[trait] = counts
        return counts[:size]

    def add(self, row: int, uuid: str, instance: Instance) -> None:
        self._own()
        older = self._by_row.get(row, {}).get(uuid)
        if older is not None:
            self._recount(row, older, -1)
        # A new dictionary, since the old one may be another copy's as well.
        self._by_row[row] = {**self._by_row.get(row, {}), uuid: instance}
        self._rows_of[uuid] = self._rows_of.get(uuid, frozenset()) | {row}
        self._recount(row, instance, 1)

    def discard(self, row: int, uuid: str) -> None:
        if uuid not in self._by_row.get(row, {}):
            return
        self._own()
        self._recount(row, self._by_row[row][uuid], -1)
        self._by_row[row] = {u: i for u, i in self._by_row[row].items() if u != uuid}
        left = self._rows_of[uuid] - {row}
        if left:
            self._rows_of[uuid] = left
        else:
            del self._rows_of[uuid]

    def replace(self, row: int, instances: Mapping[str, Instance]) -> None:
        """Make these the only instances of a row."""
        for uuid in list(self.on(row)):
            if uuid not in instances:
                self.discard(row, uuid)
        for uuid, instance in instances.items():
            self.add(row, uuid, instance)

    def copy(self) -> "Residents":
        other = Residents()
        other._by_row, other._rows_of = self._by_row, self._rows_of
        other._counts = self._counts
        self._shared = other._shared = True
        return other

    def _own(self) -> None:
        if self._shared:
            self._by_row, self._rows_of = self._by_row.copy(), self._rows_of.copy()
            self._counts = self._counts.copy()
            self._borrowed = {*self._counts}
            self._shared = False

    def _recount(self, row: int, instance: Instance, change: int) -> None:
        """Keep the counts that were asked for; the array may be another copy's as well."""
        if not self._counts:
            return
        for trait in traits(instance):
            counts = self._counts.get(trait)
            if counts is None:
                continue
            if row >= len(counts):
                del self._counts[trait]
                continue
            if trait in self._borrowed:
                counts = self._counts[trait] = counts.copy()
                self._borrowed.discard(trait)
            counts[row] += change
