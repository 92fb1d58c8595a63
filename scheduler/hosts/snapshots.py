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

from scheduler.hosts.columns import DTYPES, ELEMENTS, NUMBERS, OBJECTS, Column, Rows, unset
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

# heartbeat_age follows from last_seen and the time of a snapshot.
COLUMNS = tuple(sorted((NUMBERS | {*OBJECTS}) - {"heartbeat_age"}))
_COLUMNS = frozenset(COLUMNS)
# The length of a log: to restore its last snapshot all before it have to be read.
MAX_SNAPSHOTS = 2048
# A column, a row, and the value there.
Element = tuple[str, int, Any]


# These are not frozen, since each request has some of them: see scheduler.decision.types.
@dataclass(slots=True)
class EncodedValues:
    """A whole column of objects: its values, and for each row the index of one."""

    values: Sequence[Any]
    codes: Rows

    def __iter__(self) -> Any:
        return (self.values[code] for code in self.codes.tolist())

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(slots=True)
class Snapshot:
    """What has changed in a table since the snapshot before; number 0 has the whole table.

    columns are those that were written as a whole, arrays of numbers or EncodedValues; elements are
    others. instances are those of rows by uuid, instance_changes those that are new on a row, None
    for one that is gone. time is on the clock of the column last_seen. flavor_mix is None where it
    has not changed.
    """

    log_id: int
    number: int
    size: int
    time: float
    numa_packing: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    elements: Sequence[Element] = field(default_factory=list)
    instances: Mapping[int, Mapping[str, Instance]] = field(default_factory=dict)
    flavor_mix: FlavorMix | None = None
    instance_changes: Mapping[int, Mapping[str, Instance | None]] = field(default_factory=dict)


class SnapshotLog:
    """Takes the snapshots of one table, which must be locked only meanwhile."""

    def __init__(self) -> None:
        self._log_id = 0
        self._number = -1
        self._position = self._instances_position = 0
        # As of the last snapshot; a mapping is replaced when the instances of its row change.
        self._instances: dict[int, Mapping[str, Instance]] = {}
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
        written = None if is_first else hosts.written_since(self._position)
        self._position = hosts.write_position
        whole, elements = ({*COLUMNS}, []) if written is None else written
        mix_before, self._flavor_mix = self._flavor_mix, hosts.flavor_mix
        mix_is_new = is_first or self._flavor_mix is not mix_before
        found = Snapshot(
            self._log_id,
            self._number,
            hosts.size,
            hosts.time,
            hosts.numa_packing,
            {name: _whole(hosts, name) for name in COLUMNS if name in whole} if whole else {},
            elements,
            flavor_mix=self._flavor_mix if mix_is_new else None,
        )
        changes, since = hosts.instances.changes, self._instances_position
        if is_first or changes.position != since:
            self._instances_position = changes.position
            self._take_instances(hosts, found, None if is_first else changes.since(since))
        return found

    def _take_instances(
        self, hosts: HostTable, snapshot: Snapshot, written: Iterable[int] | None
    ) -> None:
        """Take the instances of the rows that were written, of all rows where that is unknown."""
        if written is None:
            self._instances = {row: hosts.instances.on(row) for row in range(hosts.size)}
            snapshot.instances = self._instances.copy()
            return
        whole, changes = {}, {}
        for row in {*written}:
            before, now = self._instances.get(row, {}), hosts.instances.on(row)
            self._instances[row] = now
            change = _instance_changes(before, now)
            if change is None:
                whole[row] = now
            else:
                changes[row] = change
        snapshot.instances, snapshot.instance_changes = whole, changes


def _instance_changes(
    before: Mapping[str, Instance], now: Mapping[str, Instance]
) -> dict[str, Instance | None] | None:
    """Return what makes the one of the other, None where that would give another order."""
    changes: dict[str, Instance | None] = dict.fromkeys(before.keys() - now.keys())
    changes |= {uuid: each for uuid, each in now.items() if before.get(uuid) is not each}
    return changes if [*_with_changes(before, changes)] == [*now] else None


def _with_changes(
    before: Mapping[str, Instance], changes: Mapping[str, Instance | None]
) -> dict[str, Instance]:
    found = {uuid: each for uuid, each in before.items() if changes.get(uuid, each) is not None}
    return found | {uuid: each for uuid, each in changes.items() if each is not None}


def _whole(hosts: HostTable, name: str) -> Any:
    if name in NUMBERS:
        return getattr(hosts, name).astype(ELEMENTS[name])
    return EncodedValues(*hosts.encoded(name))


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
        for name, row, value in each.elements:
            if name in _COLUMNS:
                columns[name][row] = unset(name) if value is None and name in NUMBERS else value
        instances.update(each.instances)
        for row, changes in each.instance_changes.items():
            instances[row] = _with_changes(instances.get(row, {}), changes)
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
    """Apply what a snapshot says about a whole column."""
    if len(columns[name]) < snapshot.size:
        more = _empty(name, snapshot.size - len(columns[name]))
        columns[name] = np.concatenate([columns[name], more])
    values = snapshot.columns.get(name)
    if isinstance(values, np.ndarray):
        columns[name][: snapshot.size] = values
    elif values is not None:
        for row, value in zip(range(snapshot.size), values, strict=True):
            columns[name][row] = value


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
