# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts of vCPUs, memory and disk, and their arithmetic."""

from typing import Any

# vCPUs, memory in MB and disk in MB, and how columns, requests and JSON call them.
Amounts = tuple[int, int, int]
NAMES = ("vcpus", "memory_mb", "disk_mb")
NOTHING: Amounts = (0, 0, 0)


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
