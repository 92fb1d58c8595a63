# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the metadata of a host's aggregates.

Source: behaviour reference 1.2.
"""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from inventory.objects.aggregate import Aggregate
from scheduler.hosts.columns import Weights
from scheduler.hosts.table import HostTable

Own = TypeVar("Own", float, Weights)
# Above any sensible ratio, cap or multiplier; sums and products of such numbers are still finite.
_MAX = 1e100
# How many keys are looked for together.
_BITS = 62


def values(aggregates: Iterable[Aggregate] | None, key: str) -> set[str]:
    """Return the distinct texts of the aggregates under a key."""
    return {each.metadata[key] for each in aggregates or () if key in each.metadata}


def split_values(aggregates: Iterable[Aggregate] | None, key: str) -> set[str]:
    """Return the distinct texts under a key, split at commas and trimmed."""
    return {part.strip() for value in values(aggregates, key) for part in value.split(",")}


def keys(aggregates: Iterable[Aggregate] | None, prefix: str) -> list[str]:
    """Return the distinct keys with a prefix, sorted."""
    found = {key for each in aggregates or () for key in each.metadata}
    return sorted(key for key in found if key.startswith(prefix))


def quoted(texts: Iterable[str]) -> str:
    """Return texts as a reason shows them, sorted."""
    return ", ".join(map(repr, sorted(texts))) or "none"


def smallest(
    aggregates: Iterable[Aggregate] | None,
    key: str,
    default: float,
    warn: Callable[[str], None],
    cast: Callable[[str], float] = float,
) -> float:
    """Return the smallest number under a key, or the default without any.

    A text that is not a number, is absurd or is refused by cast is skipped with a warning.
    """
    numbers = []
    for text in sorted(values(aggregates, key)):
        try:
            number = float(cast(text))
        # int() of thousands of digits is too much for a float.
        except (ValueError, OverflowError):
            number = float("nan")
        if not abs(number) <= _MAX:
            warn(f"aggregate metadata {key} = {text!r} is not a number and is ignored")
        else:
            numbers.append(number)
    return min(numbers, default=default)


def keys_in_use(hosts: HostTable, keys: tuple[str | None, ...]) -> list[bool]:
    """Return of each key whether any aggregate of any host may have it."""

    def bits(aggregates: Iterable[Aggregate] | None) -> int:
        found = {key for each in aggregates or () for key in each.metadata}
        return sum(1 << at for at, key in enumerate(keys[:_BITS]) if key in found)

    # All keys at once, since most clouds use none of them.
    values = hosts.memo_values("aggregates", ("keys in use", keys), bits, np.int64)
    used = int(np.bitwise_or.reduce(values))
    return [at >= _BITS or bool(used >> at & 1) for at in range(len(keys))]


def overridden(
    hosts: HostTable, key: str, own: Own, cast: Callable[[str], float] = float
) -> Own | Weights:
    """Return smallest() for each row, and its own number where its aggregates name none.

    Return only own where no aggregate of any host has the key.
    """

    def of_host(aggregates: Iterable[Aggregate] | None) -> float:
        return smallest(aggregates, key, math.nan, hosts.warn, cast)

    memo_key = ("smallest", key, cast)
    # Few clouds use the key, and there are far fewer values than rows.
    values = hosts.memo_values("aggregates", memo_key, of_host, float)
    if not np.count_nonzero(values == values):
        return own
    if isinstance(own, np.ndarray):
        found = hosts.spread("aggregates", values)
        return np.where(np.isnan(found), own, found)
    return hosts.spread("aggregates", np.where(np.isnan(values), own, values))
