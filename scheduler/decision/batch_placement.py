# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Place the second and further instances of a request without deciding anew for each."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.base_plugin import BasePlugin
from scheduler.decision.incremental_ranking import FEW, IncrementalRanking
from scheduler.decision.lookahead import Lookahead
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, declared
from scheduler.decision.types import Placement, Step, WeighedHost
from scheduler.decision.weighing import Ranking
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import BARE_METAL, Candidate, assumed_instance, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# How many hosts that may be next are looked at together with the one that took an instance.
_OTHERS = 64
# The uuid and the host of an instance that is not of the request.
_ANOTHER = "another"


@dataclass(frozen=True, slots=True)
class FirstPlacement:
    """The first instance of a request, and what further ones start from.

    rules are the filters of each further instance, steps those before the filters.
    """

    placement: Placement
    spec: RequestSpec
    rules: Sequence[BaseHostFilter]
    steps: tuple[Step, ...] = ()


def batch_placer(
    hosts: HostTable, first: FirstPlacement, ranking: Ranking, choice: Choice
) -> "BatchPlacer | None":
    """Return a placer of further instances, None where more than one host at a time may change.

    ranking has the hosts that remained for the first instance.
    """
    spec = first.spec
    if first.placement.taken is None:
        return None
    if not consumes_numbers_only(hosts, spec) or not all(each.is_finite for each in ranking.scores):
        return None
    if spec.instance_group:
        # An anti-affinity group lets an instance stay where it is; nodes of a host share counts.
        present = hosts.instances.rows_of(spec.instance_uuid or "")
        if len(present) > 1 or not hosts.names.has_one_node_per_host:
            return None
    filters = [each for each in first.rules if applies(each, spec)]
    weighers = [each.weigher for each in ranking.scores]
    if not same_for_any_instance([*filters, *weighers], spec):
        return None
    lookahead = Lookahead(hosts, spec, filters, weighers, first.placement.taken.changes)
    row = first.placement.chosen.row
    weighed = IncrementalRanking(ranking, few_for(choice), row)
    return BatchPlacer(hosts, first, lookahead, weighed, choice)


def same_for_any_instance(plugins: Iterable[BasePlugin], spec: RequestSpec) -> bool:
    """Return whether these plug-ins declare their inputs, and the same ones for any instance."""
    another = spec.for_instance(_ANOTHER, [_ANOTHER])
    for each in plugins:
        inputs = declared(each, spec)
        if inputs is None or inputs != declared(each, another):
            return False
    return True


def few_for(choice: Choice) -> int | None:
    """Return of how many hosts the weights have to be known all the time, None for all."""
    return FEW if choice.takes_best else None


def consumes_numbers_only(hosts: HostTable, spec: RequestSpec) -> bool:
    """Return whether an instance consumes nothing but numbers, the same on each host."""
    if spec.is_rebuild or spec.numa_topology or spec.devices:
        return False
    return BARE_METAL not in hosts.distinct("hypervisor_type")


