# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A column of objects of which many rows share a few: each distinct value is kept once."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

UNSET = 0
# How many questions about the values of a column are remembered with their answers.
_MOST_DERIVED = 64


class Interned:
    """One small integer per row, the code of its value; code 0 is None.

    Values that no row uses any longer are forgotten, so a column may change for years.
    """

    __slots__ = ("_code_of", "_derived", "_free", "_keys", "_uses", "_values", "_written", "codes")

    def __init__(self, capacity: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._values: list[Any] = [None]
        self._keys: list[Hashable] = [None]
        self._uses: list[int] = [capacity]
        self._code_of: dict[Hashable, int] = {None: UNSET}
        self._free: list[int] = []
        # Codes in the order in which they got their values, and what was made of the values, with
        # the length that the former had then.
        self._written: list[int] = []
        self._derived: dict[Hashable, tuple[npt.NDArray[Any], int]] = {}

    def __getitem__(self, row: int) -> Any:
        return self._values[self.codes[row]]

    def set(self, row: int, value: Any, key: Hashable = None) -> None:
        """Give a row a value; equal keys share one value, by default equal values do."""
        code = self._code(value, key_of(value) if key is None else key)
        self._uses[code] += 1
        self._release(int(self.codes[row]))
        self.codes[row] = code

    def write(
        self, rows: Sequence[int], keys: Iterable[Hashable], make: Callable[[Any], Any]
    ) -> list[int]:
        """Give each of these rows the value of its key; return the rows that had another one.

        make(key) is asked for the values that no row has.
        """
        changed = []
        for row, before, key in zip(rows, self.codes[rows].tolist(), keys, strict=True):
            code = self._code_of.get(key)
            if code is None:
                code = self._code(make(key), key)
            if code != before:
                self._uses[code] += 1
                self._release(before)
                self.codes[row] = code
                changed.append(row)
        return changed

    def values(self) -> list[Any]:
        """Return the values by code; those of unused codes are None."""
        return self._values

    def derived(
        self, key: Hashable, function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        """Return function(value) by code; values that were asked about before are not asked again.

        key stands for the function, which must depend on the value alone and take None.
        """
        known, since = self._derived.pop(key, (np.zeros(0, dtype), 0))
        if len(known) >= len(self._values) and since == len(self._written):
            self._derived[key] = known, since
            return known
        results = known
        if len(known) < len(self._values):
            results = np.zeros(len(self._values) + len(self._values) // 8, dtype)
            results[: len(known)] = known
        new = {*self._written[since:]} if len(known) else range(len(self._values))
        for code in new:
            results[code] = function(self._values[code])
        while len(self._derived) >= _MOST_DERIVED:
            del self._derived[next(iter(self._derived))]
        self._derived[key] = results, len(self._written)
        return results

    def part(self, rows: npt.NDArray[np.int64]) -> "Interned":
        """Return a column of some of the rows, to be read only; all else is this one's."""
        other = Interned.__new__(Interned)
        for name in Interned.__slots__:
            setattr(other, name, getattr(self, name))
        other.codes = self.codes[rows]
        return other

    def grow(self, capacity: int) -> None:
        self._uses[UNSET] += capacity - len(self.codes)
        self.codes = np.concatenate([self.codes, np.zeros(capacity - len(self.codes), np.int32)])

    def copy(self) -> "Interned":
        """Return a column that can be changed without changing this one; values are shared."""
        other = Interned.__new__(Interned)
        other.codes = self.codes.copy()
        other._values = self._values.copy()
        other._keys = self._keys.copy()
        other._uses = self._uses.copy()
        other._code_of = self._code_of.copy()
        other._free = self._free.copy()
        other._written = self._written.copy()
        other._derived = {
            key: (results.copy(), since) for key, (results, since) in self._derived.items()
        }
        return other

    def _code(self, value: Any, key: Hashable) -> int:
        if value is None:
            return UNSET
        code = self._code_of.get(key)
        if code is not None:
            return code
        if self._free:
            code = self._free.pop()
            self._values[code], self._keys[code] = value, key
        else:
            code = len(self._values)
            self._values.append(value)
            self._keys.append(key)
            self._uses.append(0)
        self._code_of[key] = code
        self._write_down(code)
        return code

    def _write_down(self, code: int) -> None:
        self._written.append(code)
        if len(self._written) > 1024 + 2 * len(self._values):
            # All over again costs less by now than what has come together.
            self._written.clear()
            self._derived.clear()

    def _release(self, code: int) -> None:
        self._uses[code] -= 1
        if self._uses[code] == 0 and code != UNSET:
            del self._code_of[self._keys[code]]
            self._values[code] = self._keys[code] = None
            self._free.append(code)


def key_of(value: Any) -> Hashable:
    """Return what tells a value from others unless something else is given as its key."""
    if value is None:
        return None
    try:
        hash(value)
    except TypeError:
        # Lists and dictionaries are told apart by identity; they live as long as they are used.
        return ("object", id(value))
    # 1, 1.0 and True are equal but not the same to whoever reads them.
    return (type(value), value)
