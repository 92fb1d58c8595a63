# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows of a column were written, so that what was made of it can follow."""

from collections.abc import Collection, Sequence

# So many writes are kept at least; who has seen none of them looks at all rows again.
MOST = 4096


class Journal:
    """Counts the writes of a column and knows the rows of the last ones."""

    __slots__ = ("_first", "_rows")

    def __init__(self, position: int = 0) -> None:
        self._first = position
        self._rows: list[int] = []

    @property
    def position(self) -> int:
        """How many writes there have been."""
        return self._first + len(self._rows)

    def note(self, row: int) -> None:
        """Count the write of a row."""
        self.note_each((row,))

    def note_each(self, rows: Collection[int]) -> None:
        """Count the writes of some rows."""
        self._rows += rows
        if len(self._rows) >= 2 * MOST:
            forgotten = len(self._rows) - MOST
            del self._rows[:forgotten]
            self._first += forgotten

    def note_all(self) -> None:
        """Count a write of all rows."""
        self._first = self.position + 1
        self._rows.clear()

    def since(self, position: int) -> Sequence[int] | None:
        """Return the rows that were written since, None where that may be any."""
        return self._rows[position - self._first :] if position >= self._first else None
