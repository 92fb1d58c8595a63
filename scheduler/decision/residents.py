# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances live on which row of the table, looked up from either side."""

from collections.abc import Iterable, Mapping
from typing import Any


class Residents:
    """Instances by row and rows by instance; a copy shares all that it does not change."""

    __slots__ = ("_by_row", "_rows_of", "_shared")

    def __init__(self) -> None:
        self._by_row: dict[int, dict[str, Any]] = {}
        self._rows_of: dict[str, frozenset[int]] = {}
        self._shared = False

    def on(self, row: int) -> Mapping[str, Any]:
        """Return {uuid: instance} of a row."""
        return self._by_row.get(row, {})

    def rows_of(self, uuid: str) -> Iterable[int]:
        """Return the rows on which an instance lives; two while it moves."""
        return self._rows_of.get(uuid, ())

    def occupied(self) -> Iterable[int]:
        """Return the rows that have any instance."""
        return (row for row, instances in self._by_row.items() if instances)

    def add(self, row: int, uuid: str, instance: Any) -> None:
        self._own()
        # A new dictionary, since the old one may be another copy's as well.
        self._by_row[row] = {**self._by_row.get(row, {}), uuid: instance}
        self._rows_of[uuid] = self._rows_of.get(uuid, frozenset()) | {row}

    def discard(self, row: int, uuid: str) -> None:
        if uuid not in self._by_row.get(row, {}):
            return
        self._own()
        self._by_row[row] = {u: i for u, i in self._by_row[row].items() if u != uuid}
        left = self._rows_of[uuid] - {row}
        if left:
            self._rows_of[uuid] = left
        else:
            del self._rows_of[uuid]

    def replace(self, row: int, instances: Mapping[str, Any]) -> None:
        """Make these the only instances of a row."""
        for uuid in list(self.on(row)):
            if uuid not in instances:
                self.discard(row, uuid)
        for uuid, instance in instances.items():
            self.add(row, uuid, instance)

    def copy(self) -> "Residents":
        other = Residents()
        other._by_row, other._rows_of = self._by_row, self._rows_of
        self._shared = other._shared = True
        return other

    def _own(self) -> None:
        if self._shared:
            self._by_row, self._rows_of = self._by_row.copy(), self._rows_of.copy()
            self._shared = False
