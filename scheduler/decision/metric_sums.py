# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of what a host measured about itself, each metric with its ratio.

Source: behaviour reference 2.3 (MetricsWeigher).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from scheduler.decision.figures import figure
from scheduler.decision.host_table import HostTable

# (name, ratio) each; one that is there twice counts twice.
Ratios = Iterable[tuple[str, float]]


def reported(metrics: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of a host's list of metrics; what is not such a list has none.

    A NUMA metric is there without a value, since it has one for each cell.
    """
    for each in metrics if isinstance(metrics, list | tuple) else ():
        name = each.get("name") if isinstance(each, Mapping) else None
        if isinstance(name, str):
            yield name, each.get("value")


def measured(metrics: Any) -> dict[str, float]:
    """Return {name: figure} of a host's list of metrics; what has no plain figure is left out.

    Of metrics of the same name the last one with a figure counts.
    """
    found = ((name, figure(value)) for name, value in reported(metrics))
    return {name: value for name, value in found if value == value}


def sum_of(ratios: Ratios, metrics: Any) -> float:
    """Return the sum over all of these pairs, NaN where one of them cannot be had."""
    found = measured(metrics)
    total = sum((found.get(name, math.nan) * ratio for name, ratio in ratios), 0.0)
    return total if math.isfinite(total) else math.nan


def sum_of_known(ratios: Ratios, metrics: Any) -> float:
    """Return the sum over those of these pairs whose metric the host has."""
    found = measured(metrics)
    return sum_of([(name, ratio) for name, ratio in ratios if name in found], metrics)


def warn_of_missing(hosts: HostTable, ratios: Ratios) -> None:
    """Tell on how many of the candidates each of these metrics is missing."""
    total = np.count_nonzero(hosts.candidates)
    for name in dict.fromkeys(name for name, _ in ratios):
        known = hosts.derived("metrics", ("has", name), partial(_has, name), np.bool_)
        count = np.count_nonzero(hosts.candidates & ~known)
        if count:
            hosts.warn(f"metric {name} is missing on {count} of {total} hosts: they come last")


def _has(name: str, metrics: Any) -> bool:
    return name in measured(metrics)
