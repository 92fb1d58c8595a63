# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan how to empty as many hosts as possible with few moves.

Hosts are emptied one after the other, those with the least to move first, onto hosts that stay.
These only take instances and the others only give some, so that the moves do not depend on each
other. Then some of the emptied hosts are filled again and others emptied instead, as long as that
is better.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np

from scheduler.decision.plugin_calls import weights_of
from scheduler.hosts.flavor_mix import make_mix
from scheduler.hosts.resources import resources
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Budget, KeepGoing, MovePlan, Resident, cost_of
from scheduler.weighers.flavor_mix import FlavorMixWeigher

# Of the emptied hosts and of the others, how many are exchanged at a time.
EXCHANGED = 3
# The search ends after this many exchanges without a better plan.
PATIENCE = 200


def consolidate(fleet: Fleet, budget: Budget, seed: int, keep_going: KeepGoing) -> MovePlan:
    """Return the moves that empty as many hosts as can be within the budget.

    Hosts that are disabled, down or closed neither give nor take an instance; those with instances
    that cannot be moved give none. The same seed gives the same plan unless time runs out.
    """
    run = _Consolidation(fleet, budget)
    run.empty_all(keep_going)
    run.exchange(Random(seed), keep_going)
    hosts = sorted(fleet.place(row).host for row in run.emptied)
    return MovePlan("consolidate", fleet.moves, (), {"emptied": hosts})


def most_emptied(fleet: Fleet) -> int:
    """Return how many of the hosts with instances could be emptied if instances could be divided.

    No plan empties more: what is in use of each resource has to fit on those that stay. A resource
    of which more is in use than hosts may give evidently bounds nothing.
    """
    occupied = [row for row in fleet.hosts.instances.occupied() if not fleet.closed[row]]
    needed = min(1, len(occupied))
    for each in resources(fleet.hosts):
        limits = np.sort(each.limit[occupied])[::-1].cumsum()
        used = float((each.limit - each.free)[occupied].sum())
        if used <= limits.max(initial=0.0):
            needed = max(needed, 1 + int(np.searchsorted(limits, used)))
    return len(occupied) - min(needed, len(occupied))


class _Consolidation:
    def __init__(self, fleet: Fleet, budget: Budget) -> None:
        self._fleet, self._budget = fleet, budget
        self.emptied: dict[int, list[Resident]] = {}
        # How many instances came to each row.
        self._taken: Counter[int] = Counter()
        self._cost = cost_of(())
        hosts = fleet.hosts
        sizes = Counter(
            (each.spec.vcpus, each.spec.memory_mb, each.spec.disk_mb)
            for each in fleet.residents.values()
        )
        hosts.set_flavor_mix(make_mix(sizes))
        self._weigher = FlavorMixWeigher()
        # An empty host that takes instances is one less that is empty.
        occupied = hosts.num_instances > 0
        occupied[[*hosts.instances.occupied()]] = True
        fleet.closed = fleet.closed | ~occupied | hosts.service_disabled
        usual = np.flatnonzero(hosts.served & ~fleet.closed).tolist()
        self._candidates = [row for row in usual if self._is_movable(row)]

    def _is_movable(self, row: int) -> bool:
        hosts, here = self._fleet.hosts, self._fleet.on(row)
        known = {each.uuid for each in here if each.fixed is None}
        is_all = known == hosts.instances.on(row).keys()
        return is_all and hosts.get(row, "num_instances") <= len(known)

    def _by_cost(self, rows: Iterable[int]) -> list[int]:
        return sorted(rows, key=lambda row: (cost_of(self._fleet.on(row)), row))

    def empty_all(self, keep_going: KeepGoing) -> None:
        """Empty as many rows as can be, those that take the least first."""
        order = self._by_cost(self._candidates)
        # Those that come first are likely to be emptied: what goes there would move in vain.
        self._fleet.avoided[order[: most_emptied(self._fleet)]] = True
        for row in order:
            if keep_going():
                self._empty(row)
        self._fleet.avoided[:] = False

    def exchange(self, chance: Random, keep_going: KeepGoing) -> None:
        """Fill some emptied rows again and empty others instead, as long as that is better."""
        waiting = PATIENCE
        while waiting and self.emptied and keep_going():
            waiting -= 1
            mark, value = self._fleet.mark(), self._value()
            filled = _some(chance, [*self.emptied])
            others = [
                row for row in self._candidates if row not in self.emptied and not self._taken[row]
            ]
            for row in filled:
                self._fill_again(row)
            for row in (*_some(chance, others), *self._by_cost(filled), *_some(chance, others)):
                self._empty(row)
            if self._value() > value:
                waiting = PATIENCE
            else:
                self._fleet.roll_back(mark)

    def _value(self) -> tuple[int, int, int]:
        return len(self.emptied), -self._cost.moves, -self._cost.memory_mb

    def _empty(self, row: int) -> None:
        """Move all instances of a row to others, within the budget, or change nothing."""
        fleet = self._fleet
        here = sorted(fleet.on(row), key=lambda each: each.size_order)
        cost = self._cost.plus(cost_of(here))
        if not here or self._taken[row] or not self._budget.has(cost):
            return
        mark, reason = fleet.mark(), f"empties {fleet.place(row).host}"
        self._apply(row, here, is_emptied=True)
        for each in here:
            target = self._fullest(each)
            if target is None:
                fleet.roll_back(mark)
                return
            fleet.move(each, target, reason)
            self._count_taken(target, 1)

    def _fullest(self, resident: Resident) -> int | None:
        """Return the row on which a resident costs the least room for all sizes of the fleet."""
        spec = self._fleet.request(resident)
        copy, mask = self._fleet.passing(spec)
        if not mask.any():
            return None
        weights = weights_of(self._weigher, copy, spec)
        assert weights is not None
        rows = np.flatnonzero(self._fleet.preferred(mask))
        return int(rows[np.argmax(weights[rows])])

    def _fill_again(self, row: int) -> None:
        here = self.emptied[row]
        for each in here:
            self._count_taken(each.row, -1)
            self._fleet.take_back(each)
        self._apply(row, here, is_emptied=False)

    def _apply(self, row: int, here: list[Resident], is_emptied: bool) -> None:
        """Note that a row is emptied or is not, so that it can be undone."""

        def note(is_emptied: bool) -> None:
            self._fleet.closed[row] = is_emptied
            self._cost = self._cost.plus(cost_of(here), 1 if is_emptied else -1)
            if is_emptied:
                self.emptied[row] = here
            else:
                del self.emptied[row]

        self._fleet.apply(lambda: note(is_emptied), lambda: note(not is_emptied))

    def _count_taken(self, row: int, change: int) -> None:
        def note(change: int) -> None:
            self._taken[row] += change

        self._fleet.apply(lambda: note(change), lambda: note(-change))


def _some(chance: Random, rows: Sequence[int]) -> list[int]:
    return chance.sample(rows, min(len(rows), EXCHANGED))
