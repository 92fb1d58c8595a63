# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Place the second and further instances of a request without deciding anew for each."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.base_plugin import BasePlugin
from scheduler.decision.incremental_ranking import FEW, IncrementalRanking
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, columns_of, declared, verdicts, weights_of
from scheduler.decision.types import Placement, Step, WeighedHost
from scheduler.decision.weighing import Ranking
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask, Rows, Weights
from scheduler.hosts.host_state import BARE_METAL, Candidate, assumed_instance, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

# The largest number of further instances to look ahead for a host that takes one after the other.
_MAX_AHEAD = 32
# How many hosts that may be next are looked at together with the one that took an instance.
_OTHERS = 64
# The uuid and the host of an instance that is not of the request.
_ANOTHER = "another"


@dataclass(frozen=True, slots=True)
class FirstPlacement:
    """The first instance of a request, and what further ones start from.

    rules are the filters of each further instance, ranking has the hosts that remained, steps are
    those before the filters.
    """

    placement: Placement
    spec: RequestSpec
    rules: Sequence[BaseHostFilter]
    ranking: Ranking
    steps: tuple[Step, ...] = ()


class LookaheadStep(NamedTuple):
    """A host after some instance: its limits, and its raw weight from each weigher.

    refused_by is the first filter that refuses another instance there.
    """

    refused_by: BaseHostFilter | None
    limits: dict[str, float]
    raw: tuple[float, ...]


class Lookahead:
    """What rows of a table become by further instances, all of which consume the same.

    All filters and weighers must declare their inputs (see plugin_calls). The table stays as it is:
    the first instance has been consumed on its row already, and no other.
    """

    def __init__(
        self, hosts: HostTable, first: FirstPlacement, filters: Sequence[BaseHostFilter]
    ) -> None:
        spec, taken = first.spec, first.placement.taken
        self._hosts = hosts
        # For an instance that is on no host yet.
        self._spec = spec.for_instance(None)
        self._filters = filters
        self._weighers = [each.weigher for each in first.ranking.scores]
        self._changes = taken.changes if taken else {}
        plugins: list[BasePlugin] = [*filters, *self._weighers]
        self._columns = {name for each in plugins for name in columns_of(each, spec) or ()}
        self._ahead: dict[int, deque[LookaheadStep]] = {}
        # The number of instances, besides those in the table, up to which rows were computed.
        self._known = {first.placement.chosen.row: -1}
        self._calls: dict[int, int] = {}

    def after(self, row: int, likely: Callable[[], Iterable[int]]) -> LookaheadStep:
        """Return the state of a row after one more instance.

        likely returns rows that may be next to take one: they are computed in the same go.
        """
        ahead = self._ahead.get(row)
        if not ahead:
            others = [each for each in likely() if each != row and not self._ahead.get(each)]
            ahead = self._compute(row, others)
        return ahead.popleft()

    def _compute(self, row: int, others: list[int]) -> deque[LookaheadStep]:
        count = min(2 ** self._calls.get(row, 0), _MAX_AHEAD)
        self._calls[row] = self._calls.get(row, 0) + 1
        rows = [row] * count + others
        times = []
        for each in rows:
            self._known[each] = self._known.get(each, 0) + 1
            times.append(self._known[each])
        found = self._steps(np.array(rows, np.int64), np.array(times, np.int64))
        for other, step in zip(others, found[count:], strict=True):
            self._ahead[other] = deque([step])
        self._ahead[row] = deque(found[:count])
        return self._ahead[row]

    def _steps(self, rows: Rows, times: Rows) -> list[LookaheadStep]:
        part = self._hosts.part(rows, self._columns, self._changes, times)
        refused: list[BaseHostFilter | None] = [None] * len(rows)
        limits: dict[str, list[float]] = {}
        for rule in self._filters:
            passes, columns = verdicts(rule, self._spec, part)
            limits |= {name: column.tolist() for name, column in columns.items()}
            for at in np.flatnonzero(~passes).tolist():
                refused[at] = refused[at] or rule
        raw = np.array([self._raw(each, part) for each in self._weighers])
        weights = raw.reshape(len(self._weighers), len(rows)).T.tolist()
        return [
            LookaheadStep(refused[at], {name: each[at] for name, each in limits.items()}, (*raw,))
            for at, raw in enumerate(weights)
        ]

    def _raw(self, weigher: BaseHostWeigher, part: HostTable) -> Weights:
        """Return the raw weights of these rows, NaN where the weigher fails.

        The next instance is decided on all hosts then, where a weigher that fails is left out.
        """
        try:
            return weights_of(weigher, part, self._spec)
        except Exception:
            return np.full(part.size, np.nan)


