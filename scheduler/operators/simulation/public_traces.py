# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traces that others have published, in the formats in which they are published.

Azure's for packing (2020): VMs with their types, in shares of a machine and in days. Alibaba's of
GPU clusters (2023, openb): pods, in thousandths of a CPU, MiB and seconds, here without their GPUs.
Google's of Borg cells (2019, instance_events): events of tasks, in shares of the largest machine
and in microseconds, here without those that run in what others have reserved.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeVar

from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.simulation.arrival import FOREVER, Arrival, TraceError, make_arrival
from scheduler.operators.simulation.trace_rows import Row, make_spec, number, whole

_T = TypeVar("_T")
_Texts = Mapping[str, str]
# In seconds.
_DAY, _MICROSECOND = 86_400.0, 1e-6
# What is less than this above a whole number is that number.
_TINY = 1e-6
# A share of more machines than this is none.
_MOST = 1000.0
# Events with which a task ends, by number and by name. One that is evicted may be submitted again.
_ENDS = frozenset(["4", "5", "6", "7", "8", "EVICT", "FAIL", "FINISH", "KILL", "LOST"])


# Columns of VMs, each with what its type takes.
AZURE = ("vmTypeId", "tenantId", "starttime", "endtime", "core", "memory", "hdd", "ssd")


class Machine(NamedTuple):
    """What 1 is in traces that measure in shares of a machine."""

    vcpus: int
    memory_mb: int
    disk_gb: int


class _Stay(NamedTuple):
    """What is asked for, and from when to when it is there, in seconds."""

    time: float
    end: float
    spec: RequestSpec


_Read = Callable[[Iterable[Row], Machine | None], Iterable[_Stay]]


def is_public(names: Collection[str]) -> bool:
    return _format(names) is not None


def read_public(
    names: Collection[str], rows: Iterable[Row], machine: Machine | None
) -> Iterator[Arrival]:
    """Yield the arrivals of a trace with these columns, in order; raises TraceError."""
    read = _format(names)
    assert read is not None
    for index, each in enumerate(sorted(read(rows, machine), key=attrgetter("time"))):
        yield make_arrival(each.time, each.spec, index, lifetime=each.end - each.time)


def azure_rows(types: Iterable[_Texts], vms: Iterable[_Texts]) -> Iterator[Row]:
    """Yield Azure's VMs with what their types take of a machine.

    A type takes other shares of other generations of machines: here, of that to which most types
    are mapped, or else of the first.
    """
    rows = [*types]
    usual = Counter(each["machineId"] for each in rows)
    sizes: dict[str, _Texts] = {}
    for each in sorted(rows, key=lambda each: (-usual[each["machineId"]], each["machineId"])):
        sizes.setdefault(each["vmTypeId"], each)
    for index, vm in enumerate(vms, 1):
        if (size := sizes.get(vm["vmTypeId"])) is None:
            raise TraceError(f"VM {index}: there is no type {vm['vmTypeId']!r}")
        yield Row(f"VM {index}", {**size, **vm})


def _azure(rows: Iterable[Row], machine: Machine | None) -> Iterator[_Stay]:
    return _each(rows, partial(_azure_vm, _known(machine)))


def _azure_vm(machine: Machine, row: _Texts) -> _Stay:
    vcpus, memory_mb = _shares(row, core=machine.vcpus, memory=machine.memory_mb)
    disk_gb = max(_shares(row, hdd=machine.disk_gb, ssd=machine.disk_gb))
    spec = make_spec(vcpus, memory_mb, disk_gb, project=row.get("tenantId") or None)
    return _stay(_time(row, "starttime", _DAY), number(row, "endtime"), _DAY, spec)


def _openb(rows: Iterable[Row], _: Machine | None) -> Iterator[_Stay]:
    return _each(rows, _openb_pod)


def _openb_pod(row: _Texts) -> _Stay:
    spec = make_spec(-(-whole(row, "cpu_milli") // 1000), whole(row, "memory_mib"))
    return _stay(_time(row, "creation_time"), number(row, "deletion_time"), 1.0, spec)


def _google(rows: Iterable[Row], machine: Machine | None) -> Iterator[_Stay]:
    tasks: dict[tuple[str, str], _Task] = {}
    for _ in _each(rows, partial(_google_event, _known(machine), tasks)):
        pass
    for task in tasks.values():
        # Of some nothing is known but that they end.
        if task.spec is not None:
            yield _Stay(task.first, task.last if task.is_over else FOREVER, task.spec)


@dataclass(slots=True)
class _Task:
    """The times of a task's first and last event, and what it asks for, as far as seen."""

    first: float = math.inf
    last: float = -math.inf
    is_over: bool = False
    spec: RequestSpec | None = None


def _google_event(machine: Machine, tasks: dict[tuple[str, str], _Task], row: _Texts) -> None:
    if (row.get("alloc_collection_id") or "0") != "0":
        return
    key = row.get("collection_id", ""), row.get("instance_index", "")
    task, time = tasks.setdefault(key, _Task()), _time(row, "time", _MICROSECOND)
    task.first = min(task.first, time)
    # They come in any order; of two at a time the later one in the file counts.
    if time >= task.last:
        task.last, task.is_over = time, row.get("type") in _ENDS
    cpus, memory = "resource_request.cpus", "resource_request.memory"
    vcpus, memory_mb = _shares(row, **{cpus: machine.vcpus, memory: machine.memory_mb})
    if vcpus or memory_mb:
        task.spec = make_spec(vcpus, memory_mb)


_FORMATS: Mapping[tuple[str, ...], _Read] = {
    AZURE: _azure,
    ("cpu_milli", "memory_mib", "creation_time", "deletion_time"): _openb,
    ("time", "type", "collection_id", "instance_index"): _google,
}


def _format(names: Collection[str]) -> _Read | None:
    return next((read for columns, read in _FORMATS.items() if {*columns} <= {*names}), None)


def lacking(names: Collection[str]) -> str:
    """Return of which public trace these are columns, without the ones that it needs; else ""."""
    for columns in _FORMATS:
        missing = [each for each in columns if each not in names]
        if len(missing) <= len(columns) / 2:
            there = ", ".join(each for each in columns if each in names)
            return (
                f"it has the columns {there} of a public trace and no {' and no '.join(missing)}:"
                " take a file of that trace that has them"
            )
    return ""


def _each(rows: Iterable[Row], read: Callable[[_Texts], _T]) -> Iterator[_T]:
    for place, values in rows:
        try:
            found = read(values)
        except ValueError as error:
            raise TraceError(f"{place}: {error}") from None
        yield found


def _known(machine: Machine | None) -> Machine:
    if machine is None:
        raise TraceError(
            "its sizes are shares of a machine: say with --machine what a whole machine has"
        )
    return machine


def _shares(row: _Texts, **totals: int) -> list[int]:
    """Return shares of what a machine has, in whole units; none where there is nothing."""
    found = []
    for name, total in totals.items():
        value = number(row, name) or 0.0
        if not 0 <= value <= _MOST:
            raise ValueError(f"{name} is {value:g}, not a share of a machine")
        found.append(math.ceil(value * total - _TINY))
    return found


def _time(row: _Texts, name: str, unit: float = 1.0) -> float:
    time = number(row, name)
    if time is None:
        raise ValueError(f"there is no {name}")
    return time * unit


def _stay(time: float, end: float | None, unit: float, spec: RequestSpec) -> _Stay:
    end = FOREVER if end is None else end * unit
    if end < time:
        raise ValueError("it ends before it begins")
    return _Stay(time, end, spec)
