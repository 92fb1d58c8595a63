# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All hosts of a decision: one numpy column per number, one encoded column per object."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inventory.promises import Promises
from scheduler.hosts.columns import (
    NUMBERS,
    OBJECTS,
    EncodedColumn,
    Gathered,
    Mask,
    NumericColumns,
    Rows,
    key_of,
)
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.hosts.limits import Limits
from scheduler.hosts.row_index import GroupCounts, InstanceIndex, RowIndex, WriteLog

Make = Callable[[Any], Any]
_OBJECTS = frozenset(OBJECTS)
_COLUMNS = (*NUMBERS, *OBJECTS)


class HostTable:
    """Hosts as rows. A row belongs to one (host, nodename) until it is removed, then to another.

    Reading a column by its name gives a read-only array with one element for each row, holes
    included (present says which rows are hosts). With numa_packing, instances with NUMA cells fill
    one cell of a host after the other. flavor_mix is what is usually asked for, as far as known.
    promises, by ids of nodes, only explain what is used.
    """

    def __init__(self) -> None:
        self.size = 0
        self.numa_packing = False
        self.flavor_mix: FlavorMix = ()
        self.promises: Mapping[int, Promises] = {}
        # To which heartbeat_age refers, on the clock of last_seen.
        self.time = 0.0
        self.limits = Limits(0)
        self.instances = InstanceIndex()
        self.candidates: Mask = np.zeros(0, np.bool_)
        self.warnings: dict[str, None] = {}
        # Of the server group of the request that is being decided.
        self.group_counts: GroupCounts | None = None
        self._numbers = NumericColumns()
        self._objects = {name: EncodedColumn(0) for name in OBJECTS}
        self._present: Mask = np.zeros(0, np.bool_)
        self.names = RowIndex()
        self._holes: list[int] = []
        # The object columns that a copy shares with the table that it was made from.
        self._shared: frozenset[str] = frozenset()
        # Nobody asks a copy what has changed.
        self._writes: WriteLog | None = WriteLog()

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self.names)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name not in NUMBERS:
            raise AttributeError(f"the table has no column of numbers called {name}")
        column = self._numbers.column(name)[: self.size]
        column.flags.writeable = False
        # Python finds it there from now on, until the column is another array.
        self.__dict__[name] = column
        return column

    @property
    def present(self) -> Mask:
        """Which rows are hosts."""
        return self._present[: self.size]

    @property
    def served(self) -> Mask:
        """Which rows are hosts with a compute service that could build an instance."""
        return np.asarray(self.present & ~self.unserved, np.bool_)

    def rows(self) -> Iterable[int]:
        """Return the rows of all hosts, in no order to rely on."""
        return self.names.rows()

    def row_of(self, host: str, nodename: str) -> int | None:
        """Return the row of a node, letter case respected."""
        return self.names.row_of(host, nodename)

    def rows_of_host(self, host: str, any_case: bool = False) -> tuple[int, ...]:
        """Return the rows of all nodes of a host."""
        return self.names.rows_of(host, any_case)

    def get(self, row: int, name: str) -> Any:
        """Return one element: a plain number (None for NaN), flag or object."""
        if name in _OBJECTS:
            return self._objects[name][row]
        return self._numbers.get(row, name)

    def set(self, row: int, name: str, value: Any) -> None:
        """Write one element."""
        if name in _OBJECTS:
            self._own_object(name).set(row, value)
        else:
            self._numbers.set(row, name, value)
        self._changed(name, (row,))

    def write(self, rows: Sequence[int], name: str, values: Iterable[Any]) -> None:
        """Write an element of each of these rows, in this order; the same value is no change."""
        if name in _OBJECTS:
            by_key = [(key_of(value), value) for value in values]
            return self.share(rows, name, [key for key, _ in by_key], dict(by_key).get)
        self._changed(name, self._numbers.write(rows, name, values))

    def add_to(self, row: int, changes: Mapping[str, int]) -> None:
        """Add to whole numbers of a row."""
        self._numbers.add_to(row, changes)
        for name in changes:
            self._changed(name, (row,))

    def add_to_rows(self, rows: Rows, changes: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add to whole numbers of several rows, each of which is named once."""
        for name, change in changes.items():
            self._numbers.own(name)[rows] += change
            self._changed(name, None)

    def nodes(self, rows: Rows) -> list[tuple[str, str]]:
        """Return (host, nodename) of each of these rows."""
        hosts, nodes = self._objects["host"], self._objects["nodename"]
        codes = zip(hosts.codes[rows].tolist(), nodes.codes[rows].tolist(), strict=True)
        return [(hosts.values[host], nodes.values[node]) for host, node in codes]

    def share(self, rows: Sequence[int], name: str, keys: Iterable[Hashable], make: Make) -> None:
        """Give each of these rows the object of its key, make(key) where no row has it yet."""
        self._changed(name, self._own_object(name).write(rows, keys, make))

    def fill(self, name: str, column: npt.NDArray[Any]) -> None:
        """Write a whole column of numbers, one element for each row."""
        self._numbers.own(name)[: self.size] = column
        self._changed(name, None)

    def set_time(self, time: float) -> None:
        """Set the time, on the clock of last_seen, to which heartbeat_age refers."""
        self.time = time
        self.fill("heartbeat_age", time - self.last_seen)

    def set_flavor_mix(self, mix: FlavorMix) -> None:
        """Set what is usually asked for; an equal mix stays the same object."""
        if mix != self.flavor_mix:
            self.flavor_mix = mix

    def encoded(self, name: str) -> tuple[list[Any], Rows]:
        """Return copies of the values of an object column, and of the code of each row."""
        column = self._objects[name]
        return column.values.copy(), column.codes[: self.size].copy()

    def codes(self, name: str) -> Rows:
        """Return integers that are equal where rows have the same value of a column."""
        if name in _OBJECTS:
            return self._objects[name].codes[: self.size]
        if name == "instances":
            codes = np.zeros(self.size, np.int64)
            occupied = [row for row in self.instances.occupied() if row < self.size]
            codes[occupied] = np.array(occupied, np.int64) + 1
            return codes
        return np.unique(getattr(self, name), return_inverse=True)[1].astype(np.int64)

    def distinct(self, name: str) -> list[Any]:
        """Return the values of an object column by code."""
        return self._objects[name].values

    def memo(
        self, name: str, key: Hashable, function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        """Return for each row function(its value of an object column), memoized under key.

        The function is called once per distinct value (None included, it must not raise), also
        over later requests as long as the value exists.
        """
        return self.spread(name, self.memo_values(name, key, function, dtype))

    def spread(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return for each row one of these values, that of its value of an object column."""
        if values.size == 1:
            return np.full(self.size, values[0])
        # For some types this is twice as fast as values[codes].
        return values.take(self._objects[name].codes[: self.size])

    def memo_values(
        self, name: str, key: Hashable, function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        """Return function(value) for each distinct value of an object column; see memo()."""
        return self._objects[name].memo(key, function, dtype)

    def rows_where(self, name: str, holds: Callable[[Any], bool]) -> Mask:
        """Return for each row whether holds(its value of an object column), called once per value.

        None is a value as well. memo() is for conditions that later requests have in common.
        """
        verdicts = np.array([holds(value) for value in self._objects[name].values], np.bool_)
        return self.spread(name, verdicts)

    @property
    def write_position(self) -> int:
        """The number of writes so far; see written_since()."""
        return 0 if self._writes is None else self._writes.position

    def written_since(
        self, position: int
    ) -> tuple[Collection[str], list[tuple[str, int, Any]]] | None:
        """Return the columns that were written as a whole, and other elements, as they are now.

        These are (column, row, value), some perhaps more than once. None is returned where it is
        not known any more what was written.
        """
        written = self._writes.since(position) if self._writes is not None else None
        if written is None:
            return None
        whole, elements = [], []
        for name, rows in written:
            if rows is None:
                whole.append(name)
            elif name in _OBJECTS:
                elements += [(name, row, self._objects[name][row]) for row in rows]
            else:
                number = self._numbers.number
                elements += [(name, row, number(row, name)) for row in rows]
        return whole, elements

    def part(
        self, rows: Rows, changes: Mapping[str, int] | None = None, times: Rows | int = 0
    ) -> "HostTable":
        """Return a read-only table of the columns of these rows.

        The changes are added to the numbers of each row as often as times says.
        """
        other = HostTable.__new__(HostTable)
        other.__dict__.update(self.__dict__)
        other.size = len(rows)
        other._forget()
        other._numbers = self._numbers.part(rows, changes or {}, times)
        other._objects = Gathered(lambda name: self._objects[name].part(rows))
        other._present = other.candidates = self._present[rows]
        other.limits = Limits(len(rows))
        if self.group_counts is not None:
            other.group_counts = self.group_counts.part(rows, times)
        return other

    def warn(self, text: str) -> None:
        """Add a warning to the decision; the same text is added once."""
        self.warnings[text] = None

    def add(self, host: str, nodename: str) -> int:
        """Return the row of a new node."""
        return self.add_each([(host, nodename)])[0]

    def add_each(self, names: Sequence[tuple[str, str]]) -> list[int]:
        """Return the rows of new nodes, given as (host, nodename)."""
        rows = [self._new_row() for _ in names]
        for name in _COLUMNS:
            self._changed(name, (*rows,))
        for row, (host, nodename) in zip(rows, names, strict=True):
            self.names.add(row, host, nodename)
        self.write(rows, "host", [host for host, _ in names])
        self.write(rows, "nodename", [nodename for _, nodename in names])
        self.limits = Limits(self.size)
        self.candidates = self.present
        return rows

    def remove(self, row: int) -> None:
        """Remove the node of a row; another node may get the row."""
        self.names.remove(self.get(row, "host"), self.get(row, "nodename"))
        for name in _COLUMNS:
            self.set(row, name, None)
        self.instances.replace(row, {})
        self._present[row] = False
        self._holes.append(row)

    def working_copy(self) -> "HostTable":
        """Return a table for one request: what it changes is copied first, the rest is shared.

        It is valid as long as this table does not change.
        """
        for name in NUMBERS - self.__dict__.keys():
            getattr(self, name)
        other = HostTable.__new__(HostTable)
        other.__dict__.update(self.__dict__)
        other._numbers = self._numbers.copy()
        other._objects = self._objects.copy()
        other._shared = _OBJECTS
        other._writes = None
        other.instances = InstanceIndex(self.instances)
        other.limits = Limits(self.size)
        other.candidates = self.present
        other.warnings = {}
        other.group_counts = None
        return other

    def detached(self) -> "HostTable":
        """Return a copy that does not change with this table; the values of columns are shared.

        It takes some milliseconds for ten thousand hosts, most of it for the distinct values.
        """
        other = self.working_copy()
        other._forget()
        other._numbers = self._numbers.detached()
        other._objects = {name: each.copy() for name, each in self._objects.items()}
        other._shared = frozenset()
        other._writes = WriteLog(self.write_position)
        other.instances = self.instances.detached()
        other.names = self.names.copy()
        other._present = self._present.copy()
        other.candidates = other.present
        other._holes = self._holes.copy()
        return other

    def _new_row(self) -> int:
        if self._holes:
            row = self._holes.pop()
        else:
            row = self.size
            if row == len(self._present):
                self._grow(max(16, row + row // 2) if row else 1)
            self.size += 1
            self._forget()
        self._present[row] = True
        return row

    def _own_object(self, name: str) -> EncodedColumn:
        if name in self._shared:
            self._objects[name] = self._objects[name].copy()
            self._shared -= {name}
        return self._objects[name]

    def _forget(self) -> None:
        """Read all columns anew, since the table has another size."""
        for name in NUMBERS:
            self.__dict__.pop(name, None)

    def _changed(self, name: str, rows: Collection[int] | None) -> None:
        """Count the writes of some rows of a column, None for all."""
        if self._writes is None:
            # A copy has another array from now on.
            self.__dict__.pop(name, None)
        else:
            self._writes.note(name, rows)

    def _grow(self, capacity: int) -> None:
        self._numbers.grow(capacity)
        for objects in self._objects.values():
            objects.grow(capacity)
        self._present = np.concatenate(
            [self._present, np.zeros(capacity - len(self._present), np.bool_)]
        )
