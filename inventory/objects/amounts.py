# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts of vCPUs, memory and disk, and their arithmetic."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

# vCPUs, memory in MB and disk in MB, and how columns, requests and JSON call them.
Amounts = tuple[int, int, int]
NAMES = ("vcpus", "memory_mb", "disk_mb")
NOTHING: Amounts = (0, 0, 0)
# Above any sensible allocation ratio; a total times it is still finite.
MAX_RATIO = 1e100
# What a flavor's extra specs request of Placement in place of its own sizes, in any of its groups.
_GIVEN = re.compile("resources[a-zA-Z0-9_-]{0,64}:(VCPU|PCPU|MEMORY_MB|DISK_GB)")


def amounts_of(sized: Any) -> Amounts:
    """Return what a request, a row or another object with these attributes takes."""
    return sized.vcpus, sized.memory_mb, sized.disk_mb


def amounts_facts(amounts: Amounts) -> dict[str, int]:
    """Return amounts by their NAMES."""
    return dict(zip(NAMES, amounts, strict=True))


def larger(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger amount of each resource."""
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def plus(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """Return the sum of two amounts, the difference where sign is -1."""
    return one[0] + sign * other[0], one[1] + sign * other[1], one[2] + sign * other[2]


def without(one: Amounts, other: Amounts) -> Amounts:
    """Return what one has more than the other, of each resource."""
    return larger(plus(one, other, -1), NOTHING)


def covers(size: Amounts, needed: Amounts) -> bool:
    """Return whether what needs so much fits into a place of a size."""
    return not any(without(needed, size))


def known_ratio(ratio: float | None) -> float | None:
    """Return an allocation ratio of a row; None where it is not known, for which Newton writes 0.

    It is no greater than MAX_RATIO. Of a resource without a known ratio nothing may be allocated:
    filters refuse the host, and lists, pages, metrics and the capacity of hosts agree with that.
    """
    return min(ratio, MAX_RATIO) if ratio else None


def allocatable(total: int, ratio: float | None) -> float:
    """Return how much of a total may be allocated by the ratio of a row."""
    return total * (known_ratio(ratio) or 0.0)


def resource_amount(text: str) -> int | None:
    """Return the amount of a resource in an extra spec, None unless it is a number from 0 on."""
    try:
        amount = int(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def given_amounts(extra_specs: Mapping[str, str]) -> Mapping[str, int]:
    """Return the amounts of vCPUs, memory and disk that a flavor requests by resource class.

    Of a class in several groups it is their sum, as Placement counts it.
    """
    # Few flavors have such keys, and each decision asks many times.
    keys = [key for key in extra_specs if key.startswith("resources")]
    if not keys:
        return {}
    given: Counter[str] = Counter()
    for match in filter(None, map(_GIVEN.fullmatch, keys)):
        amount = resource_amount(extra_specs[match[0]])
        if amount is not None:
            given[match[1]] += amount
    return given


def taken_amounts(size: Amounts, extra_specs: Mapping[str, str]) -> Amounts:
    """Return what an instance takes whose flavor has this size: given_amounts() come first.

    vCPUs with CPUs of their own count as vCPUs.
    """
    given = given_amounts(extra_specs)
    if not given:
        return size
    vcpus, memory_mb, disk_mb = size
    if "VCPU" in given or "PCPU" in given:
        vcpus = given.get("VCPU", 0) + given.get("PCPU", 0)
    if "DISK_GB" in given:
        disk_mb = 1024 * given["DISK_GB"]
    return vcpus, given.get("MEMORY_MB", memory_mb), disk_mb
