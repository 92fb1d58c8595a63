# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All hosts of a decision: one numpy column per number, one interned column per object."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.host_names import HostNames
from scheduler.decision.interned import Interned, key_of
from scheduler.decision.journal import Journal
from scheduler.decision.limits import Limits
from scheduler.decision.membership import Membership
from scheduler.decision.numbers import Numbers
from scheduler.decision.remembered import Remembered
from scheduler.decision.residents import Residents

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]
Make = Callable[[Any], Any]


class HostTable:
    """Hosts as rows. A row belongs to one (host, nodename) until it is removed, then to another.

    Reading a column by its name gives a read-only array with one element for each row, holes
    included (present says which rows are hosts). set() writes one element.

    numa_packing says that guests with NUMA cells fill one cell of a host after the other.
    """

    def __init__(self) -> None:
        self.size = 0
        self.numa_packing = False
        # On the clock of last_seen: when heartbeat_age was what it is.
        self.moment = 0.0
        self.limits = Limits(0)
        self.residents = Residents()
        self.candidates: Mask = np.zeros(0, np.bool_)
        self.warnings: dict[str, None] = {}
        # Of the group of the request that is being decided.
        self.membership: Membership | None = None
        self._numbers = Numbers()
        self._objects = {name: Interned(0) for name in OBJECTS}
        self._present: Mask = np.zeros(0, np.bool_)
        self.names = HostNames()
        self._holes: list[int] = []
        self._borrowed: set[str] = set()
        self._journals = {name: Journal() for name in (*NUMBERS, *OBJECTS)}
        self.remembered = Remembered()

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self.names)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name not in NUMBERS:
            raise AttributeError(f"the table has no column of numbers called {name}")
        column = self._numbers.column(name)[: self.size]
        column.flags.writeable = False
        return column

    @property
    def present(self) -> Mask:
        """Which rows are hosts."""
        return self._present[: self.size]

    @property
    def served(self) -> Mask:
        """Which rows are hosts with a compute service, which could build an instance."""
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
        if name in self._objects:
            return self._objects[name][row]
        return self._numbers.get(row, name)

    def set(self, row: int, name: str, value: Any, key: Hashable = None) -> None:
        """Write one element; of objects, equal keys share one value (see Interned.set)."""
        if name in self._objects:
            self._own_object(name).set(row, value, key)
        else:
            self._numbers.set(row, name, value)
        self._journal(name).note(row)

    def write(self, rows: Sequence[int], name: str, values: Iterable[Any]) -> None:
        """Write an element of each of these rows; where it is the same already nothing happens."""
        if name in self._objects:
            by_key = [(key_of(value), value) for value in values]
            return self.share(rows, name, [key for key, _ in by_key], dict(by_key).get)
        changed = self._numbers.write(rows, name, values)
        self._journal(name).note_each(changed)

    def share(self, rows: Sequence[int], name: str, keys: Iterable[Hashable], make: Make) -> None:
        """Give each of these rows the object of its key: make(key), unless a row has it already."""
        changed = self._own_object(name).write(rows, keys, make)
        self._journal(name).note_each(changed)

    def fill(self, name: str, column: npt.NDArray[Any]) -> None:
        """Write a whole column of numbers, one element for each row."""
        self._numbers.own(name)[: self.size] = column
        self._journal(name).note_all()

    def set_moment(self, moment: float) -> None:
        """Say when it is, on the clock of last_seen: heartbeats are so old then."""
        self.moment = moment
        self.fill("heartbeat_age", moment - self.last_seen)

    def objects_of(self, name: str) -> list[Any]:
        """Return an object column as a list with an element for each row."""
        column = self._objects[name]
        values = column.values()
        return [values[code] for code in column.codes[: self.size].tolist()]

    def written_in(self, name: str, position: int) -> Sequence[int] | None:
        """Return the rows in which a column was written, None where that is unknown."""
        rows = self._journals[name].since(position)
        return None if rows is None else sorted({*rows})

    def codes(self, name: str) -> Codes:
        """Return integers that are equal exactly where rows have the same value of a column."""
        if name in self._objects:
            return self._objects[name].codes[: self.size].astype(np.int64)
        if name == "instances":
            codes = np.zeros(self.size, np.int64)
            occupied = [row for row in self.residents.occupied() if row < self.size]
            codes[occupied] = np.array(occupied, np.int64) + 1
            return codes
        return np.unique(getattr(self, name), return_inverse=True)[1].astype(np.int64)

    def distinct(self, name: str) -> list[Any]:
        """Return the values of an object column by code."""
        return self._objects[name].values()

    def derived(
        self, name: str, key: Hashable, function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        """Return for each row function(its value of an object column), remembered under key.

        The function is asked once per distinct value (None included, it must not raise), and not
        again by later requests as long as the value is there.
        """
        values = self.derived_values(name, key, function, dtype)
        return values[self._objects[name].codes[: self.size]]

    def derived_values(
        self, name: str, key: Hashable, function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        """Return function(value) for each distinct value of an object column; see derived()."""
        column = self._objects[name]
        return column.derived(key, function, dtype)[: len(column.values())]

    def positions(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return how often each of these columns was written; see written_since()."""
        return tuple([self._journals[name].position for name in columns])

    def written_since(
        self, columns: Iterable[str], positions: Iterable[int]
    ) -> npt.NDArray[np.int64] | None:
        """Return the rows in which any of these columns was written, None where that is unknown."""
        rows: set[int] = set()
        for name, position in zip(columns, positions, strict=True):
            written = self._journals[name].since(position)
            if written is None:
                return None
            rows.update(written)
        return np.array(sorted(rows), np.int64)

    def owns(self, columns: Iterable[str]) -> bool:
        """Return whether this is a copy that has changed one of these columns itself."""
        return not self._borrowed.issuperset(columns)

    def part(
        self,
        rows: Codes,
        columns: Iterable[str],
        changes: Mapping[str, int] | None = None,
        times: Codes | int = 0,
    ) -> "HostTable":
        """Return a table of these rows with these columns and names, to be read only.

        Each row is as it would be after so many times these changes of its numbers.
        """
        other = HostTable.__new__(HostTable)
        other.__dict__.update(self.__dict__)
        other.size = len(rows)
        wanted = {*columns, "host", "nodename"}
        other._numbers = self._numbers.part(rows, wanted, changes or {}, times)
        other._objects = {
            name: each.part(rows) for name, each in self._objects.items() if name in wanted
        }
        other._present = other.candidates = self._present[rows]
        other.limits = Limits(len(rows))
        if self.membership is not None:
            other.membership = self.membership.part(rows, times)
        return other

    def warn(self, text: str) -> None:
        """Keep a warning for whoever reads the decision; the same one is kept once."""
        self.warnings[text] = None

    def add(self, host: str, nodename: str) -> int:
        """Return the row of a new node."""
        return self.add_each([(host, nodename)])[0]

    def add_each(self, names: Sequence[tuple[str, str]]) -> list[int]:
        """Return the rows of new nodes, given as (host, nodename)."""
        rows = [self._new_row() for _ in names]
        for journal in self._journals.values():
            journal.note_each(rows)
        for row, (host, nodename) in zip(rows, names, strict=True):
            self.names.add(row, host, nodename)
        self.write(rows, "host", [host for host, _ in names])
        self.write(rows, "nodename", [nodename for _, nodename in names])
        self.limits = Limits(self.size)
        self.candidates = self.present
        return rows

    def remove(self, row: int) -> None:
        """Forget the node of a row; the row is used again for another one."""
        self.names.remove(self.get(row, "host"), self.get(row, "nodename"))
        for name in (*NUMBERS, *OBJECTS):
            self.set(row, name, None)
        self.residents.replace(row, {})
        self._present[row] = False
        self._holes.append(row)

    def working_copy(self) -> "HostTable":
        """Return a table for one request: what it changes is copied first, the rest is shared.

        It holds as long as this table is not changed itself.
        """
        other = HostTable.__new__(HostTable)
        other.__dict__.update(self.__dict__)
        other._numbers = self._numbers.copy()
        other._objects = self._objects.copy()
        other._borrowed = {*NUMBERS, *OBJECTS}
        other.residents = self.residents.copy()
        other.limits = Limits(self.size)
        other.candidates = self.present
        other.warnings = {}
        other.membership = None
        other._journals = self._journals.copy()
        # What a copy has changed is its own, and none of the table that it was made from.
        changed = bool(self._borrowed) and self.owns(self._journals)
        other.remembered = Remembered() if changed else self.remembered.copy()
        return other

    def detached(self) -> "HostTable":
        """Return a table of its own, which stays as it is when this one is changed.

        It takes some milliseconds for ten thousand hosts, most of it for the distinct values. What
        columns hold is shared, as it never changes.
        """
        other = self.working_copy()
        other._numbers = self._numbers.detached()
        other._objects = {name: each.copy() for name, each in self._objects.items()}
        other._borrowed = set()
        other._journals = {name: Journal(each.position) for name, each in self._journals.items()}
        other.residents = self.residents.detached()
        other.names = self.names.copy()
        other._present = self._present.copy()
        other.candidates = other.present
        other._holes = self._holes.copy()
        other.remembered = Remembered()
        return other

    def _new_row(self) -> int:
        if self._holes:
            row = self._holes.pop()
        else:
            row = self.size
            if row == len(self._present):
                self._grow(max(16, row + row // 2) if row else 1)
            self.size += 1
        self._present[row] = True
        return row

    def _own_object(self, name: str) -> Interned:
        if name in self._borrowed:
            self._objects[name] = self._objects[name].copy()
            self._journal(name)
        return self._objects[name]

    def _journal(self, name: str) -> Journal:
        """Return the journal of a column that is this table's own from now on."""
        if name in self._borrowed:
            self._journals[name] = Journal(self._journals[name].position)
            self._borrowed.discard(name)
        return self._journals[name]

    def _grow(self, capacity: int) -> None:
        self._numbers.grow(capacity)
        for objects in self._objects.values():
            objects.grow(capacity)
        self._present = np.concatenate(
            [self._present, np.zeros(capacity - len(self._present), np.bool_)]
        )
