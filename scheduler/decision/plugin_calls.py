# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls to plug-ins, plain and guarded.

A plain call raises what the plug-in raises, and costs nothing else. Whoever gets an exception from
plain calls makes them again as guarded ones, which turn the failure of a plug-in into a warning
with its name.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from inventory.errors import counted
from scheduler.base_plugin import INSTANCES, MEMBERS, BasePlugin, error_text
from scheduler.filters import BaseHostFilter
from scheduler.hosts.aggregate_metadata import keys_in_use
from scheduler.hosts.columns import Mask, Rows, Weights
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

T = TypeVar("T")
# A weigher with its multiplier and the raw weight of each row.
Asked = tuple[BaseHostWeigher, float | Weights, Weights]


def ask_filter(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask | None:
    """Return for each row whether its host passes, None where the filter does not apply."""
    if not (rule.always_applies or rule.applies(spec)):
        return None
    mask = rule.mask(hosts, spec)
    if mask.shape != (hosts.size,):
        raise ValueError("a mask of another size")
    return mask


def ask_filter_guarded(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask | None:
    """Return the same; no host passes where the filter fails."""
    return mask_of(rule, hosts, spec) if applies(rule, spec) else None


def ask_weighers(
    weighers: Sequence[BaseHostWeigher], hosts: HostTable, spec: RequestSpec, rows: Rows
) -> list[Asked]:
    """Return what weighers say that apply and count, with their multipliers for these rows."""
    in_use = keys_in_use(hosts, tuple([each.aggregate_key for each in weighers]))
    found = [
        _weighed(each, hosts, spec, rows, is_used)
        for each, is_used in zip(weighers, in_use, strict=True)
        if each.always_applies or each.applies(spec)
    ]
    return [each for each in found if each is not None]


def ask_weighers_guarded(
    weighers: Sequence[BaseHostWeigher], hosts: HostTable, spec: RequestSpec, rows: Rows
) -> list[Asked]:
    """Return the same, without the weighers that fail."""
    found = []
    for each in weighers:
        try:
            found.append(_weighed(each, hosts, spec, rows) if applies(each, spec) else None)
        except Exception as error:
            hosts.warn(f"{each.name} is left out since it failed: {error_text(error)}")
    return [each for each in found if each is not None]


def ask_plugin(call: Callable[..., T], *arguments: Any, default: T) -> T:
    """Return what a plug-in says of itself, or the default where the call fails.

    The default has to lead to the call of mask() or weigh(), whose failure gives the warning.
    """
    try:
        return call(*arguments)
    except Exception:
        return default


def applies(plugin: BasePlugin, spec: RequestSpec) -> bool:
    """Return whether a plug-in has to be called for this request."""
    return ask_plugin(plugin.applies, spec, default=True)


def mask_of(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes; no host does where the filter fails."""
    try:
        return np.asarray(_sized(rule.mask(hosts, spec), hosts.size, "mask"), np.bool_)
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
    weights = weigher.weigh(hosts, spec)
    # Most weighers return an array that is good as it is.
    if not (isinstance(weights, np.ndarray) and weights.shape == (hosts.size,)):
        weights = _sized(weights, hosts.size, "weigh")
    return np.asarray(weights, np.float64)


def is_row_local(plugin: BasePlugin, spec: RequestSpec) -> bool:
    """Return whether what a plug-in says of a host follows from the row of that host alone.

    That counts for the class that says so, and not for one that inherits from it and may read more.
    """
    if not vars(type(plugin)).get("row_local"):
        return False
    names = ask_plugin(plugin.columns_read, spec, default=None)
    # What plug-ins of others declare may be anything.
    return isinstance(names, tuple) and INSTANCES not in names


def _weighed(
    weigher: BaseHostWeigher,
    hosts: HostTable,
    spec: RequestSpec,
    rows: Rows,
    in_aggregates: bool = True,
) -> Asked | None:
    """Return what a weigher says, None where it does not count.

    in_aggregates is False where no aggregate changes its multiplier.
    """
    multiplier: float | Weights = weigher.sign * weigher.multiplier
    if in_aggregates or not weigher.has_plain_multiplier:
        multiplier = weigher.multipliers(hosts, rows)
    elif not multiplier:
        return None
    multiplier = _multiplier(multiplier, len(rows))
    if not (multiplier if isinstance(multiplier, float) else multiplier.any()):
        return None
    return weigher, multiplier, weights_of(weigher, hosts, spec)


def _multiplier(found: Any, count: int) -> float | Weights:
    """Return a multiplier of all of so many rows, or one for each."""
    if isinstance(found, float) or not np.ndim(found):
        found = float(found)
        # math is ten times as fast for the usual single number.
        is_finite = math.isfinite(found)
    else:
        found = np.asarray(_sized(found, count, "multipliers"), np.float64)
        is_finite = bool(np.isfinite(found).all())
    if not is_finite:
        raise ValueError("a multiplier is not a finite number")
    return found  # type: ignore[no-any-return]  # it is one of the two by now


def _sized(values: Any, size: int, method: str) -> Any:
    if np.shape(values) != (size,):
        rows = counted(size, "row")
        raise ValueError(f"{method}() did not return one element for each of {rows}")
    return values
