# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why instances that the goal of a plan wants to move have no move."""

from collections.abc import Iterable

from scheduler.analysis.diagnosis import count_first_refusals, refusals
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Resident, Unplanned

# For how many instances without a host the reasons are looked up.
EXPLAINED = 10
# How many hosts that refuse an instance for the fewest reasons are named.
NEAREST = 3


def explain_unplanned(
    fleet: Fleet, residents: Iterable[Resident], before: int = 0
) -> list[Unplanned]:
    """Return why residents have no move, for the first few of a plan with figures of hosts.

    before is how many the plan has already; on many hosts the figures take a second.
    """
    return [_unplanned(fleet, each, at < EXPLAINED) for at, each in enumerate(residents, before)]


def _unplanned(fleet: Fleet, resident: Resident, explain: bool) -> Unplanned:
    place = fleet.place(resident.row)
    if resident.fixed is not None:
        return Unplanned(resident.uuid, place, resident.fixed)
    if not explain:
        return Unplanned(resident.uuid, place, "no host takes it")
    copy, spec = fleet.hosts.working_copy(), fleet.request(resident)
    found = refusals(copy, spec, fleet.plan)
    # That a host is down is a reason that people want to see, unless it is what they suppose.
    closed = (fleet.closed & ~fleet.down) | fleet.lost
    closed[resident.row] = True
    open_hosts = [each for row, each in found.items() if each and not closed[row]]
    open_hosts.sort(key=lambda each: (len(each), each[0].host, each[0].nodename))
    nearest = [
        (each.host, each.filter, each.reason) for some in open_hosts[:NEAREST] for each in some
    ]
    limits = count_first_refusals(open_hosts)
    return Unplanned(resident.uuid, place, "no host takes it", limits, nearest)