class BatchPlacer:
    """Places one instance after the other; only the host that took one is judged again.

    hosts stays as it is until finish() consumes what was placed.
    """

    def __init__(
        self,
        hosts: HostTable,
        first: FirstPlacement,
        lookahead: Lookahead,
        ranking: IncrementalRanking,
        choice: Choice,
    ) -> None:
        self._hosts = hosts
        self._first = first
        self._lookahead = lookahead
        self._choice = choice
        self.ranking = ranking
        row = first.placement.chosen.row
        # The table has the first instance already.
        lookahead.count(row, 1)
        self._limits: dict[int, dict[str, float]] = {}
        self._placed: dict[int, list[str | None]] = {}
        self._refused: list[int] = []
        self._count = len(ranking)
        # Whether a host has a weight that is not finite, which takes a decision on all hosts.
        self.is_lost = False
        self._steps = self._steps_without(None)
        self._update(int(np.searchsorted(self.ranking.rows, row)), row)

    @property
    def rows(self) -> Collection[int]:
        """The rows of the hosts that took instances."""
        return {self._first.placement.chosen.row, *self._placed}

    @property
    def has_all_hosts(self) -> bool:
        """Whether all hosts of the first instance remain, with weights, for the next one."""
        return not self.is_lost and not self._refused and len(self.ranking) == self._count

    def finish(self) -> None:
        """Consume what was placed."""
        hosts, taken = self._hosts, self._first.placement.taken
        rows = list(self._placed)
        times = np.array([len(uuids) for uuids in self._placed.values()], np.int64)
        for name, change in (taken.changes if taken else {}).items():
            hosts.write(rows, name, (getattr(hosts, name)[rows] + change * times).tolist())
        if hosts.group_counts is not None:
            hosts.group_counts.add(rows, times)
        for row, uuids in self._placed.items():
            node = hosts.get(row, "host"), hosts.get(row, "nodename")
            assumed = (assumed_instance(self._first.spec, each, *node) for each in uuids if each)
            hosts.instances.change(row, {each.uuid: each for each in assumed})
            self._lookahead.count(row, len(uuids))
        for row, limits in self._limits.items():
            for name, limit in limits.items():
                getattr(hosts.limits, name)[row] = limit

    def candidates(self) -> Mask:
        """Return the candidates for the next instance."""
        mask = np.zeros(self._hosts.size, np.bool_)
        mask[self.ranking.left()] = True
        mask[self._refused] = True
        return mask

    def place(self, uuid: str | None) -> Placement | None:
        """Place one instance; return None where that takes a decision on all hosts."""
        ranking, choice = self.ranking, self._choice
        if self.is_lost or not len(ranking) or self._is_present(uuid):
            return None
        at = ranking.choose(choice)
        row, total, steps = int(ranking.rows[at]), float(ranking.totals[at]), self._steps
        chosen = self._candidate(row, total)
        weighed = (WeighedHost(chosen.host, chosen.nodename, total, ranking.shares_of(at)),)
        self._placed.setdefault(row, []).append(uuid)
        self._update(at, row)
        return Placement(uuid, chosen, steps, weighed, taken=self._first.placement.taken)

    def _is_present(self, uuid: str | None) -> bool:
        """Return whether an instance is on some host already, where its group lets it stay."""
        if self._hosts.group_counts is None or uuid is None:
            return False
        return bool(self._hosts.instances.rows_of(uuid))

    def _candidate(self, row: int, total: float) -> Candidate:
        limits = self._hosts.limits.on(row)
        if row in self._limits:
            limits |= self._limits[row]
            limits = {name: each for name, each in limits.items() if each == each}
        return candidate(self._hosts, row, limits, total)

    def _update(self, at: int, row: int) -> None:
        """Count an instance on the host of a row, which is at this index of the ranking."""
        now = self._lookahead.after(row, self._likely)
        self.is_lost = not math.isfinite(sum(now.raw))
        # The steps are the same for all instances between two refusals.
        if now.refused_by is not None or self._refused:
            self._steps = self._steps_without(now.refused_by)
        if now.refused_by is None:
            self._refused = []
            self._limits[row] = now.limits
            self.ranking.change(at, now.raw)
        else:
            # The next instance is the first one for which it is refused.
            self._refused = [row]
            self.ranking.drop(at)

    def _likely(self) -> list[int]:
        """Return the rows that are likely to be chosen next."""
        totals = self.ranking.totals
        best = np.argpartition(-totals, _OTHERS)[:_OTHERS] if len(totals) > _OTHERS else slice(None)
        found: list[int] = self.ranking.rows[best].tolist()
        return found

    def _steps_without(self, refusing: BaseHostFilter | None) -> tuple[Step, ...]:
        """Return the steps of the next instance, for which this filter refuses one more host."""
        steps, left = [*self._first.steps], len(self.ranking)
        for rule in self._first.rules:
            before, left = left, left - (rule is refusing)
            steps.append(Step(rule.name, before, left))
        return tuple(steps)
