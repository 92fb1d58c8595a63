# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls to plug-ins: their failures become warnings, and known results are not computed again."""

import math
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from inventory.errors import counted
from scheduler.base_plugin import MEMBERS, BasePlugin, error_text
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import FLAVOR_MIX, NUMBERS, OBJECTS, Mask, Rows, Weights
from scheduler.hosts.limits import Limits
from scheduler.hosts.result_cache import Results, compute_incremental
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

T = TypeVar("T")
_COLUMNS = frozenset((*NUMBERS, *OBJECTS, MEMBERS, FLAVOR_MIX))
# The longest question that is a cache key: the properties of an image may be of any length.
_MAX_KEY = 1000
# How many questions are known to be short or not.
_MAX_MEMO = 4096
# Names of results; limits have their own names.
_PASSES, _RAW = "passes", "raw"


def ask_plugin(call: Callable[..., T], *arguments: Any, default: T) -> T:
    """Return what a plug-in declares of itself, or the default where the call fails.

    The default has to lead to the call of mask() or weigh(), whose failure gives the warning.
    """
    try:
        return call(*arguments)
    except Exception:
        return default


def applies(plugin: BasePlugin, spec: RequestSpec) -> bool:
    """Return whether a plug-in has to be called for this request."""
    return ask_plugin(plugin.applies, spec, default=True)


def columns_of(plugin: BasePlugin, spec: RequestSpec) -> tuple[str, ...] | None:
    """Return the columns that a plug-in reads, None for any."""
    return ask_plugin(plugin.columns_read, spec, default=None)


def mask_of(rule: BaseHostFilter, hosts: HostTable, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes; no host does where the filter fails."""
    try:
        return np.asarray(_sized(rule.mask(hosts, spec), hosts.size, "mask"), np.bool_)
    except Exception as error:
        hosts.warn(f"{rule.name} refuses all hosts since it failed: {error_text(error)}")
        return np.zeros(hosts.size, np.bool_)


def weights_of(weigher: BaseHostWeigher, hosts: HostTable, spec: RequestSpec) -> Weights:
    """Return the raw weight of each row; raise ValueError for another size, or as weigh() does."""
    return np.asarray(_sized(weigher.weigh(hosts, spec), hosts.size, "weigh"), np.float64)


def multipliers_of(weigher: BaseHostWeigher, hosts: HostTable, rows: Rows) -> float | Weights:
    """Return the multiplier of all these rows, or one for each; 0 where the weigher fails."""
    try:
        found = weigher.multipliers(hosts, rows)
        if isinstance(found, float) or not np.ndim(found):
            found = float(found)
        else:
            found = np.asarray(_sized(found, len(rows), "multipliers"), np.float64)
        # math is ten times as fast for the usual single number.
        finite = math.isfinite(found) if isinstance(found, float) else np.isfinite(found).all()
        if not finite:
            raise ValueError("a multiplier is not a finite number")
    except Exception as error:
        _leave_out(weigher, hosts, error)
        return 0.0
    return found


def _leave_out(weigher: BaseHostWeigher, hosts: HostTable, error: Exception) -> None:
    hosts.warn(f"{weigher.name} is left out since it failed: {error_text(error)}")


def _sized(values: Any, size: int, method: str) -> Any:
    if np.shape(values) != (size,):
        rows = counted(size, "row")
        raise ValueError(f"{method}() did not return one element for each of {rows}")
    return values


def passing(hosts: HostTable, rule: BaseHostFilter, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes a filter, and set the limits of the filter."""
    inputs = _cacheable(rule, spec)
    if inputs is None:
        return mask_of(rule, hosts, spec)
    question, columns = inputs
    found = compute_incremental(hosts, (rule, question), columns, partial(_verdicts, rule, spec))
    for name, column in found.items():
        if name != _PASSES:
            setattr(hosts.limits, name, column)
    return found[_PASSES]


def passes_at(hosts: HostTable, rule: BaseHostFilter, spec: RequestSpec, row: int) -> bool:
    """Return whether the host of a row passes a filter; nothing is kept for later requests."""
    inputs = _cacheable(rule, spec)
    if inputs is not None:
        part = hosts.part(np.array([row]), inputs[1])
        return bool(_verdicts(rule, spec, part)[_PASSES][0])
    candidates = hosts.candidates
    hosts.candidates = np.zeros(hosts.size, np.bool_)
    hosts.candidates[row] = True
    try:
        return bool(mask_of(rule, hosts, spec)[row])
    finally:
        hosts.candidates = candidates


def verdicts(rule: BaseHostFilter, spec: RequestSpec, hosts: HostTable) -> tuple[Mask, Results]:
    """Return whether each host passes a filter, and the limits by name that the filter sets."""
    found = _verdicts(rule, spec, hosts)
    return found.pop(_PASSES), found


def raw_weights(hosts: HostTable, weigher: BaseHostWeigher, spec: RequestSpec) -> Weights | None:
    """Return the raw weight of each row; None where the weigher fails."""
    inputs = _cacheable(weigher, spec)
    try:
        if inputs is None:
            return weights_of(weigher, hosts, spec)
        question, columns = inputs
        key = weigher, question
        return compute_incremental(
            hosts, key, columns, lambda part: {_RAW: weights_of(weigher, part, spec)}
        )[_RAW]
    except Exception as error:
        _leave_out(weigher, hosts, error)
        return None


def is_declared(plugin: BasePlugin) -> bool:
    """Return whether the class of a plug-in, and not one that it inherits from, has a question."""
    own = vars(type(plugin))
    return "question" in own or "request_fields" in own


def declared(plugin: BasePlugin, spec: RequestSpec) -> tuple[Hashable, tuple[str, ...]] | None:
    """Return the question of a plug-in and the columns it reads; None where it declares none."""
    if not is_declared(plugin):
        return None
    question = ask_plugin(plugin.question, spec, default=None)
    columns = columns_of(plugin, spec)
    if question is None or not columns:
        return None
    # Neither may be hashable, whatever plug-ins declare.
    if not ask_plugin(_are_columns, columns, default=False):
        return None
    return (question, columns) if ask_plugin(_is_short, question, default=False) else None


@lru_cache(_MAX_MEMO)
def _are_columns(names: tuple[str, ...]) -> bool:
    # Instances are in no column.
    return _COLUMNS.issuperset(names)


def _cacheable(plugin: BasePlugin, spec: RequestSpec) -> tuple[Hashable, tuple[str, ...]] | None:
    inputs = declared(plugin, spec)
    return None if inputs is None or MEMBERS in inputs[1] else inputs


@lru_cache(_MAX_MEMO)
def _is_short(question: Hashable) -> bool:
    return len(repr(question)) <= _MAX_KEY


def _verdicts(rule: BaseHostFilter, spec: RequestSpec, hosts: HostTable) -> Results:
    """Return the verdicts of a filter about all hosts, and the limits that it sets."""
    limits, candidates = hosts.limits, hosts.candidates
    # About all hosts, since the next request may have other candidates.
    hosts.limits, hosts.candidates = Limits(hosts.size), hosts.present
    try:
        return {_PASSES: mask_of(rule, hosts, spec), **hosts.limits.columns}
    finally:
        hosts.limits, hosts.candidates = limits, candidates
