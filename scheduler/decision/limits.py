# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The limits that filters set: how much of a host may be promised, as claims will enforce it."""

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NUMERIC = ("vcpu", "memory_mb", "disk_gb")
# Of members of a server group: a GroupLimit.
GROUP = "server_group"


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """How many members of a group a host may have, None where all must be on the same one."""

    most: int | None = None


class Limits:
    """One column per limit, NaN where none is set. A filter assigns a whole column at once.

    Units: vcpu counts, memory_mb MB, disk_gb GB. Other names are kept host by host.
    """

    __slots__ = ("_columns", "_made", "_others", "_size")
    _columns: dict[str, npt.NDArray[np.float64]]
    _made: dict[str, tuple[npt.NDArray[np.bool_], Callable[[int], Any]]]
    _others: dict[tuple[int, str], Any]
    _size: int

    def __init__(self, size: int) -> None:
        object.__setattr__(self, "_size", size)
        object.__setattr__(self, "_columns", {})
        object.__setattr__(self, "_others", {})
        object.__setattr__(self, "_made", {})

    def __setattr__(self, name: str, column: npt.NDArray[np.float64]) -> None:
        if name not in NUMERIC:
            raise AttributeError(f"no limit is called {name}")
        self._columns[name] = np.array(column, np.float64)

    def __getattr__(self, name: str) -> npt.NDArray[np.float64]:
        if name not in NUMERIC:
            raise AttributeError(f"no limit is called {name}")
        return self._column(name)

    @property
    def columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """The columns that were set."""
        return self._columns

    def make(self, name: str, where: npt.NDArray[np.bool_], value: Callable[[int], Any]) -> None:
        """Set a limit that is no number: value(row), which is made when it is asked for."""
        self._made[name] = where.copy(), value

    def of(self, row: int) -> "HostLimits":
        """Return the limits of one host as a mapping that can be written."""
        return HostLimits(self, row)

    def on(self, row: int) -> dict[str, Any]:
        """Return the limits of one host by themselves."""
        if self._others:
            return dict(self.of(row))
        found = {name: float(column[row]) for name, column in self._columns.items()}
        found = {name: each for name, each in found.items() if each == each}
        made = {name: value(row) for name, (where, value) in self._made.items() if where[row]}
        return found | made if made else found

    def _column(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self._columns:
            self._columns[name] = np.full(self._size, np.nan)
        return self._columns[name]


class HostLimits(MutableMapping[str, Any]):
    """The limits of one host: {name: value} of those that are set."""

    __slots__ = ("_limits", "_row")

    def __init__(self, limits: Limits, row: int) -> None:
        self._limits = limits
        self._row = row

    def __getitem__(self, name: str) -> Any:
        if name in self._limits._columns:
            value = float(self._limits._columns[name][self._row])
            if value == value:  # not NaN
                return value
        if (self._row, name) in self._limits._others:
            return self._limits._others[self._row, name]
        if self._is_made(name):
            return self._limits._made[name][1](self._row)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name in NUMERIC:
            self._limits._column(name)[self._row] = value
        else:
            self._limits._others[self._row, name] = value

    def __delitem__(self, name: str) -> None:
        _ = self[name]
        if name in NUMERIC:
            self._limits._column(name)[self._row] = np.nan
            return
        self._limits._others.pop((self._row, name), None)
        if self._is_made(name):
            self._limits._made[name][0][self._row] = False

    def __iter__(self) -> Iterator[str]:
        columns = self._limits._columns
        yield from (name for name in columns if not np.isnan(columns[name][self._row]))
        others = {name for row, name in self._limits._others if row == self._row}
        yield from sorted(others.union(filter(self._is_made, self._limits._made)))

    def _is_made(self, name: str) -> bool:
        return name in self._limits._made and bool(self._limits._made[name][0][self._row])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))
