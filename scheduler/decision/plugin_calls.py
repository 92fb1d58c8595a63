# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls to plug-ins, which may be those of others: what they return is checked.

Some raise what a plug-in raises; others turn its failure into a warning with its name.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from inventory.errors import counted
from scheduler.base_plugin import INSTANCES, MEMBERS, BasePlugin, error_text
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask, Rows, Weights
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

T = TypeVar("T")


def ask_filter(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask | None:
    """Return for each row whether its host passes, None where the filter does not apply.

    Raise what the filter raises.
    """
    if not (rule.always_applies or rule.applies(spec)):
        return None
    mask = rule.mask(hosts, spec)
    if mask.shape != (hosts.size,):
        raise ValueError("a mask of another size")
    return mask


def ask_plugin(call: Callable[..., T], *arguments: Any, default: T) -> T:
    """Return what a plug-in says of itself, or the default where the call fails.

    The default has to lead to the call of mask() or weigh(), whose failure gives the warning.
    """
    try:
        return call(*arguments)
    except Exception:
        return default


def applies(plugin: BasePlugin, spec: RequestSpec) -> bool:
    """Return whether a plug-in has to be called for this request; it is where it fails."""
    return ask_plugin(plugin.applies, spec, default=True)


def mask_of(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes; no host does where the filter fails."""
    try:
        mask = rule.mask(hosts, spec)
        # Nearly all filters return an array that is good as it is.
        if isinstance(mask, np.ndarray) and mask.shape == (hosts.size,) and mask.dtype == np.bool_:
            return mask
        return np.asarray(_sized(mask, hosts.size, "mask"), np.bool_)
    except Exception as error:
        hosts.warn(f"{rule.name} refuses all hosts since it failed: {error_text(error)}")
        return np.zeros(hosts.size, np.bool_)


def passes_at(hosts: HostTable, rule: BaseHostFilter, spec: RequestSpec, row: int) -> bool:
    """Return whether the host of a row passes a filter."""
    if is_row_local(rule, spec) and MEMBERS not in (rule.columns_read(spec) or ()):
        return bool(mask_of(rule, hosts.part(np.array([row])), spec)[0])
    candidates = hosts.candidates
    hosts.candidates = np.zeros(hosts.size, np.bool_)
    hosts.candidates[row] = True
    try:
        return bool(mask_of(rule, hosts, spec)[row])
    finally:
        hosts.candidates = candidates


def weights_of(weigher: BaseHostWeigher, hosts: HostTable, spec: RequestSpec) -> Weights:
    """Return the raw weight of each row; raise ValueError for another size, or as weigh() does."""
    weights: Any = weigher.weigh(hosts, spec)
    if not isinstance(weights, np.ndarray) or weights.shape != (hosts.size,):
        weights = _sized(weights, hosts.size, "weigh")
    return np.asarray(weights, np.float64)


def multipliers_of(
    weigher: BaseHostWeigher, hosts: HostTable, rows: Rows
) -> float | Weights | None:
    """Return the multiplier of all these rows, or one for each; None where all are 0.

    Raise what the weigher raises, ValueError for what is not finite.
    """
    found: Any = weigher.multipliers(hosts, rows)
    if np.ndim(found):
        found = np.asarray(_sized(found, len(rows), "multipliers"), np.float64)
        least, most = found.item(found.argmin()), found.item(found.argmax())
    else:
        found = least = most = float(found)
    if not (math.isfinite(least) and math.isfinite(most)):
        raise ValueError("a multiplier is not a finite number")
    return found if least or most else None


def is_row_local(plugin: BasePlugin, spec: RequestSpec) -> bool:
    """Return whether what a plug-in says of a host follows from the row of that host alone.

    That counts for the class that says so, and not for one that inherits from it and may read more.
    """
    if not vars(type(plugin)).get("row_local"):
        return False
    names = ask_plugin(plugin.columns_read, spec, default=None)
    # What plug-ins of others declare may be anything.
    return isinstance(names, tuple) and INSTANCES not in names


def _sized(values: Any, size: int, method: str) -> Any:
    if np.shape(values) != (size,):
        rows = counted(size, "row")
        raise ValueError(f"{method}() did not return one element for each of {rows}")
    return values
