# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The state of the host table at each decision, so that the decision can be made again.

A log begins with a snapshot of the whole table; each further one holds the changes since the one
before it. These are few, while to copy ten thousand hosts takes as long as to decide.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.hosts.columns import DTYPES, ELEMENTS, NUMBERS, OBJECTS, Column, unset
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

# heartbeat_age follows from last_seen and the time of a snapshot.
COLUMNS = tuple(sorted((NUMBERS | {*OBJECTS}) - {"heartbeat_age"}))
# The length of a log: to restore its last snapshot all before it have to be read.
MAX_SNAPSHOTS = 2048


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The elements of a column in some rows, None for all rows."""

    rows: Sequence[int] | None
    values: Any


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What has changed in a table since the snapshot before; number 0 has the whole table.

    instances are those of each changed row by uuid, time is on the clock of the column last_seen.
    flavor_mix is None where it has not changed.
    """

    log_id: int
    number: int
    size: int
    time: float
    numa_packing: bool = False
    columns: Mapping[str, ColumnChange] = field(default_factory=dict)
    instances: Mapping[int, Mapping[str, Instance]] = field(default_factory=dict)
    flavor_mix: FlavorMix | None = None


class SnapshotLog:
    """Takes the snapshots of one table, which must be locked only meanwhile."""

    def __init__(self) -> None:
        self._log_id = 0
        self._number = -1
        self._positions: tuple[int, ...] = ()
        self._instances_position = 0
        self._flavor_mix: FlavorMix = ()
        self._restarts_requested = self._restarts_done = 0

    def restart(self) -> None:
        """Begin another log with the next snapshot. No lock is needed."""
        self._restarts_requested += 1

    def take(self, hosts: HostTable) -> Snapshot:
        """Return a snapshot of the table as it is now."""
        requested = self._restarts_requested
        is_first = not 0 <= self._number < MAX_SNAPSHOTS - 1 or requested != self._restarts_done
        self._restarts_done = requested
        self._number = 0 if is_first else self._number + 1
        self._log_id += is_first
        before, self._positions = self._positions, hosts.positions(COLUMNS)
        if is_first:
            columns = {name: _whole(hosts, name) for name in COLUMNS}
        else:
            columns = {
                name: _change(hosts, name, since)
                for name, since, now in zip(COLUMNS, before, self._positions, strict=True)
                if since != now
            }
        mix_before, self._flavor_mix = self._flavor_mix, hosts.flavor_mix
        return Snapshot(
            self._log_id,
            self._number,
            hosts.size,
            hosts.time,
            hosts.numa_packing,
            columns,
            self._changed_instances(hosts, is_first),
            hosts.flavor_mix if is_first or hosts.flavor_mix != mix_before else None,
        )

    def _changed_instances(
        self, hosts: HostTable, is_first: bool
    ) -> dict[int, Mapping[str, Instance]]:
        changes, since = hosts.instances.changes, self._instances_position
        self._instances_position = changes.position
        written = None if is_first else changes.since(since)
        rows = range(hosts.size) if written is None else written
        return {row: hosts.instances.on(row) for row in rows}


def _whole(hosts: HostTable, name: str) -> ColumnChange:
    if name in NUMBERS:
        return ColumnChange(None, getattr(hosts, name).astype(ELEMENTS[name]))
    return ColumnChange(None, hosts.objects_of(name))


def _change(hosts: HostTable, name: str, position: int) -> ColumnChange:
    rows = hosts.written_since(name, position)
    if rows is None:
        return _whole(hosts, name)
    return ColumnChange(rows, [hosts.get(row, name) for row in rows])


def restore(snapshots: Iterable[Snapshot]) -> HostTable:
    """Return the table as of the last of these snapshots, the first of which is number 0.

    Raise ValueError where any are missing.
    """
    columns = {name: _empty(name, 0) for name in COLUMNS}
    instances: dict[int, Mapping[str, Instance]] = {}
    flavor_mix: FlavorMix = ()
    last: Snapshot | None = None
    for each in snapshots:
        _check_order(last, each)
        for name in COLUMNS:
            _apply(columns, name, each)
        instances.update(each.instances)
        flavor_mix = flavor_mix if each.flavor_mix is None else each.flavor_mix
        last = each
    if last is None:
        raise ValueError("the log has no snapshots")
    hosts = _table(columns, instances, last)
    hosts.set_flavor_mix(flavor_mix)
    return hosts


def _empty(name: str, size: int) -> Column:
    return np.full(size, unset(name) if name in NUMBERS else None, DTYPES.get(name, object))


def _check_order(before: Snapshot | None, snapshot: Snapshot) -> None:
    expected = before.number + 1 if before else 0
    if snapshot.number != expected:
        raise ValueError(f"snapshot {expected} is missing, the next one is {snapshot.number}")
    if before is not None and before.log_id != snapshot.log_id:
        raise ValueError(f"snapshot {snapshot.number} is of another log")
    if before is not None and before.size > snapshot.size:
        raise ValueError(f"snapshot {snapshot.number} has fewer rows than the one before it")


def _apply(columns: dict[str, Column], name: str, snapshot: Snapshot) -> None:
    """Apply what a snapshot says about a column."""
    if len(columns[name]) < snapshot.size:
        more = _empty(name, snapshot.size - len(columns[name]))
        columns[name] = np.concatenate([columns[name], more])
    change = snapshot.columns.get(name)
    if change is None:
        return
    column, none = columns[name], unset(name) if name in NUMBERS else None
    if isinstance(change.values, np.ndarray):
        column[: snapshot.size] = change.values
        return
    rows = range(snapshot.size) if change.rows is None else change.rows
    for row, value in zip(rows, change.values, strict=True):
        column[row] = none if value is None else value


def _table(
    columns: Mapping[str, Column], instances: Mapping[int, Mapping[str, Instance]], last: Snapshot
) -> HostTable:
    hosts = HostTable()
    hosts.numa_packing = last.numa_packing
    names = [
        # A row without a host needs a name that no host has.
        (f"\0{row}", "") if host is None else (host, node)
        for row, (host, node) in enumerate(zip(columns["host"], columns["nodename"], strict=True))
    ]
    if len({*names}) < len(names):
        raise ValueError("two rows are of the same node")
    # All rows keep their places, also without a host: of equal hosts the first row wins.
    rows = hosts.add_each(names)
    for name in COLUMNS:
        if name in NUMBERS:
            hosts.fill(name, columns[name])
        elif name not in ("host", "nodename"):
            hosts.write(rows, name, columns[name])
    for row, here in instances.items():
        hosts.instances.replace(row, here)
    for row, host in enumerate(columns["host"]):
        if host is None:
            hosts.remove(row)
    hosts.set_time(last.time)
    return hosts
