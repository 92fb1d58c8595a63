# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Columns of the host table: names, types, numbers with copy on write, and encoded objects."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# One element for each row of a table; Rows are indexes of rows.
Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

# Units are in the names; ratios are factors, updated is seconds since 1970 on the database's clock.
# heartbeat_age is seconds since the host's compute service was last seen; last_seen is when that
# was, on the clock of the table's owner. held_alternates are alternates that are claimed there, for
# builds that may fail elsewhere.
INTEGERS = (
    *("node_id", "generation", "total_usable_ram_mb", "free_ram_mb"),
    *("total_usable_disk_gb", "free_disk_mb", "disk_mb_used", "vcpus_total", "vcpus_used"),
    *("num_instances", "num_io_ops", "failed_builds", "held_alternates"),
)
FLOATS = (
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("heartbeat_age", "last_seen", "updated"),
)
# unserved: no compute service of the host is registered that could build an instance.
FLAGS = ("service_disabled", "forced_down", "unserved")
# trust_level is that of an attestation service, for TrustedFilter.
OBJECTS = (
    *("host", "nodename", "uuid", "cell_uuid", "host_ip"),
    *("hypervisor_type", "hypervisor_version", "hypervisor_hostname"),
    *("cpu_info", "supported_instances", "numa_topology", "pci_stats", "metrics", "stats"),
    *("aggregates", "disabled_reason", "trust_level"),
)
# The types of single elements.
ELEMENTS: dict[str, type] = {
    **dict.fromkeys(INTEGERS, np.int64),
    **dict.fromkeys(FLOATS, np.float64),
    **dict.fromkeys(FLAGS, np.bool_),
}
# Amounts and counts are kept as floats, which hold whole numbers exactly up to 2**53: numpy takes
# three times as long for integers times a ratio as for two columns of floats.
DTYPES = ELEMENTS | dict.fromkeys({*INTEGERS} - {"node_id", "generation"}, np.float64)
NUMBERS = frozenset(DTYPES)
_WHOLE = frozenset(INTEGERS)
# What weighers read that is one value for all hosts: see scheduler.hosts.flavor_mix.
FLAVOR_MIX = "flavor_mix"
# The code of None in an encoded column.
UNSET = 0
# Once so large a block was freed, glibc keeps the memory of temporary columns for the next ones; to
# get it from the kernel each time takes longer than all that is computed.
np.empty(31 << 20, np.uint8)
# How many functions of the values of a column are memoized.
_MAX_MEMOS = 64


def unset(name: str) -> float:
    """Return what a column has for None: NaN where it has fractions, else 0."""
    return np.nan if name in FLOATS else 0


class NumericColumns:
    """One array for each numeric column of a table, with capacity for more rows.

    Most copies are made for a single instance and change a few elements of columns that are not
    read again as a whole: such elements are held apart (_late) until their column is read.
    """

    __slots__ = ("_borrowed", "_columns", "_late")

    def __init__(
        self, columns: dict[str, Column] | None = None, borrowed: Iterable[str] = ()
    ) -> None:
        if columns is None:
            columns = {name: np.zeros(0, DTYPES[name]) for name in DTYPES}
        self._columns = columns
        self._borrowed = {*borrowed}
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
        """Return one element as a Python number, None for NaN."""
        late = self._late.get(name)
        value = (late[row] if late and row in late else self._columns[name][row]).item()
        if value != value:
            return None
        return int(value) if name in _WHOLE else value

    def number(self, row: int, name: str) -> Any:
        """Return one element as the column has it."""
        late = self._late.get(name) if self._late else None
        return late[row].item() if late and row in late else self._columns[name].item(row)

    def set(self, row: int, name: str, value: Any) -> None:
        """Write one element."""
        if value is None:
            value = unset(name)
        if name in self._borrowed:
            self._late.setdefault(name, {})[row] = DTYPES[name](value)
        else:
            self._columns[name][row] = value

    def add_to(self, row: int, changes: Mapping[str, int]) -> None:
        """Add to whole numbers of a row."""
        for name, change in changes.items():
            if name in self._borrowed:
                late = self._late.setdefault(name, {})
                late[row] = late.get(row, self._columns[name][row]) + change
            else:
                self._columns[name][row] += change

    def write(self, rows: Sequence[int], name: str, values: Iterable[Any]) -> list[int]:
        """Write an element of each of these rows; return the rows whose element has changed.

        Of a row that is named twice the last element counts.
        """
        column, none = self.own(name), unset(name)
        new = np.array([none if each is None else each for each in values], column.dtype)
        index = np.array(rows, np.int64)
        before = column[index]
        changed = before != new
        # What counts as equal stays to the bit (0.0 and -0.0), since it is not noted as a change.
        column[index] = np.where(changed, new, before)
        return list(index[changed].tolist())

    def grow(self, capacity: int) -> None:
        for name in DTYPES:
            column = self.column(name)
            more = np.full(capacity - len(column), unset(name), column.dtype)
            self._columns[name] = np.concatenate([column, more])

    def copy(self) -> "NumericColumns":
        """Return columns that can be changed without changing these."""
        for name in [*self._late]:
            self.own(name)
        return NumericColumns(self._columns.copy(), DTYPES)

    def detached(self) -> "NumericColumns":
        """Return a copy that shares no array."""
        return NumericColumns({name: self.column(name).copy() for name in DTYPES})

    def part(self, rows: Rows, changes: Mapping[str, int], times: Rows | int) -> "NumericColumns":
        """Return the columns of some rows, with the changes added as often as times says."""

        def gathered(name: str) -> Column:
            column = self.column(name)[rows]
            if name in changes:
                column += changes[name] * times
            return column

        return NumericColumns(Gathered(gathered))


