# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Alternates: further hosts for each placement, on which a failed build may be tried again.

Resources that are held for a build that may fail are lost to all other requests meanwhile. So all
that is held stays a small part of what is free; in a cloud that is nearly full nothing is held.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inventory.fits import copies
from inventory.objects.instance_group import AFFINITY, ANTI_AFFINITY
from scheduler.decision import picker
from scheduler.decision.types import Placement
from scheduler.decision.weighing import Ranking
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# One in so many of the further instances that would fit may be an alternate that is held.
SHARE = 20
# The number of hosts on which instances are counted at a time.
_BLOCK = 1024


def add_alternates(
    hosts: HostTable, placements: Sequence[Placement], ranking: Ranking, count: int
) -> tuple[Placement, ...]:
    """Return placements with the best hosts of their cells, but for those that were chosen."""
    rows = [each.chosen.row for each in placements]
    cells = hosts.codes("cell_uuid")

    def best_of(cell: int) -> tuple[Candidate, ...]:
        spare = cells == cell
        spare[rows] = False
        positions = np.flatnonzero(spare[ranking.rows])
        best = positions[picker.best_first(ranking.totals[positions], count)]
        return tuple(ranking.candidate(hosts, int(position)) for position in best)

    spare = {cell: best_of(cell) for cell in {*cells[rows].tolist()}}
    return tuple(replace(each, alternates=spare[cells[each.chosen.row]]) for each in placements)


def limit_alternates(
    placements: Sequence[Placement], hosts: HostTable, spec: RequestSpec, rows: Rows
) -> tuple[Placement, ...]:
    """Return placements with only those of their alternates that may be held.

    hosts is the table after the placements, rows are the remaining hosts of the request. The first
    alternates of all placements come before any second one.
    """
    most = max((len(each.alternates) for each in placements), default=0)
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
    return tuple(
        replace(each, alternates=each.alternates[:count])
        for each, count in zip(placements, counts, strict=True)
    )


def _count_fitting(
    hosts: HostTable, spec: RequestSpec, rows: Rows, consumed: Consumption | None, enough: float
) -> float:
    """Return how many more such instances fit on these hosts, 0 where none can be held.

    It stops counting when there are enough.
    """
    policy = spec.instance_group.policy if spec.instance_group else None
    # Cells and devices are not claimed twice; affinity leaves no other host.
    if consumed is None or consumed.cells or consumed.devices or policy == AFFINITY:
        return 0.0
    # With anti-affinity there is one member for each host.
    most = 1.0 if policy == ANTI_AFFINITY else np.inf
    fitting = 0.0
    for start in range(0, len(rows), _BLOCK):
        fitting += float(_copies_on(hosts, rows[start : start + _BLOCK], consumed, most).sum())
        if fitting >= enough:
            break
    return fitting


def _copies_on(hosts: HostTable, rows: Rows, consumed: Consumption, most: float) -> Weights:
    """Return for each of these hosts how many more such instances fit there, at most so many."""
    used_ram_mb = hosts.total_usable_ram_mb[rows] - hosts.free_ram_mb[rows]
    used_disk_mb = hosts.total_usable_disk_gb[rows] * 1024 - hosts.free_disk_mb[rows]
    # (used, requested, how many of its unit are one of the limit's).
    amounts = {
        "vcpu": (hosts.vcpus_used[rows], consumed.vcpus, 1),
        "memory_mb": (used_ram_mb, consumed.memory_mb, 1),
        "disk_gb": (used_disk_mb, consumed.disk_mb, 1024),
    }
    found = np.full(len(rows), most)
    for name, limit in hosts.limits.columns.items():
        used, requested, unit = amounts[name]
        found = np.fmin(found, copies(limit[rows] * unit, used, requested))
    return found
