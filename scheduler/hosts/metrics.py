# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics that hosts report: as numbers, and as sums weighted by the ratios of an option."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from inventory.errors import counted
from scheduler.hosts.columns import total
from scheduler.hosts.table import HostTable


def to_float(value: Any) -> float:
    """Return a number, or its text, as a float; NaN for anything else."""
    try:
        number = float(value)
    # Hundreds of digits are too many for a float.
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


# (name, ratio) each; a pair that is listed twice counts twice.
Ratios = Iterable[tuple[str, float]]


def reported_metrics(metrics: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of a host's list of metrics; anything but such a list has none.

    A NUMA metric has a value for each cell, and so None here.
    """
    for each in metrics if isinstance(metrics, list | tuple) else ():
        name = each.get("name") if isinstance(each, Mapping) else None
        if isinstance(name, str):
            yield name, each.get("value")


def metric_values(metrics: Any) -> dict[str, float]:
    """Return {name: number} of the metrics that are numbers; of the same name the last counts."""
    found = ((name, to_float(value)) for name, value in reported_metrics(metrics))
    return {name: value for name, value in found if value == value}


def weighted_sum(ratios: Ratios, metrics: Any) -> float:
    """Return the sum over all of these pairs, NaN where the host lacks a metric."""
    found = metric_values(metrics)
    weight = total(found.get(name, math.nan) * ratio for name, ratio in ratios)
    return weight if math.isfinite(weight) else math.nan


def weighted_sum_of_known(ratios: Ratios, metrics: Any) -> float:
    """Return the sum over those of these pairs whose metric the host has."""
    found = metric_values(metrics)
    return weighted_sum([(name, ratio) for name, ratio in ratios if name in found], metrics)


def warn_of_missing(hosts: HostTable, ratios: Ratios) -> None:
    """Warn on how many of the candidates each of these metrics is missing."""
    total = int(np.count_nonzero(hosts.candidates))
    for name in dict.fromkeys(name for name, _ in ratios):
        reports = hosts.memo("metrics", ("has", name), partial(_has, name), np.bool_)
        count = np.count_nonzero(hosts.candidates & ~reports)
        if count:
            last = "it comes last" if count == 1 else "they come last"
            where = f"{count} of {counted(total, 'host')}"
            hosts.warn(f"metric {name} is missing on {where}: {last}")


def _has(name: str, metrics: Any) -> bool:
    return name in metric_values(metrics)


class ParsedRatios(NamedTuple):
    """The (name, ratio) pairs of a list of settings in order, and the settings that are invalid."""

    ratios: list[tuple[str, float]]
    invalid: list[str]

    def warn(self, warn: Callable[[str], None], option: str) -> None:
        """Warn of each invalid setting of an option."""
        for setting in self.invalid:
            warn(f"{option} has {setting!r}, which is not of the form name=ratio and is ignored")


def parse_ratios(settings: Iterable[str] | None) -> ParsedRatios:
    """Parse a list of "name=ratio", without blanks around both; None is an empty list.

    A name ends at the first "=" and may not be empty; a ratio is a finite number. A name that is
    given twice is returned twice: the caller adds up or takes the last.
    """
    found = ParsedRatios([], [])
    for setting in settings or ():
        name, _, ratio = (part.strip() for part in str(setting).partition("="))
        number = to_float(ratio)
        if name and not math.isnan(number):
            found.ratios.append((name, number))
        else:
            found.invalid.append(str(setting))
    return found
