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

from scheduler.decision.asking import declared
from scheduler.decision.forecast import Forecast
from scheduler.decision.host_state import BARE_METAL, candidate, promised_instance
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.outcome import Candidate, Placement, Step, WeighedHost
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies
from scheduler.decision.standings import FEW, Standings
from scheduler.decision.weighing import Weighed
from scheduler.objects.request_spec import RequestSpec

# The uuid of an instance that is none of the request, and the name of the host it is on.
_ANOTHER = "another"
# How many hosts that may be next are asked about together with the one that took an instance.
_OTHERS = 64


@dataclass(frozen=True, slots=True)
class First:
    """The first instance of a request, and what it leaves to those that follow.

    rules are the filters that are asked for each of them, rows the hosts that were left with their
    weights, narrowing the steps before the filters.
    """

    placement: Placement
    spec: RequestSpec
    rules: Sequence[Filter]
    rows: Rows
    weighed: Weighed
    narrowing: tuple[Step, ...] = ()


def following(hosts: HostTable, first: First, choice: Choice) -> "Further | None":
    """Return what places further instances, None where more can change than one host at a time."""
    spec, scales = first.spec, first.weighed.scales
    filters = [each for each in first.rules if applies(each, spec)]
    weighers = [each.weigher for each in scales]
    if first.placement.taken is None or not _is_plain(hosts, spec):
        return None
    plugins: list[Filter | Weigher] = [*filters, *weighers]
    if not all(_tells(each, spec) for each in plugins):
        return None
    if not all(each.is_known for each in scales):
        return None
    forecast = Forecast(hosts, spec, filters, weighers, first.placement)
    row = first.placement.chosen.row
    standings = Standings(first.rows, first.weighed, FEW if choice.takes_best else None, row)
    further = Further(hosts, first, forecast, standings, choice)
    further.follow(row)
    return further


def _is_plain(hosts: HostTable, spec: RequestSpec) -> bool:
    """Return whether an instance takes nothing but numbers, and the same everywhere.

    The first of a request was placed. Where it has been elsewhere before, its group has let it stay
    there, as it does nobody else; and all nodes of a host count its members.
    """
    if spec.is_rebuild or spec.numa_topology or spec.devices:
        return False
    if spec.instance_group:
        places = hosts.residents.rows_of(spec.instance_uuid or "")
        if len(places) > 1 or not hosts.names.are_single:
            return False
    return BARE_METAL not in hosts.distinct("hypervisor_type")


def _tells(plugin: Filter | Weigher, spec: RequestSpec) -> bool:
    """Return whether a plug-in says on what it depends, and asks the same for any instance."""
    asked = declared(plugin, spec)
    return asked is not None and asked == declared(plugin, spec.for_instance(_ANOTHER, [_ANOTHER]))


class Further:
    """Places one instance after the other; the host that took one is looked at again, no other.

    hosts stays as it is until finish() consumes what was taken.
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
        self._placed: dict[int, list[str | None]] = {}
        self._refused: list[int] = []
        # Whether a host has a weight that is no number, which only all of them together can show.
        self._lost = False
        self._steps = self._steps_without(None)

    def finish(self) -> Mask:
        """Consume what the instances take; return the hosts to ask about for the next one."""
        hosts, taken = self._hosts, self._first.placement.taken
        rows = list(self._placed)
        times = np.array([len(uuids) for uuids in self._placed.values()], np.int64)
        for name, change in (taken.changes if taken else {}).items():
            hosts.write(rows, name, (getattr(hosts, name)[rows] + change * times).tolist())
        if hosts.membership is not None:
            hosts.membership.add(rows, times)
        for row, uuids in self._placed.items():
            where = hosts.get(row, "host"), hosts.get(row, "nodename")
            promised = (promised_instance(self._first.spec, each, *where) for each in uuids if each)
            hosts.residents.change(row, {each.uuid: each for each in promised})
        mask = np.zeros(hosts.size, np.bool_)
        mask[self._standings.left()] = True
        mask[self._refused] = True
        return mask

    def follow(self, row: int) -> None:
        """Take in that the host of a row, one of those looked at, has taken an instance."""
        self._follow(int(np.searchsorted(self._standings.rows, row)), row)

    def place(self, uuid: str | None) -> Placement | None:
        """Place one instance; None where none is left, or all that are have to be asked."""
        standings, choice = self._standings, self._choice
        if self._lost or not len(standings) or self._is_there(uuid):
            return None
        at = standings.best() if choice.takes_best else choice.among(standings.totals)
        row, total, steps = int(standings.rows[at]), float(standings.totals[at]), self._steps
        chosen = self._candidate(row, total)
        weighed = (WeighedHost(chosen.host, chosen.nodename, total, standings.shares(at)),)
        self._placed.setdefault(row, []).append(uuid)
        self._follow(at, row)
        return Placement(uuid, chosen, steps, weighed, taken=self._first.placement.taken)

    def _is_there(self, uuid: str | None) -> bool:
        """Return whether an instance is on some host already, which its group does not forbid."""
        if self._hosts.membership is None or uuid is None:
            return False
        return bool(self._hosts.residents.rows_of(uuid))

    def _candidate(self, row: int, total: float) -> Candidate:
        limits = self._hosts.limits.on(row)
        if row in self._limits:
            limits |= self._limits[row]
            limits = {name: each for name, each in limits.items() if each == each}
        return candidate(self._hosts, row, limits, total)

    def _follow(self, at: int, row: int) -> None:
        now = self._forecast.after(row, self._likely)
        self._lost = not math.isfinite(sum(now.raw))
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
