# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What was worked out for each row before: only rows that were written since are looked at again.

Most clouds ask for a few flavors again and again, and between two requests few hosts change.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Arrays by name, each with one element for each row.
Results = dict[str, npt.NDArray[Any]]
# Of how many bytes the arrays may be that one table remembers.
MOST_BYTES = 64 * 2**20
# What an entry takes besides, its key for the most part.
_KEY_BYTES = 2048


@dataclass(slots=True)
class Entry:
    """Results, and the positions of the journals up to which they hold."""

    positions: tuple[int, ...]
    results: Results

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(next(iter(self.results.values())))

    @property
    def nbytes(self) -> int:
        return _KEY_BYTES + sum(each.nbytes for each in self.results.values())

    def renew(self, rows: npt.NDArray[np.int64], newer: Results) -> None:
        """Take over newer results of some rows."""
        for name, values in newer.items():
            column = self.results[name]
            column.flags.writeable = True
            column[rows] = values
            column.flags.writeable = False

    def copy(self) -> "Entry":
        return Entry(self.positions, {name: each.copy() for name, each in self.results.items()})


class Remembered:
    """Entries by key; the ones that were asked for last stay, up to MOST_BYTES.

    A copy keeps to itself what it learns about rows that it has changed itself.
    """

    __slots__ = ("_base", "_bytes", "_entries")

    def __init__(self, base: "Remembered | None" = None) -> None:
        self._base = base
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._bytes = 0

    def copy(self) -> "Remembered":
        return Remembered(self)

    def get(self, key: Hashable) -> tuple[Entry | None, bool]:
        """Return the entry of a key, and whether it is this one's own."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry, True
        return (self._base.get(key)[0], False) if self._base is not None else (None, False)

    def forget(self, key: Hashable) -> None:
        """Forget an entry, a shared one too."""
        before = self._entries.pop(key, None)
        if before is not None:
            self._bytes -= before.nbytes
        if self._base is not None:
            self._base.forget(key)

    def put(self, key: Hashable, entry: Entry, private: bool) -> None:
        """Remember an entry, a private one for this copy only."""
        if self._base is not None and not private:
            self._base.put(key, entry, private)
            return
        before = self._entries.pop(key, None)
        self._bytes += entry.nbytes - (before.nbytes if before else 0)
        self._entries[key] = entry
        while self._bytes > MOST_BYTES and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.nbytes