class Gathered(dict[str, Any]):
    """Columns of some rows by name, each gathered when it is first read."""

    def __init__(self, gather: Callable[[str], Any]) -> None:
        super().__init__()
        self._gather = gather

    def __missing__(self, name: str) -> Any:
        found = self[name] = self._gather(name)
        return found


class EncodedColumn:
    """One small integer per row, the code of its value; code 0 is None.

    Values that no row uses any longer are dropped, so a column may change for years.
    """

    __slots__ = ("_code_of", "_free", "_keys", "_memos", "_uses", "_written", "codes", "values")

    def __init__(self, capacity: int) -> None:
        self.codes: Rows = np.zeros(capacity, np.int64)
        # By code; those of unused codes are None.
        self.values: list[Any] = [None]
        self._keys: list[Hashable] = [None]
        self._uses: list[int] = [capacity]
        self._code_of: dict[Hashable, int] = {None: UNSET}
        self._free: list[int] = []
        # Codes in the order in which they got their values; memoized results by code, with the
        # length of that list when they were computed.
        self._written: list[int] = []
        self._memos: dict[Hashable, tuple[npt.NDArray[Any], int]] = {}

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]

    def set(self, row: int, value: Any) -> None:
        """Give a row a value; equal values are stored once."""
        self.write([row], [key_of(value)], lambda _: value)

    def write(
        self, rows: Sequence[int], keys: Iterable[Hashable], make: Callable[[Any], Any]
    ) -> list[int]:
        """Give each of these rows the value of its key; return the rows whose value has changed.

        make(key) gives the values that no row has yet. Of a row that is named twice the last value
        counts.
        """
        changed = []
        for row, key in zip(rows, keys, strict=True):
            code = self._code_of.get(key)
            if code is None:
                code = self._add(make(key), key)
            # Not all at once before: a row that is named twice gives up a value of this call.
            before = self.codes.item(row)
            if code != before:
                self._uses[code] += 1
                self._release(before)
                self.codes[row] = code
                changed.append(row)
        return changed

    def memo(self, key: Hashable, function: Callable[[Any], Any], dtype: type) -> npt.NDArray[Any]:
        """Return function(value) by code; it is called once for each value.

        key stands for the function, which must depend on the value alone and take None.
        """
        found = self._memos.pop(key, None)
        if found is not None and found[1] == len(self._written):
            self._memos[key] = found
            return found[0]
        known, since = found or (np.zeros(0, dtype), 0)
        results: npt.NDArray[Any] = np.zeros(len(self.values), dtype)
        results[: len(known)] = known
        new = {*self._written[since:]} if len(known) else range(len(self.values))
        for code in new:
            results[code] = function(self.values[code])
        while len(self._memos) >= _MAX_MEMOS:
            del self._memos[next(iter(self._memos))]
        self._memos[key] = results, len(self._written)
        return results

    def part(self, rows: npt.NDArray[np.int64]) -> "EncodedColumn":
        """Return a read-only column of some rows, which shares all but the codes."""
        other = EncodedColumn.__new__(EncodedColumn)
        for name in EncodedColumn.__slots__:
            setattr(other, name, getattr(self, name))
        other.codes = self.codes[rows]
        return other

    def grow(self, capacity: int) -> None:
        self._uses[UNSET] += capacity - len(self.codes)
        self.codes = np.concatenate([self.codes, np.zeros(capacity - len(self.codes), np.int64)])

    def copy(self) -> "EncodedColumn":
        """Return a column that can be changed without changing this one; values are shared."""
        other = EncodedColumn.__new__(EncodedColumn)
        for name in EncodedColumn.__slots__:
            setattr(other, name, getattr(self, name).copy())
        other._memos = {
            key: (results.copy(), since) for key, (results, since) in self._memos.items()
        }
        return other

    def _add(self, value: Any, key: Hashable) -> int:
        if value is None:
            return UNSET
        if self._free:
            code = self._free.pop()
            self.values[code], self._keys[code] = value, key
        else:
            code = len(self.values)
            self.values.append(value)
            self._keys.append(key)
            self._uses.append(0)
        self._code_of[key] = code
        self._written.append(code)
        if len(self._written) > 1024 + 2 * len(self.values):
            # To compute all memos again costs less by now than to update them.
            self._written.clear()
            self._memos.clear()
        return code

    def _release(self, code: int) -> None:
        self._uses[code] -= 1
        if self._uses[code] == 0 and code != UNSET:
            del self._code_of[self._keys[code]]
            self.values[code] = self._keys[code] = None
            self._free.append(code)


def key_of(value: Any) -> Hashable:
    """Return the default key of a value; values with equal keys are stored once."""
    if value is None:
        return None
    try:
        hash(value)
    except TypeError:
        # Lists and dictionaries are compared by identity; they live as long as they are used.
        return ("object", id(value))
    # 1, 1.0 and True are equal, but readers distinguish them.
    return (type(value), value)


def total(numbers: Iterable[float]) -> float:
    """Return the sum of numbers, added from left to right as numpy adds columns.

    From Python 3.12 on sum() compensates for rounding, so schedulers would break ties differently
    by their release of Python.
    """
    found = 0.0
    for number in numbers:
        found += number
    return found
