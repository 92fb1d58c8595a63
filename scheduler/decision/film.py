# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a table of hosts looked like at each decision, so that it can be decided again.

A film is one whole picture of the table, followed by what had changed in each further one: that is
a few elements, where the whole of ten thousand hosts takes as long to copy as to decide.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.decision.columns import DTYPES, NUMBERS, OBJECTS, unset
from scheduler.decision.host_table import HostTable
from scheduler.objects.instance import Instance

# The age of heartbeats is made of the moment of a frame and of when hosts were last seen.
COLUMNS = tuple(sorted((NUMBERS | {*OBJECTS}) - {"heartbeat_age"}))
# Of a film; to see the last one again all before it are to be read.
MOST_FRAMES = 2048

Rows = Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """The elements that a column has in some rows, None for all."""

    rows: Rows | None
    values: Any


@dataclass(frozen=True, slots=True)
class Frame:
    """What has changed in a table since the frame before it; number 0 is the whole of it.

    reel says which film it belongs to, of all that were begun. columns are those of the table by
    name, residents the instances by uuid of each row. moment is when it was, on the clock of the
    column last_seen.
    """

    reel: int
    number: int
    size: int
    moment: float
    numa_packing: bool = False
    columns: Mapping[str, Part] = field(default_factory=dict)
    residents: Mapping[int, Mapping[str, Instance]] = field(default_factory=dict)


class Film:
    """Takes the frames of one table. It must be locked meanwhile; frames are on their own then."""

    def __init__(self) -> None:
        self._reel = 0
        self._number = -1
        self._positions: tuple[int, ...] = ()
        self._residents = 0
        self._wishes = self._granted = 0

    def begin_anew(self) -> None:
        """Let the next frame be the first of another film. No lock is needed for that."""
        self._wishes += 1

    def take(self, hosts: HostTable) -> Frame:
        """Return the frame of how the table is now."""
        wishes = self._wishes
        is_first = self._number < 0 or self._number + 1 >= MOST_FRAMES or wishes != self._granted
        self._granted = wishes
        self._number = 0 if is_first else self._number + 1
        self._reel += is_first
        positions = hosts.positions(COLUMNS)
        if is_first:
            columns = {name: _whole(hosts, name) for name in COLUMNS}
        else:
            columns = {
                name: _part(hosts, name, before)
                for name, before, now in zip(COLUMNS, self._positions, positions, strict=True)
                if before != now
            }
        self._positions = positions
        residents = self._taken_residents(hosts, is_first)
        return Frame(
            self._reel,
            self._number,
            hosts.size,
            hosts.moment,
            hosts.numa_packing,
            columns,
            residents,
        )

    def _taken_residents(
        self, hosts: HostTable, is_first: bool
    ) -> dict[int, Mapping[str, Instance]]:
        journal, since = hosts.residents.journal, self._residents
        self._residents = journal.position
        rows = None if is_first else journal.since(since)
        if rows is None:
            rows = [*range(hosts.size)]
        return {row: hosts.residents.on(row) for row in rows}


def _whole(hosts: HostTable, name: str) -> Part:
    if name in NUMBERS:
        return Part(None, getattr(hosts, name).copy())
    return Part(None, hosts.objects_of(name))


def _part(hosts: HostTable, name: str, position: int) -> Part:
    rows = hosts.written_in(name, position)
    if rows is None:
        return _whole(hosts, name)
    return Part(rows, [hosts.get(row, name) for row in rows])


def last_picture(frames: Iterable[Frame]) -> HostTable:
    """Return the table as it was at the last of these frames, of which the first is number 0.

    Raises ValueError where frames are missing.
    """
    reel = _Reel()
    for frame in frames:
        reel.show(frame)
    return reel.table()


def _empty(name: str, size: int) -> npt.NDArray[Any]:
    return np.full(size, unset(name) if name in NUMBERS else None, DTYPES.get(name, object))


class _Reel:
    """The frames of a film laid on one another."""

    def __init__(self) -> None:
        self._columns = {name: _empty(name, 0) for name in COLUMNS}
        self._residents: dict[int, Mapping[str, Instance]] = {}
        self._last: Frame | None = None

    def show(self, frame: Frame) -> None:
        expected = self._last.number + 1 if self._last else 0
        if frame.number != expected:
            raise ValueError(f"frame {expected} of the film is missing, {frame.number} is there")
        if self._last is not None and self._last.reel != frame.reel:
            raise ValueError(f"frame {frame.number} is of another film")
        if self._last is not None and self._last.size > frame.size:
            raise ValueError(f"frame {frame.number} has fewer rows than the one before it")
        self._last = frame
        for name in COLUMNS:
            self._grow(name, frame.size)
        for name, part in frame.columns.items():
            column = self._columns[name]
            none = unset(name) if name in NUMBERS else None
            values = part.values
            if isinstance(values, np.ndarray):
                column[: frame.size] = values
                continue
            values = [none if each is None else each for each in values]
            rows = range(frame.size) if part.rows is None else part.rows
            for row, value in zip(rows, values, strict=True):
                column[row] = value
        self._residents.update(frame.residents)

    def _grow(self, name: str, size: int) -> None:
        column = self._columns[name]
        if len(column) < size:
            self._columns[name] = _empty(name, size)
            self._columns[name][: len(column)] = column

    def table(self) -> HostTable:
        if self._last is None:
            raise ValueError("the film is empty")
        hosts = HostTable()
        hosts.numa_packing = self._last.numa_packing
        # The rows stay where they are, those without a host too: among equal ones rows decide.
        rows = hosts.add_each(self._names())
        for name in COLUMNS:
            if name in NUMBERS:
                hosts.fill(name, self._columns[name])
            elif name not in ("host", "nodename"):
                hosts.write(rows, name, self._columns[name])
        for row, instances in self._residents.items():
            hosts.residents.replace(row, instances)
        for row, host in enumerate(self._columns["host"]):
            if host is None:
                hosts.remove(row)
        hosts.set_moment(self._last.moment)
        return hosts

    def _names(self) -> list[tuple[str, str]]:
        """Return (host, node) of each row, and what no host is called for those without one."""
        columns = zip(self._columns["host"], self._columns["nodename"], strict=True)
        names = [
            (f"\0{row}", "") if host is None else (host, node)
            for row, (host, node) in enumerate(columns)
        ]
        if len({*names}) < len(names):
            raise ValueError("two rows are of the same node")
        return names
