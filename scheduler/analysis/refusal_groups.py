# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Many refusals in few lines: hosts with equal reasons together, and each filter with one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.analysis.diagnosis import Rejection, host_name
from scheduler.decision.types import Refusal
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.table import HostTable

# How many hosts are asked for their reasons; more would make an answer wait for seconds.
MAX_ASKED = 10_000
# Names of hosts of a group that are kept.
_NAMES = 3


@dataclass(frozen=True, slots=True)
class RefusalGroup:
    """Hosts that the same filters refuse for the same reasons.

    first has the first of them with their nodes, as people read them, first_hosts by name alone.
    """

    hosts: int
    first: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    first_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterSummary:
    """How many hosts a filter or rule is the first to refuse, and why in a few words."""

    name: str
    hosts: int
    reason: str


def group_refusals(
    hosts: HostTable, found: Sequence[Rejection], rows: Iterable[int]
) -> list[RefusalGroup]:
    """Return the refused hosts of these rows by their reasons, in the order of the first ones."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    refusals: dict[tuple[tuple[str, str], ...], tuple[Refusal, ...]] = {}
    for row in rows:
        here = tuple(each.refusal(row) for each in found if each.refused[row])
        if here:
            key = tuple((each.filter, each.reason) for each in here)
            groups.setdefault(key, []).append(row)
            refusals.setdefault(key, here)
    return [
        RefusalGroup(
            len(members),
            tuple(host_name(*each) for each in names),
            refusals[key],
            tuple(host for host, _ in names),
        )
        for key, members in groups.items()
        for names in (hosts.nodes(np.array(members[:_NAMES])),)
    ]


def summarize(
    hosts: HostTable, found: Sequence[Rejection], groups: Iterable[RefusalGroup]
) -> list[FilterSummary]:
    """Return the filters that are the first to refuse hosts, those with the most hosts first."""
    summaries = [
        FilterSummary(each.name, len(rows), each.summary(rows) or _usual(each.name, groups))
        for each, rows in _first_refusals(hosts.present, found)
    ]
    return sorted(summaries, key=lambda each: -each.hosts)


def _first_refusals(present: Mask, found: Iterable[Rejection]) -> Iterator[tuple[Rejection, Rows]]:
    """Yield each rule with the rows that none before it refuses, where there are any."""
    left = present.copy()
    for each in found:
        rows = np.flatnonzero(left & each.refused)
        left &= ~each.refused
        if len(rows):
            yield each, rows


def _usual(name: str, groups: Iterable[RefusalGroup]) -> str:
    """Return the reason that a filter has for most hosts, and how many others it has."""
    reasons: Counter[str] = Counter()
    for group in groups:
        first = group.refusals[0]
        if first.filter == name:
            reasons[first.reason] += group.hosts
    if not reasons:
        return ""
    ((reason, _),) = reasons.most_common(1)
    others = len(reasons) - 1
    more = f"and {others} other {'reason' if others == 1 else 'reasons'}"
    return f"{reason}, {more}" if others else reason
