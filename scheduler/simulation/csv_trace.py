# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traces as CSV: a line with the names of the columns, then a line for each arrival.

time (seconds, from any start, never falling), vcpus and memory_mb are there; disk_gb, lifetime
(seconds; empty for an instance that stays), instances, flavor, project and availability_zone may
be.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping

from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.simulation.arrival import FOREVER, Arrival, TraceError, make_arrival

REQUIRED = ("time", "vcpus", "memory_mb")
OPTIONAL = ("disk_gb", "lifetime", "instances", "flavor", "project", "availability_zone")
# Of a size, in any of its units.
MAX_SIZE = 2**31 - 1
MAX_INSTANCES = 10_000


def read_csv(lines: Iterable[str]) -> Iterator[Arrival]:
    """Yield the arrivals of a trace; raises TraceError, which names the line."""
    reader = csv.DictReader(lines, restkey="", strict=True)
    try:
        names = [(name or "").strip() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise TraceError(f"line 1: {error}") from None
    if missing := [name for name in REQUIRED if name not in names]:
        raise TraceError(
            f"line 1 names no column {', '.join(missing)}; it must name {', '.join(REQUIRED)} and"
            f" may name {', '.join(OPTIONAL)}"
        )
    if unknown := [name for name in names if name not in (*REQUIRED, *OPTIONAL)]:
        raise TraceError(
            f"line 1 names a column {unknown[0]!r}, which is not one of"
            f" {', '.join((*REQUIRED, *OPTIONAL))}"
        )
    if len({*names}) < len(names):
        raise TraceError("line 1 names a column twice")
    reader.fieldnames = names
    yield from _arrivals(reader)


def _arrivals(reader: "csv.DictReader[str]") -> Iterator[Arrival]:
    specs: dict[tuple[object, ...], RequestSpec] = {}
    before = -math.inf
    while True:
        try:
            row = next(reader, None)
            if row is None:
                return
            arrival = _arrival(row, reader.line_num, specs)
        except csv.Error as error:
            raise TraceError(f"line {reader.line_num + 1}: {error}") from None
        except ValueError as error:
            raise TraceError(f"line {reader.line_num}: {error}") from None
        if arrival.time < before:
            raise TraceError(f"line {reader.line_num}: time is less than in the line before")
        before = arrival.time
        yield arrival


def _arrival(
    row: Mapping[str, str], number: int, specs: dict[tuple[object, ...], RequestSpec]
) -> Arrival:
    if "" in row:
        raise ValueError("it has more values than line 1 has columns")
    time = _seconds(row, "time")
    assert time is not None
    lifetime = _seconds(row, "lifetime")
    instances = _whole(row, "instances", 1) or 1
    if instances > MAX_INSTANCES:
        raise ValueError(f"instances is {instances}, more than {MAX_INSTANCES}")
    size = _whole(row, "vcpus"), _whole(row, "memory_mb"), _whole(row, "disk_gb", 0)
    if not any(size):
        raise ValueError("an instance that takes nothing of a host")
    texts = [row.get(name) or None for name in ("flavor", "project", "availability_zone")]
    key = *size, *texts
    # Most lines are of a few kinds, and to compare requests costs less if they are the same.
    if key not in specs:
        flavor, project, zone = texts
        specs[key] = RequestSpec(
            Flavor(*size, name=flavor), project_id=project, availability_zone=zone
        )
    return make_arrival(
        time, specs[key], number, instances, FOREVER if lifetime is None else lifetime
    )


def _seconds(row: Mapping[str, str], name: str) -> float | None:
    text = (row.get(name) or "").strip()
    if not text and name not in REQUIRED:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and (value >= 0 or name == "time")):
        raise ValueError(f"{name} is {text!r}, not a number of seconds")
    return value


def _whole(row: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = (row.get(name) or "").strip()
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_SIZE):
        raise ValueError(f"{name} is {text!r}, not a whole number from 0 to {MAX_SIZE}")
    return int(text)
