# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Further instances of a request, each decided by what the one before it has changed.

That is one host, as long as all plug-ins declare what they depend on and instances take nothing but
numbers of it. The outcome is that of asking all plug-ins about all hosts again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.decision.asking import declared, raw_weights
from scheduler.decision.forecast import Forecast
from scheduler.decision.host_state import BARE_METAL, HostState, candidate
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.outcome import Placement, Step, WeighedHost
from scheduler.decision.picker import Choice
from scheduler.decision.standings import FEW, Scale, Standings
from scheduler.decision.weighing import counting
from scheduler.objects.request_spec import RequestSpec

# The uuid of an instance that is none of the request.
_ANOTHER = "another"
# How many hosts that may be next are asked about together with the one that took an instance.
_OTHERS = 64


@dataclass(frozen=True, slots=True)
class First:
    """The first instance of a request, and what it leaves to those that follow.

    rules are the filters that are asked for each of them, rows the hosts that were left, narrowing
    the steps before the filters.
    """

    placement: Placement
    spec: RequestSpec
    rules: Sequence[Filter]
    weighers: Sequence[Weigher]
    rows: Rows
    narrowing: tuple[Step, ...] = ()


def following(hosts: HostTable, first: First, choice: Choice) -> "Further | None":
    """Return what places further instances, None where more can change than one host at a time."""
    taken, spec = first.placement.taken, first.spec
    filters = [each for each in first.rules if each.applies(spec)]
    if taken is None or not _is_plain(hosts, spec):
        return None
    if not all(_tells(each, spec) for each in filters):
        return None
    scales = _scales(hosts, first)
    if scales is None:
        return None
    forecast = Forecast(hosts, spec, filters, [each.weigher for each in scales], taken)
    row = first.placement.chosen.row
    standings = Standings(first.rows, scales, FEW if choice.takes_best else None, row)
    further = Further(hosts, first, forecast, standings, choice)
    further.follow(row)
    return further


def _is_plain(hosts: HostTable, spec: RequestSpec) -> bool:
    """Return whether an instance takes nothing but numbers, and the same everywhere.

    The members of a group that are placed already count for the next one as well.
    """
    if spec.is_rebuild or spec.numa_topology or spec.pci_requests or spec.instance_group:
        return False
    return BARE_METAL not in hosts.distinct("hypervisor_type")


def _tells(plugin: Filter | Weigher, spec: RequestSpec) -> bool:
    """Return whether a plug-in says on what it depends, and asks the same for any instance."""
    asked = declared(plugin, spec)
    return asked is not None and asked == declared(plugin, spec.for_instance(_ANOTHER))


def _scales(hosts: HostTable, first: First) -> list[Scale] | None:
    """Return the weighers that count, None where any of them cannot be followed."""
    found = []
    for weigher, multipliers in counting(hosts, first.spec, first.weighers, first.rows):
        if not _tells(weigher, first.spec):
            return None
        raw = raw_weights(hosts, weigher, first.spec)[first.rows]
        if not np.isfinite(raw).all():
            return None
        found.append(Scale(weigher, multipliers, raw))
    return found


class Further:
    """Places one instance after the other; the host that took one is looked at again, no other.

    hosts is consumed.
    """

    def __init__(
        self,
        hosts: HostTable,
        first: First,
        forecast: Forecast,
        standings: Standings,
        choice: Choice,
    ) -> None:
        self._hosts = hosts
        self._first = first
        self._forecast = forecast
        self._standings = standings
        self._choice = choice
        self._limits: dict[int, dict[str, float]] = {}
        self._refused: list[int] = []
        # Whether a host has a weight that is no number, which only all of them together can show.
        self._lost = False
        self._steps = self._steps_without(None)

    @property
    def candidates(self) -> Mask:
        """The rows of the hosts to ask about for the next instance."""
        mask = np.zeros(self._hosts.size, np.bool_)
        mask[self._standings.left()] = True
        mask[self._refused] = True
        return mask

    def follow(self, row: int) -> None:
        """Take in that the host of a row, one of those looked at, has taken an instance."""
        self._follow(int(np.searchsorted(self._standings.rows, row)), row)

    def place(self, spec: RequestSpec) -> Placement | None:
        """Place one instance; None where no host is left."""
        standings, hosts = self._standings, self._hosts
        if self._lost or not len(standings):
            return None
        choice = self._choice
        at = standings.best() if choice.takes_best else choice.among(standings.totals)
        row, total, steps = int(standings.rows[at]), float(standings.totals[at]), self._steps
        limits = hosts.limits.on(row) | self._limits.get(row, {})
        limits = {name: each for name, each in limits.items() if each == each}
        state = HostState.of(hosts, row)
        chosen = candidate(state, limits, total)
        weighed = (WeighedHost(chosen.host, chosen.nodename, total, standings.shares(at)),)
        taken = state.consume_from_request(spec)
        self._follow(at, row)
        return Placement(spec.instance_uuid, chosen, steps, weighed, taken=taken)

    def _follow(self, at: int, row: int) -> None:
        now = self._forecast.after(row, self._likely)
        self._lost = not all(map(math.isfinite, now.raw))
        # The same for all instances between two refusals.
        if now.refused_by is not None or self._refused:
            self._steps = self._steps_without(now.refused_by)
        if now.refused_by is None:
            self._refused = []
            self._limits[row] = now.limits
            self._standings.change(at, now.raw)
        else:
            # The next instance is the first one for which it is refused.
            self._refused = [row]
            self._standings.drop(at)

    def _likely(self) -> list[int]:
        """Return the rows that are likely to be chosen next."""
        totals = self._standings.totals
        best = np.argpartition(-totals, _OTHERS)[:_OTHERS] if len(totals) > _OTHERS else slice(None)
        found: list[int] = self._standings.rows[best].tolist()
        return found

    def _steps_without(self, refusing: Filter | None) -> tuple[Step, ...]:
        """Return the steps of the next instance, for which this filter refuses one host more."""
        steps, left = [*self._first.narrowing], len(self._standings)
        for rule in self._first.rules:
            before, left = left, left - (rule is refusing)
            steps.append(Step(rule.name, before, left))
        return tuple(steps)
