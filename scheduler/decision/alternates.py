# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many alternates may be held for instances without refusing what would fit.

What is held for a build that may fail is lost to all others meanwhile. So all that is held stays a
small part of what is free: in a cloud that is nearly full there are no alternates.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inventory.fits import copies
from scheduler.decision.host_table import HostTable
from scheduler.decision.interfaces import Rows
from scheduler.decision.outcome import Placement, Taken
from scheduler.objects.instance_group import APART, TOGETHER
from scheduler.objects.request_spec import RequestSpec

# One in so many of the instances for which there is room may be an alternate that is held.
SHARE = 20


def held(
    placements: Sequence[Placement], hosts: HostTable, spec: RequestSpec, rows: Rows
) -> tuple[Placement, ...]:
    """Return placements with those of their alternates for which room may be held.

    hosts is as the placements leave it, rows are the hosts that are left for the request. The first
    alternates of all come before any second.
    """
    wanted = max((len(each.alternates) for each in placements), default=0)
    free = _room(hosts, spec, rows, placements[-1].taken) if wanted else 0.0
    left = free / SHARE - float(hosts.held_alternates[rows].sum())
    kept = [0] * len(placements)
    for _ in range(wanted):
        for place, each in enumerate(placements):
            if left >= 1 and kept[place] < len(each.alternates):
                kept[place] += 1
                left -= 1
    return tuple(
        replace(each, alternates=each.alternates[:count])
        for each, count in zip(placements, kept, strict=True)
    )


def _room(hosts: HostTable, spec: RequestSpec, rows: Rows, taken: Taken | None) -> float:
    """Return for how many more such instances these hosts have room, 0 where none can be held."""
    policy = spec.instance_group.policy if spec.instance_group else None
    # Cells and devices are not claimed twice, and who has to share a host cannot go to another.
    if taken is None or taken.cells or taken.devices or policy == TOGETHER:
        return 0.0
    used = {
        "vcpu": (hosts.vcpus_used, taken.vcpus, 1),
        "memory_mb": (hosts.total_usable_ram_mb - hosts.free_ram_mb, taken.memory_mb, 1),
        "disk_gb": (hosts.total_usable_disk_gb * 1024 - hosts.free_disk_mb, taken.disk_mb, 1024),
    }
    # One that is to be apart from others takes the whole host, as far as these are concerned.
    most = np.full(len(rows), 1.0 if policy == APART else np.inf)
    for name, limit in hosts.limits.columns.items():
        taken_there, requested, unit = used[name]
        fitting = copies(limit[rows] * unit, taken_there[rows], requested)
        most = np.fmin(most, fitting)
    return float(most.sum())
