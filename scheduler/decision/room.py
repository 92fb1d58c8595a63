# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""For how many instances each host has room by itself, all hosts looked at side by side.

That is what requests would place there in the end, whichever host is next each time: as long as
hosts are judged by nothing but numbers of their own, and instances take nothing else.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decision.asking import INSTANCES, MEMBERS, declared, verdicts
from scheduler.decision.filtering import asked_for, filtered
from scheduler.decision.host_state import BARE_METAL
from scheduler.decision.host_table import Codes, HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows
from scheduler.decision.outcome import Taken
from scheduler.decision.pipeline import Plan, allowed
from scheduler.decision.plugin_calls import about_itself, applies, columns_of
from scheduler.objects.request_spec import RequestSpec

# What an instance may change of its host.
_CHANGED = frozenset({*Taken(0, 0, 0).changes, "numa_topology", "pci_stats", INSTANCES, MEMBERS})
# A host that takes more is taken to be endless.
ENDLESS = 100_000
# About how many cases are looked at in one go.
_CASES = 20_000


class Room(NamedTuple):
    """So many instances on each of these rows; is_endless says that there is room for more."""

    rows: Rows
    counts: Codes
    is_endless: bool

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def take(self, hosts: HostTable, spec: RequestSpec) -> None:
        """Take of the hosts what all of the instances do."""
        for name, change in _changes(spec).items():
            taken = getattr(hosts, name)[self.rows] + change * self.counts
            hosts.write(self.rows.tolist(), name, taken.tolist())


def room(hosts: HostTable, spec: RequestSpec, plan: Plan, most: int | None = None) -> Room | None:
    """Return for how many instances there is room; None where that depends on who comes first.

    hosts is a working copy. All filters have to ask the same for each of the instances. Where there
    is room for more than most, that there is for more is all that is found out.
    """
    if not _is_plain(hosts, spec):
        return None
    rules = [each for each in asked_for(plan.filters, spec, 1) if applies(each, spec)]
    candidates, _ = allowed(hosts, spec, plan)
    left, _ = filtered(hosts, spec, plan.filters, candidates)
    rows = np.flatnonzero(left)
    counts, changes = np.ones(len(rows), np.int64), _changes(spec)
    columns = {name for each in rules for name in columns_of(each, spec) or ()}
    open_ones = np.arange(len(rows))
    # Instances change nothing that is looked at.
    if columns.isdisjoint(name for name, change in changes.items() if change):
        counts[:] = ENDLESS
    bound = math.inf if most is None else most
    while len(open_ones) and counts.max() < ENDLESS and counts.sum() <= bound:
        ahead = max(1, _CASES // len(open_ones))
        times = np.repeat(counts[open_ones], ahead) + np.tile(np.arange(ahead), len(open_ones))
        part = hosts.part(np.repeat(rows[open_ones], ahead), columns, changes, times)
        passes = _passing(part, spec, rules).reshape(-1, ahead)
        goes_on = passes.all(axis=1)
        counts[open_ones] += np.where(goes_on, ahead, passes.argmin(axis=1))
        open_ones = open_ones[goes_on]
    return Room(rows, counts, bool(len(open_ones)))


def asks_the_same(rule: Filter, spec: RequestSpec) -> bool:
    """Return whether a filter, asked again in a new request, says what it said in the old one.

    One that is asked for each instance judges a host by that host; see asking. One that is asked
    once for a request does not go by what instances take, as far as it does not say otherwise.
    """
    if about_itself(rule.run_filter_for_index, 1, default=True):
        return declared(rule, spec) is not None
    columns = columns_of(rule, spec)
    if columns is None:
        return about_itself(rule.question, spec, default=None) is None
    return _CHANGED.isdisjoint(columns)


def _is_plain(hosts: HostTable, spec: RequestSpec) -> bool:
    """Return whether an instance takes nothing but numbers, the same everywhere."""
    if spec.instance_group or spec.numa_topology or spec.devices or spec.is_rebuild:
        return False
    return BARE_METAL not in hosts.distinct("hypervisor_type")


def _changes(spec: RequestSpec) -> dict[str, int]:
    return Taken(spec.vcpus, spec.memory_mb, spec.disk_mb).changes


def _passing(part: HostTable, spec: RequestSpec, rules: Sequence[Filter]) -> Mask:
    passing = np.ones(part.size, np.bool_)
    for rule in rules:
        passing &= verdicts(rule, spec, part)[0]
    return passing
