# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of numbers of a table, of which a copy shares all that it does not change."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.decision.columns import DTYPES, unset

Column = npt.NDArray[Any]


class Numbers:
    """One array for each number that a table knows of its hosts, with room for more rows.

    Most copies are made for a single instance and change a few elements that nobody reads the
    columns for again: these are kept by themselves until somebody does.
    """

    __slots__ = ("_borrowed", "_columns", "_late")

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {name: np.zeros(0, DTYPES[name]) for name in DTYPES}
        self._borrowed: set[str] = set()
        self._late: dict[str, dict[int, Any]] = {}

    def column(self, name: str) -> Column:
        """Return a whole column, not to be changed."""
        if name in self._late:
            self.own(name)
        return self._columns[name]

    def own(self, name: str) -> Column:
        """Return a whole column that may be changed."""
        if name in self._borrowed:
            self._columns[name] = self._columns[name].copy()
            self._borrowed.discard(name)
            for row, value in self._late.pop(name, {}).items():
                self._columns[name][row] = value
        return self._columns[name]

    def get(self, row: int, name: str) -> Any:
        """Return one element as a plain number, None for NaN."""
        late = self._late.get(name)
        value = (late[row] if late and row in late else self._columns[name][row]).item()
        return None if value != value else value

    def set(self, row: int, name: str, value: Any) -> None:
        """Write one element."""
        if value is None:
            value = unset(name)
        if name in self._borrowed:
            self._late.setdefault(name, {})[row] = DTYPES[name](value)
        else:
            self._columns[name][row] = value

    def write(self, rows: Sequence[int], name: str, values: Iterable[Any]) -> list[int]:
        """Write an element of each of these rows; return the rows that had another one."""
        column, none = self.own(name), unset(name)
        new = np.array([none if each is None else each for each in values], column.dtype)
        index = np.array(rows, np.int64)
        changed = column[index] != new
        column[index[changed]] = new[changed]
        return list(index[changed].tolist())

    def grow(self, capacity: int) -> None:
        for name in DTYPES:
            column = self.column(name)
            more = np.full(capacity - len(column), unset(name), column.dtype)
            self._columns[name] = np.concatenate([column, more])

    def copy(self) -> "Numbers":
        """Return columns that can be changed without changing these."""
        other = Numbers.__new__(Numbers)
        other._columns = {name: self.column(name) for name in DTYPES}
        other._borrowed = {*DTYPES}
        other._late = {}
        return other

    def detached(self) -> "Numbers":
        """Return columns of their own."""
        other = Numbers.__new__(Numbers)
        other._columns = {name: self.column(name).copy() for name in DTYPES}
        other._borrowed, other._late = set(), {}
        return other

    def part(
        self,
        rows: npt.NDArray[np.int64],
        names: Collection[str],
        changes: Mapping[str, int],
        times: npt.NDArray[np.int64] | int,
    ) -> "Numbers":
        """Return these columns of some of the rows after so many times these changes."""
        other = Numbers.__new__(Numbers)
        other._columns = {name: self.column(name)[rows] for name in DTYPES if name in names}
        for name in changes.keys() & other._columns.keys():
            other._columns[name] += changes[name] * times
        other._borrowed, other._late = set(), {}
        return other
