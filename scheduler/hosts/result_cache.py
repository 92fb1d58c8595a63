# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Results of plug-ins per row of the table, cached and computed again for changed rows alone."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scheduler.hosts.columns import Rows

if TYPE_CHECKING:
    from scheduler.hosts.table import HostTable


# Arrays by name, each with one element for each row.
Results = dict[str, npt.NDArray[Any]]
Work = Callable[["HostTable"], Results]
# The size of all arrays in the cache of one table.
MAX_BYTES = 64 * 2**20
# The size of an entry besides, of its key for the most part.
_KEY_BYTES = 2048
# When more than one of so many rows was written, the results of all rows are computed again.
_FEW = 4
# The least number of writes that a log holds; before these, all rows count as written.
MAX_WRITES = 4096


class ChangeLog:
    """Counts the writes of a column and holds the rows of the last ones."""

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

    def note_all(self) -> None:
        """Count a write of all rows."""
        self._first = self.position + 1
        self._rows.clear()

    def since(self, position: int) -> Sequence[int] | None:
        """Return the rows written since a position, None where that may be any."""
        return self._rows[position - self._first :] if position >= self._first else None


@dataclass(slots=True)
class Entry:
    """Results of so many rows, and the positions in the logs of the columns for which they hold."""

    positions: tuple[int, ...]
    size: int
    results: Results

    @property
    def nbytes(self) -> int:
        return _KEY_BYTES + sum(each.nbytes for each in self.results.values())

    def update(self, rows: Rows, newer: Results) -> None:
        """Replace the results of some rows."""
        for name, values in newer.items():
            column = self.results[name]
            column.flags.writeable = True
            column[rows] = values
            column.flags.writeable = False

    def copy(self) -> "Entry":
        results = {name: each.copy() for name, each in self.results.items()}
        return Entry(self.positions, self.size, results)


class ResultCache:
    """Entries by key; the least recently used ones are dropped above MAX_BYTES.

    With a base it is that of a copy of the table: it has private entries for rows that the copy has
    changed, and shares all others.
    """

    __slots__ = ("_base", "_bytes", "_entries")

    def __init__(self, base: "ResultCache | None" = None) -> None:
        self._base = base
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> tuple[Entry | None, bool]:
        """Return the entry of a key, and whether it is of this cache itself."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry, True
        return (self._base.get(key)[0], False) if self._base is not None else (None, False)

    def drop(self, key: Hashable) -> None:
        """Remove an entry, a shared one too."""
        before = self._entries.pop(key, None)
        if before is not None:
            self._bytes -= before.nbytes
        if self._base is not None:
            self._base.drop(key)

    def put(self, key: Hashable, entry: Entry, private: bool) -> None:
        """Add an entry, a private one for this copy only."""
        if self._base is not None and not private:
            self._base.put(key, entry, private)
            return
        before = self._entries.pop(key, None)
        self._bytes += entry.nbytes - (before.nbytes if before else 0)
        self._entries[key] = entry
        while self._bytes > MAX_BYTES and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.nbytes


def compute_incremental(
    hosts: "HostTable", key: Hashable, columns: Sequence[str], work: Work
) -> Results:
    """Return work(hosts), from the cache for rows in which none of these columns has changed.

    key stands for the work, whose result for a row must depend on its elements of these columns
    alone. It is given the whole table, or a part with the changed rows. The arrays are read-only.
    """
    positions, private = hosts.positions(columns), hosts.is_private(columns)
    entry, own = hosts.result_cache.get(key)
    if entry is not None and entry.positions == positions and entry.size == hosts.size:
        return entry.results
    if entry is not None and private and not own:
        entry = entry.copy()
    warnings = len(hosts.warnings)
    if entry is None or not _update(hosts, columns, work, entry):
        results = {name: np.array(each) for name, each in work(hosts).items()}
        for each in results.values():
            each.flags.writeable = False
        entry = Entry(positions, hosts.size, results)
    if len(hosts.warnings) > warnings:
        # Something has failed, and may not do so the next time.
        hosts.result_cache.drop(key)
        return entry.results
    entry.positions = positions
    hosts.result_cache.put(key, entry, private)
    return entry.results


def _update(hosts: "HostTable", columns: Sequence[str], work: Work, entry: Entry) -> bool:
    """Update the changed rows of an entry; return False where all rows have to be computed."""
    if entry.size != hosts.size:
        return False
    rows = hosts.written_since(columns, entry.positions)
    if rows is None or _FEW * len(rows) > hosts.size:
        return False
    newer = work(hosts.part(rows, columns))
    if _dtypes(newer) != _dtypes(entry.results):
        return False
    entry.update(rows, newer)
    return True


def _dtypes(results: Results) -> dict[str, Any]:
    return {name: each.dtype for name, each in results.items()}
