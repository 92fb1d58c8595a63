# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plug-ins asked for all hosts, or only for those that have changed since they were asked before.

Which they can be is what they declare: the columns that they look at, and their question. It holds
for the class that declares it and not for those that inherit from it, which may look at more.
"""

from collections.abc import Hashable
from functools import partial

from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Weigher
from scheduler.decision.limits import Limits
from scheduler.decision.plugin_calls import (
    about_itself,
    columns_of,
    leave_out,
    mask_of,
    weights_of,
)
from scheduler.decision.remembered import Results
from scheduler.decision.reuse import recalled
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec

# What plug-ins may look at that is no column: the instances of a host, and how many of them are
# members of the server group that the request is about, which is followed but not remembered.
INSTANCES = "instances"
MEMBERS = "members"
_COLUMNS = frozenset((*NUMBERS, *OBJECTS, MEMBERS))
# The longest question that is remembered: tenants may write as much as they like into an image.
_LONGEST = 1000
# The names of results; those of limits are their own.
_PASSES, _RAW = "passes", "raw"


def passing(hosts: HostTable, rule: Filter, spec: RequestSpec) -> Mask:
    """Return for each row whether its host passes a filter, and set the limits of the filter."""
    asked = _remembered(rule, spec)
    if asked is None:
        return mask_of(rule, hosts, spec)
    question, columns = asked
    found = recalled(hosts, (rule, question), columns, partial(_verdicts, rule, spec))
    for name, column in found.items():
        if name != _PASSES:
            setattr(hosts.limits, name, column)
    return found[_PASSES]


def verdicts(rule: Filter, spec: RequestSpec, hosts: HostTable) -> tuple[Mask, Results]:
    """Return whether hosts pass a filter, all of them, and the limits by name that it sets."""
    found = _verdicts(rule, spec, hosts)
    return found.pop(_PASSES), found


def raw_weights(hosts: HostTable, weigher: Weigher, spec: RequestSpec) -> Weights | None:
    """Return the raw weight of each row; None where the weigher fails."""
    asked = _remembered(weigher, spec)
    try:
        if asked is None:
            return weights_of(weigher, hosts, spec)
        question, columns = asked
        ask = partial(weights_of, weigher, spec=spec)
        return recalled(hosts, (weigher, question), columns, lambda part: {_RAW: ask(part)})[_RAW]
    except Exception as error:
        leave_out(weigher, hosts, error)
        return None


def declared(
    plugin: Filter | Weigher, spec: RequestSpec
) -> tuple[Hashable, tuple[str, ...]] | None:
    """Return the question of a plug-in and the columns it looks at; None where it does not say."""
    if "question" not in vars(type(plugin)):
        return None
    question = about_itself(plugin.question, spec, default=None)
    columns = columns_of(plugin, spec)
    # Instances are in no column, and what cannot be a key cannot be remembered.
    if question is None or not columns or not _is_key(question):
        return None
    if not about_itself(_COLUMNS.issuperset, columns, default=False):
        return None
    return question, columns


def _remembered(
    plugin: Filter | Weigher, spec: RequestSpec
) -> tuple[Hashable, tuple[str, ...]] | None:
    asked = declared(plugin, spec)
    return None if asked is None or MEMBERS in asked[1] else asked


def _is_key(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return len(repr(value)) <= _LONGEST


def _verdicts(rule: Filter, spec: RequestSpec, hosts: HostTable) -> Results:
    """Return whether hosts pass, and the limits that the filter sets with that."""
    limits, candidates = hosts.limits, hosts.candidates
    # All are asked, since the next request may leave others.
    hosts.limits, hosts.candidates = Limits(hosts.size), hosts.present
    try:
        return {_PASSES: mask_of(rule, hosts, spec), **hosts.limits.columns}
    finally:
        hosts.limits, hosts.candidates = limits, candidates
