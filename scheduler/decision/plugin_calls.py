# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of plug-ins that fail no request, whatever a third party's code raises or returns.

A filter that fails refuses all hosts that it was asked about, and a weigher that fails is left out:
refusing a good host costs a little, using a bad one breaks what the filter is there for. Both leave
a warning in the table.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec

T = TypeVar("T")
# How much of the text of an error is part of a warning.
MAX_CHARACTERS = 300


def problem(error: Exception) -> str:
    """Return what went wrong in a plug-in, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_CHARACTERS]


def about_itself(call: Callable[..., T], *arguments: Any, default: T) -> T:
    """Return what a plug-in says of how it is to be asked, or the default where it fails.

    The default has to be the answer with which its verdict or weights are asked for: these count,
    and fail with a warning.
    """
    try:
        return call(*arguments)
    except Exception:
        return default


def applies(plugin: Filter | Weigher, spec: RequestSpec) -> bool:
    """Return whether a plug-in has to be asked about this request."""
    return about_itself(plugin.applies, spec, default=True)


def columns_of(plugin: Filter | Weigher, spec: RequestSpec) -> tuple[str, ...] | None:
    """Return the columns that a plug-in looks at, None for any."""
    return about_itself(plugin.columns_read, spec, default=None)


def mask_of(rule: Filter, hosts: HostTable, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes; no host does where the filter fails."""
    try:
        return np.asarray(_column(rule.mask(hosts, spec), hosts.size, "mask"), np.bool_)
    except Exception as error:
        hosts.warn(f"{rule.name} refuses all hosts since it failed: {problem(error)}")
        return np.zeros(hosts.size, np.bool_)


def weights_of(weigher: Weigher, hosts: HostTable, spec: RequestSpec) -> Weights:
    """Return the raw weight of each row; raises whatever the weigher does, or for no weights."""
    return np.asarray(_column(weigher.weigh(hosts, spec), hosts.size, "weigh"), np.float64)


def multipliers_of(weigher: Weigher, hosts: HostTable, rows: Rows) -> float | Weights:
    """Return the multiplier of all these rows, or one for each; 0 where the weigher fails."""
    try:
        found = weigher.multipliers(hosts, rows)
        if isinstance(found, float) or not np.ndim(found):
            found = float(found)
            _check(math.isfinite(found))
            return found
        found = np.asarray(_column(found, len(rows), "multipliers"), np.float64)
        _check(bool(np.isfinite(found).all()))
    except Exception as error:
        leave_out(weigher, hosts, error)
        return 0.0
    return found


def leave_out(weigher: Weigher, hosts: HostTable, error: Exception) -> None:
    """Warn that a weigher has no say in a decision."""
    hosts.warn(f"{weigher.name} is left out since it failed: {problem(error)}")


def _column(values: Any, size: int, method: str) -> Any:
    if np.shape(values) != (size,):
        raise ValueError(f"{method}() did not return one element for each of {size} rows")
    return values


def _check(is_finite: bool) -> None:
    if not is_finite:
        raise ValueError("a multiplier is not a finite number")