def batch_placer(hosts: HostTable, first: FirstPlacement, choice: Choice) -> "BatchPlacer | None":
    """Return a placer of further instances, None where more than one host at a time may change."""
    spec = first.spec
    filters = [each for each in first.rules if applies(each, spec)]
    if first.placement.taken is None or not consumes_numbers_only(hosts, spec):
        return None
    if spec.instance_group:
        # An anti-affinity group lets an instance stay where it is; nodes of a host share counts.
        present = hosts.instances.rows_of(spec.instance_uuid or "")
        if len(present) > 1 or not hosts.names.has_one_node_per_host:
            return None
    another = spec.for_instance(_ANOTHER, [_ANOTHER])
    plugins: list[BasePlugin] = [*filters, *(each.weigher for each in first.ranking.scores)]
    for each in plugins:
        # They must declare their inputs, and the same ones for any instance.
        inputs = declared(each, spec)
        if inputs is None or inputs != declared(each, another):
            return None
    if not all(each.is_finite for each in first.ranking.scores):
        return None
    return BatchPlacer(hosts, first, Lookahead(hosts, first, filters), choice)


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
        self, hosts: HostTable, first: FirstPlacement, lookahead: Lookahead, choice: Choice
    ) -> None:
        self._hosts = hosts
        self._first = first
        self._lookahead = lookahead
        self._choice = choice
        row, few = first.placement.chosen.row, FEW if choice.takes_best else None
        self._ranking = IncrementalRanking(first.ranking, few, row)
        self._limits: dict[int, dict[str, float]] = {}
        self._placed: dict[int, list[str | None]] = {}
        self._refused: list[int] = []
        # Whether a host has a weight that is not finite, which takes a decision on all hosts.
        self._is_lost = False
        self._steps = self._steps_without(None)
        self._update(int(np.searchsorted(self._ranking.rows, row)), row)

    def finish(self) -> Mask:
        """Consume what was placed; return the candidates for the next instance."""
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
        mask = np.zeros(hosts.size, np.bool_)
        mask[self._ranking.left()] = True
        mask[self._refused] = True
        return mask

    def place(self, uuid: str | None) -> Placement | None:
        """Place one instance; return None where that takes a decision on all hosts."""
        ranking, choice = self._ranking, self._choice
        if self._is_lost or not len(ranking) or self._is_present(uuid):
            return None
        at = ranking.best() if choice.takes_best else choice.among(ranking.totals)
        row, total, steps = int(ranking.rows[at]), float(ranking.totals[at]), self._steps
        chosen = self._candidate(row, total)
        weighed = (WeighedHost(chosen.host, chosen.nodename, total, ranking.shares(at)),)
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
        self._is_lost = not math.isfinite(sum(now.raw))
        # The steps are the same for all instances between two refusals.
        if now.refused_by is not None or self._refused:
            self._steps = self._steps_without(now.refused_by)
        if now.refused_by is None:
            self._refused = []
            self._limits[row] = now.limits
            self._ranking.change(at, now.raw)
        else:
            # The next instance is the first one for which it is refused.
            self._refused = [row]
            self._ranking.drop(at)

    def _likely(self) -> list[int]:
        """Return the rows that are likely to be chosen next."""
        totals = self._ranking.totals
        best = np.argpartition(-totals, _OTHERS)[:_OTHERS] if len(totals) > _OTHERS else slice(None)
        found: list[int] = self._ranking.rows[best].tolist()
        return found

    def _steps_without(self, refusing: BaseHostFilter | None) -> tuple[Step, ...]:
        """Return the steps of the next instance, for which this filter refuses one more host."""
        steps, left = [*self._first.steps], len(self._ranking)
        for rule in self._first.rules:
            before, left = left, left - (rule is refusing)
            steps.append(Step(rule.name, before, left))
        return tuple(steps)
