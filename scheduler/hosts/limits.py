# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The limits that filters set: how far a host may be filled, as claims will enforce it."""

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NUMERIC = ("vcpu", "memory_mb", "disk_gb")
# The name of a GroupLimit.
GROUP = "server_group"
# That of a host that was kept apart from others by a hint.
APART = "apart"


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """How many members of a group a host may have, None where all must be on the same one."""

    most: int | None = None


class Limits:
    """One column per limit, NaN where none is set. A filter assigns a whole column at once.

    columns has those that were set; they may belong to the filter, and are copied before a single
    element is changed. Limits of other names than vcpu, memory_mb and disk_gb are set host by host.
    """

    columns: dict[str, npt.NDArray[np.float64]]
    _size: int
    _own: set[str]
    _made: dict[str, tuple[npt.NDArray[np.bool_], Callable[[int], Any]]]
    _others: dict[int, dict[str, Any]]

    def __init__(self, size: int) -> None:
        # Not through __setattr__, which takes columns alone.
        self.__dict__.update(columns={}, _size=size, _own=set(), _made={}, _others={})

    def __setattr__(self, name: str, column: npt.NDArray[np.float64]) -> None:
        if name not in NUMERIC:
            raise AttributeError(f"no limit is called {name}")
        self.columns[name] = np.asarray(column, np.float64)
        self._own.discard(name)

    def __getattr__(self, name: str) -> npt.NDArray[np.float64]:
        if name not in NUMERIC:
            raise AttributeError(f"no limit is called {name}")
        if name not in self.columns:
            self.columns[name] = np.full(self._size, np.nan)
            self._own.add(name)
        return self.columns[name]

    def set_one(self, row: int, name: str, value: float) -> None:
        """Set one of the numeric limits of a host."""
        if name not in self._own:
            self.columns[name] = getattr(self, name).copy()
            self._own.add(name)
        self.columns[name][row] = value

    def make(self, name: str, where: npt.NDArray[np.bool_], value: Callable[[int], Any]) -> None:
        """Set a limit that is not a number: value(row), computed when it is read."""
        self._made[name] = where.copy(), value

    def of(self, row: int) -> "HostLimits":
        """Return the limits of one host as a mapping that can be written."""
        return HostLimits(self, row)

    def on(self, row: int) -> dict[str, Any]:
        """Return the limits of one host as they are now."""
        found: dict[str, Any] = {
            name: limit
            for name, column in self.columns.items()
            if (limit := column.item(row)) == limit
        }
        found |= self._others.get(row, {})
        for name, (where, value) in self._made.items():
            if where[row] and name not in found:
                found[name] = value(row)
        return found


class HostLimits(MutableMapping[str, Any]):
    """The limits of one host: {name: value} of those that are set."""

    __slots__ = ("_limits", "_row")

    def __init__(self, limits: Limits, row: int) -> None:
        self._limits = limits
        self._row = row

    def __getitem__(self, name: str) -> Any:
        return self._limits.on(self._row)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in NUMERIC:
            self._limits.set_one(self._row, name, value)
        else:
            self._limits._others.setdefault(self._row, {})[name] = value

    def __delitem__(self, name: str) -> None:
        _ = self[name]
        if name in NUMERIC:
            self._limits.set_one(self._row, name, np.nan)
            return
        self._limits._others.get(self._row, {}).pop(name, None)
        if name in self._limits._made:
            self._limits._made[name][0][self._row] = False

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits.on(self._row))

    def __len__(self) -> int:
        return len(self._limits.on(self._row))

    def __repr__(self) -> str:
        return repr(self._limits.on(self._row))
