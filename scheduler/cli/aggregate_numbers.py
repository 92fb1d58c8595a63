# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which properties of aggregates are numbers, as filters and weighers read them."""

from collections.abc import Callable, Mapping

from inventory.refusals import Malformed
from scheduler.decision import aggregate_metadata
from scheduler.objects.aggregate import Aggregate

OF_FILTERS: dict[str, Callable[[str], float]] = {
    "cpu_allocation_ratio": float,
    "disk_allocation_ratio": float,
    "ram_allocation_ratio": float,
    "max_instances_per_host": int,
    "max_io_ops_per_host": int,
}
# How the keys of all weighers end.
OF_WEIGHERS = "_weight_multiplier"


def check(properties: Mapping[str, str]) -> None:
    """Raise Malformed for a value that is to be a number and is none that can be used."""
    for key, text in properties.items():
        cast = float if key.endswith(OF_WEIGHERS) else OF_FILTERS.get(key)
        if cast and not _is_read(key, text, cast):
            kind = "a whole number" if cast is int else "a number"
            raise Malformed(key, f"{text!r} is not {kind}: schedulers would ignore it")
        # Multipliers may be: the weigher then prefers the other end.
        if key in OF_FILTERS and float(text) < 0:
            raise Malformed(key, f"{text!r} is less than 0: no host would take any instance")


def _is_read(key: str, text: str, cast: Callable[[str], float]) -> bool:
    warnings: list[str] = []
    aggregate = Aggregate(metadata={key: text})
    aggregate_metadata.smallest([aggregate], key, 0.0, warnings.append, cast)
    return not warnings
