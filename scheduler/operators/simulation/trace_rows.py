# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traces in our own format: a row for each arrival, from a file of any kind.

time (seconds, from any start, never falling), vcpus and memory_mb are there; disk_gb, lifetime
(seconds; empty for an instance that stays), instances, flavor, project and availability_zone may
be.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.simulation.arrival import FOREVER, Arrival, TraceError, make_arrival

REQUIRED = ("time", "vcpus", "memory_mb")
OPTIONAL = ("disk_gb", "lifetime", "instances", "flavor", "project", "availability_zone")
# Of a size, in any of its units.
MAX_SIZE = 2**31 - 1
MAX_INSTANCES = 10_000


class Row(NamedTuple):
    """A row of a trace: where it is in its file, and its texts by column, "" for nothing."""

    place: str
    values: Mapping[str, str]


def check_columns(names: Collection[str]) -> None:
    """Raise TraceError unless these are the columns of a trace."""
    if missing := [name for name in REQUIRED if name not in names]:
        raise TraceError(
            f"it has no column {', '.join(missing)}; there must be {', '.join(REQUIRED)} and may be"
            f" {', '.join(OPTIONAL)}"
        )
    if unknown := [name for name in names if name not in (*REQUIRED, *OPTIONAL)]:
        raise TraceError(
            f"it has a column {unknown[0]!r}, which is not one of"
            f" {', '.join((*REQUIRED, *OPTIONAL))}"
        )


def read_rows(rows: Iterable[Row]) -> Iterator[Arrival]:
    """Yield the arrivals of rows; raises TraceError, which names the place."""
    before = -math.inf
    for index, (place, values) in enumerate(rows):
        try:
            arrival = _arrival(values, index)
        except ValueError as error:
            raise TraceError(f"{place}: {error}") from None
        if arrival.time < before:
            raise TraceError(f"{place}: the time is earlier than in the line before")
        before = arrival.time
        yield arrival


# Most rows are of a few kinds, and to compare requests costs less if they are the same.
@lru_cache(maxsize=10_000)
def make_spec(
    vcpus: int,
    memory_mb: int,
    disk_gb: int = 0,
    flavor: str | None = None,
    project: str | None = None,
    zone: str | None = None,
) -> RequestSpec:
    """Return a request for instances of this size; raises ValueError for one without a size."""
    if not (vcpus or memory_mb or disk_gb):
        raise ValueError("the instance needs no resources of a host")
    size = Flavor(vcpus, memory_mb, disk_gb, name=flavor)
    return RequestSpec(size, project_id=project, availability_zone=zone)


def number(row: Mapping[str, str], name: str) -> float | None:
    """Return a number, None where there is nothing; raises ValueError."""
    text = (row.get(name) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} is {text!r}, not a number")
    return value


def whole(row: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return a whole number that is not negative; raises ValueError."""
    text = (row.get(name) or "").strip()
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_SIZE):
        raise ValueError(f"{name} is {text!r}, not a whole number from 0 to {MAX_SIZE}")
    return int(text)


def _arrival(row: Mapping[str, str], index: int) -> Arrival:
    time, lifetime = number(row, "time"), number(row, "lifetime")
    if time is None:
        raise ValueError("there is no time")
    if lifetime is not None and lifetime < 0:
        raise ValueError(f"lifetime is {lifetime:g}, which is less than 0")
    instances = whole(row, "instances", 1) or 1
    if instances > MAX_INSTANCES:
        raise ValueError(f"instances is {instances}, more than {MAX_INSTANCES}")
    size = whole(row, "vcpus"), whole(row, "memory_mb"), whole(row, "disk_gb", 0)
    texts = [row.get(name) or None for name in ("flavor", "project", "availability_zone")]
    spec = make_spec(*size, *texts)
    return make_arrival(time, spec, index, instances, FOREVER if lifetime is None else lifetime)
