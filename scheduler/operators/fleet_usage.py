# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a fleet is used: shares in use, free but of no use for the mix, empty hosts, promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from inventory.fits import copies_of_each
from inventory.objects.amounts import Amounts, amounts_facts, plus
from inventory.promises import Promises, total
from scheduler.hosts.columns import Weights
from scheduler.hosts.flavor_mix import FlavorArrays, FlavorMix
from scheduler.hosts.resources import KINDS, Resource, resources
from scheduler.hosts.table import HostTable

RESOURCES = ("vcpus", "memory", "disk")
# Of the hosts with instances, this share is emptied in the count of moves.
DRAINED = 0.1


@dataclass(frozen=True, slots=True)
class FleetUsage:
    """Shares of the limits of all hosts together, from 0 to 1, by resource; 0 where there is none.

    stranded is free on hosts on which a flavor does not fit, each flavor of the mix counted by its
    share of requests. drain_moves is how many instances the tenth of the occupied hosts with the
    fewest of them has.
    """

    hosts: int
    empty_hosts: int
    instances: int
    used: Mapping[str, float]
    stranded: Mapping[str, float]
    drain_moves: int


def fleet_usage(hosts: HostTable, mix: FlavorMix) -> FleetUsage:
    present = hosts.present
    every = [Resource(*(column[present] for column in each)) for each in resources(hosts)]
    counts = hosts.num_instances[present]
    occupied = np.sort(counts[counts > 0])
    drained = -(-len(occupied) // round(1 / DRAINED))
    return FleetUsage(
        hosts=len(hosts),
        empty_hosts=int(np.count_nonzero(counts <= 0)),
        instances=int(occupied.sum()),
        used=_shares(every, [each.limit - each.free for each in every]),
        stranded=_shares(every, _stranded(every, mix)),
        drain_moves=int(occupied[:drained].sum()),
    )


@dataclass(frozen=True, slots=True)
class FleetRoom:
    """What is used by instances on all hosts, what is held for whom, and what is free.

    What instances use includes what is reserved for the hosts; free is of what may be allocated.
    """

    used_by_instances: Amounts
    promises: Promises
    free: Amounts

    def lines(self) -> list[tuple[str, Amounts]]:
        parts = ("used by instances", self.used_by_instances), *self.promises.lines()
        return [*parts, ("free", self.free)]

    def facts(self) -> dict[str, Any]:
        used, free = map(amounts_facts, (self.used_by_instances, self.free))
        return {"used_by_instances": used, **self.promises.facts(), "free": free}


def fleet_room(hosts: HostTable) -> FleetRoom:
    """Return who has the room of the hosts of a table, by its promises."""
    rows = np.flatnonzero(hosts.present)
    known = (hosts.promises.get(node_id) for node_id in hosts.node_id[rows].tolist())
    promises = total(each for each in known if each)
    used = _amounts([kind.amounts(hosts, rows)[1] for kind in KINDS])
    # A host that is over its limit takes nothing of what others have free.
    free = _amounts([np.maximum(each.free[rows], 0.0) for each in resources(hosts)])
    return FleetRoom(plus(used, promises.held, -1), promises, free)


def _amounts(every: list[Weights]) -> Amounts:
    vcpus, memory_mb, disk_mb = (int(each.sum()) for each in every)
    return vcpus, memory_mb, disk_mb


def _stranded(every: list[Resource], mix: FlavorMix) -> list[Weights]:
    """Return what of the free amounts is of no use on each host, by resource."""
    if not mix:
        return [np.zeros(len(each.free)) for each in every]
    flavors = FlavorArrays.of(mix)
    fits = copies_of_each([each.free for each in every], flavors.inverses) > 0
    for each, needs in zip(every, flavors.needs, strict=True):
        fits &= ~np.less.outer(each.total, needs)
    useless = 1.0 - fits @ flavors.shares
    return [np.maximum(each.free, 0.0) * np.maximum(useless, 0.0) for each in every]


def _shares(every: list[Resource], amounts: list[Weights]) -> dict[str, float]:
    found = {}
    for name, each, amount in zip(RESOURCES, every, amounts, strict=True):
        total = float(each.limit.sum())
        found[name] = float(amount[each.limit > 0].sum()) / total if total else 0.0
    return found
