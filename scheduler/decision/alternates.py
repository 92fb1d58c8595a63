# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Alternates: further hosts for each placement, on which a failed build may be tried again.

Resources that are held for a build that may fail are lost to all other requests meanwhile. So all
that is held stays a small part of what is free; in a cloud that is nearly full nothing is held.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from inventory.fits import copies
from inventory.objects.instance_group import AFFINITY, ANTI_AFFINITY
from scheduler.decision.further_instances import FurtherInstances
from scheduler.decision.types import Placement
from scheduler.decision.weighing import Ranking
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# The share of the further instances that would fit, as 1 in N, that may be held alternates.
SHARE = 20
# The number of hosts on which instances are counted first, and how many times as many are next.
_BLOCK, _MORE = 128, 8


def add_alternates(
    hosts: HostTable,
    placements: Sequence[Placement],
    ranking: Ranking | FurtherInstances,
    count: int,
) -> list[Placement]:
    """Return placements with the best hosts of their cells, but for those that were chosen."""
    rows = {each.chosen.row for each in placements}
    cells = {each.chosen.cell_uuid for each in placements}
    spare = {cell: _best_of(hosts, ranking, cell, rows, count) for cell in cells}
    return [replace(each, alternates=spare[each.chosen.cell_uuid]) for each in placements]


def _best_of(
    hosts: HostTable,
    ranking: Ranking | FurtherInstances,
    cell: str | None,
    taken: Collection[int],
    count: int,
) -> tuple[Candidate, ...]:
    """Return the best hosts of a cell but for those that are taken."""
    looked_at = count + len(taken)
    while True:
        found = [
            at
            for at in ranking.best_first(looked_at)
            if (row := int(ranking.rows[at])) not in taken and hosts.get(row, "cell_uuid") == cell
        ]
        # Where most hosts are in other cells, more of the best have to be looked at.
        if len(found) >= count or looked_at >= len(ranking.remaining()):
            return tuple(ranking.candidate(hosts, at) for at in found[:count])
        looked_at *= 8


def limit_alternates(
    placements: Sequence[Placement], hosts: HostTable, spec: RequestSpec, rows: Rows
) -> list[Placement]:
    """Return placements with only those of their alternates that may be held.

    hosts is the table after the placements, rows are the remaining hosts of the request. The first
    alternates of all placements come before any second one.
    """
    most = max((len(each.alternates) for each in placements), default=0)
    if _are_enough(placements, hosts, spec, len(rows)):
        return [*placements]
    held = float(hosts.held_alternates[rows].sum())
    enough = SHARE * (held + most * len(placements))
    fitting = _count_fitting(hosts, spec, rows, placements[-1].taken, enough) if most else 0.0
    left = fitting / SHARE - held
    counts = [0] * len(placements)
    for _ in range(most):
        for place, each in enumerate(placements):
            if left >= 1 and counts[place] < len(each.alternates):
                counts[place] += 1
                left -= 1
    return [
        replace(each, alternates=each.alternates[:count])
        for each, count in zip(placements, counts, strict=True)
    ]


def _are_enough(
    placements: Sequence[Placement], hosts: HostTable, spec: RequestSpec, count: int
) -> bool:
    """Return whether all alternates may surely be held, which in most clouds needs no counting.

    Each of the remaining hosts, but perhaps those of the placements, takes one instance at least.
    """
    consumed = placements[-1].taken
    if not _can_be_held(spec, consumed) or spec.has_forced_target:
        return False
    wanted = sum(len(each.alternates) for each in placements)
    held = float(hosts.held_alternates.sum())
    return count - len(placements) >= SHARE * (held + wanted)


def _can_be_held(spec: RequestSpec, consumed: Consumption | None) -> bool:
    """Return whether alternates can be held: cells and devices are not claimed twice."""
    policy = spec.instance_group.policy if spec.instance_group else None
    # Affinity leaves no other host.
    return not (consumed is None or consumed.cells or consumed.devices or policy == AFFINITY)


def _count_fitting(
    hosts: HostTable, spec: RequestSpec, rows: Rows, consumed: Consumption | None, enough: float
) -> float:
    """Return how many more such instances fit on these hosts, 0 where none can be held.

    It stops counting when there are enough.
    """
    if consumed is None or not _can_be_held(spec, consumed):
        return 0.0
    policy = spec.instance_group.policy if spec.instance_group else None
    # With anti-affinity there is one member for each host.
    most = 1.0 if policy == ANTI_AFFINITY else np.inf
    fitting, start, size = 0.0, 0, _BLOCK
    while start < len(rows) and fitting < enough:
        fitting += float(_copies_on(hosts, rows[start : start + size], consumed, most).sum())
        start, size = start + size, size * _MORE
    return fitting


def _copies_on(hosts: HostTable, rows: Rows, consumed: Consumption, most: float) -> Weights:
    """Return for each of these hosts how many more such instances fit there, bounded by most."""
    found = np.full(len(rows), most)
    for kind in KINDS:
        if kind.limit in hosts.limits.columns:
            used, limits = kind.amounts(hosts, rows)[1], kind.limits(hosts.limits, rows)
            found = np.fmin(found, copies(limits, used, getattr(consumed, kind.name)))
    return found
