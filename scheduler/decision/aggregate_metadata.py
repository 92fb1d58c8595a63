# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the metadata of a host's aggregates say about it.

Source: behaviour reference 1.2.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.aggregate import Aggregate

# More than any ratio, cap or multiplier can mean; sums and products of so much are still numbers.
_MOST = 1e100


def values(aggregates: Iterable[Aggregate] | None, key: str) -> set[str]:
    """Return the distinct texts that the aggregates have under a key, as they are."""
    return {each.metadata[key] for each in aggregates or () if key in each.metadata}


def split_values(aggregates: Iterable[Aggregate] | None, key: str) -> set[str]:
    """Return the distinct texts under a key, split at commas and trimmed."""
    return {part.strip() for value in values(aggregates, key) for part in value.split(",")}


def keys(aggregates: Iterable[Aggregate] | None, prefix: str) -> list[str]:
    """Return the distinct keys that begin so, in their order."""
    found = {key for each in aggregates or () for key in each.metadata}
    return sorted(key for key in found if key.startswith(prefix))


def quoted(texts: Iterable[str]) -> str:
    """Return texts as a reason shows them, in their order."""
    return ", ".join(map(repr, sorted(texts))) or "none"


def smallest(
    aggregates: Iterable[Aggregate] | None,
    key: str,
    default: float,
    warn: Callable[[str], None],
    cast: Callable[[str], float] = float,
) -> float:
    """Return the smallest number under a key, or default where there is none.

    A text that is no number, an absurd one, or none that cast takes is passed over with a warning;
    those beside it still count.
    """
    numbers = []
    for text in sorted(values(aggregates, key)):
        try:
            number = float(cast(text))
        # int() of thousands of digits is too much for a float.
        except (ValueError, OverflowError):
            number = float("nan")
        if not abs(number) <= _MOST:
            warn(f"aggregate metadata {key} = {text!r} is not a number and is ignored")
        else:
            numbers.append(number)
    return min(numbers, default=default)


def column(
    hosts: HostTable,
    key: str,
    default: float | Weights,
    cast: Callable[[str], float] = float,
) -> Weights | None:
    """Return smallest() for each row, or None when no aggregate of any host has the key."""

    def of_host(aggregates: Iterable[Aggregate] | None) -> float:
        return smallest(aggregates, key, math.nan, hosts.warn, cast)

    question = ("smallest", key, cast)
    # As a rule nobody has thought of the key, and there are far fewer values than rows.
    values = hosts.derived_values("aggregates", question, of_host, float)
    if not np.count_nonzero(values == values):
        return None
    found = hosts.derived("aggregates", question, of_host, float)
    none = np.isnan(found)
    return None if none.all() else np.where(none, default, found)


def overridden(
    hosts: HostTable, key: str, own: Weights, cast: Callable[[str], float] = float
) -> Weights:
    """Return smallest() for each row, and what the row has of its own where there is none."""
    found = column(hosts, key, own, cast)
    return own if found is None else found
