# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rank hosts for further instances of a request, after the first has been decided on all hosts.

All instances of a request take the same, so only the host that took one has changed: it is asked
again, and the ranges of weights follow. Of many hosts the best are watched, that is weighed each
time, as long as no other host can have become better: ranges bound how much their totals grow.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decision import picker
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import ask_filter, weights_of
from scheduler.decision.types import Step, WeighedHost
from scheduler.decision.weighing import Ranking, Weighed
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# How many of the best hosts are watched.
WATCHED = 1024
# The largest rounding error of a total, as a part of the largest possible sum of shares.
_ROUNDING = 1e-12
# For how many instances a host is asked ahead, and how many that may be next are asked with it at
# most.
_AHEAD, _OTHERS = 32, 128


class _After(NamedTuple):
    """A host after an instance: its limits, and its raw weight from each weigher.

    refused_by is the first filter that refuses another instance there.
    """

    refused_by: BaseHostFilter | None
    limits: dict[str, float]
    raw: list[float]


class FurtherInstances:
    """The ranking of hosts for the next instance of a request; made once the first was placed.

    rows and totals are those of the watched hosts, in the order of the table; positions are among
    them. filters are those of each further instance, consumed is what each consumes, and count is
    how many instances follow.
    """

    def __init__(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        filters: Sequence[BaseHostFilter],
        ranking: Ranking,
        choice: Choice,
        consumed: Consumption,
        count: int,
    ) -> None:
        self._hosts = hosts
        # For an instance that is on no host yet.
        self._spec = spec.for_instance(None)
        self.consumed = consumed
        self._filters = filters
        self._weighers = [each.weigher for each in ranking.weighed]
        # A random choice looks at all totals.
        self._most = WATCHED if choice.takes_best else None
        self._others = min(_OTHERS, 2 * count)
        self._left = np.ones(len(ranking.rows), np.bool_)
        self._ahead: dict[int, list[_After]] = {}
        self._calls = Counter[int]()
        self.steps = self._steps_without(len(ranking.rows), None)
        self._refused = False
        self._watch(ranking)

    @property
    def rows(self) -> Rows:
        """The rows of the watched hosts."""
        return self._top.rows

    def remaining(self) -> Rows:
        """Return the rows of all hosts that remain."""
        return self._all.rows[self._left]

    def candidates(self) -> Mask:
        """Return the same as a mask of the table."""
        mask = np.zeros(self._hosts.size, np.bool_)
        mask[self.remaining()] = True
        return mask

    def follow(self, row: int, next_uuid: str | None) -> bool:
        """Take in that the host of a row took an instance; the next one is that of this uuid.

        Return False, and change nothing, where all remaining hosts have to be asked again.
        """
        hosts = self._hosts
        if hosts.group_counts is not None and next_uuid and hosts.instances.rows_of(next_uuid):
            # It is on a host already, where its group lets it stay.
            return False
        try:
            now = self._after(row)
        except Exception:
            # A plug-in has failed. Where all hosts are asked it is named.
            return False
        if not all(map(math.isfinite, now.raw)):
            return False
        if self._refused or now.refused_by:
            self.steps = self._steps_without(int(np.count_nonzero(self._left)), now.refused_by)
        self._refused = now.refused_by is not None
        position = int(self._all.rows.searchsorted(row))
        at = int(self._positions.searchsorted(position))
        if self._refused:
            self._drop(position, at)
            return True
        for name, limit in now.limits.items():
            hosts.limits.set_one(row, name, limit)
        if self._top.weighed:
            self._top.change(at, now.raw)
            self._all.raw[:, position] = now.raw
        return True

    def choose(self, choice: Choice) -> int:
        """Return the position of the chosen host."""
        position = self._top.choose(choice)
        if choice.takes_best and not self._are_best([position]):
            self._watch_again()
            position = self._top.choose(choice)
        return position

    def best_first(self, count: int) -> list[int]:
        """Return the positions of the count best hosts, the first of equal ones first."""
        if self._most is not None and count > self._most:
            self._most = None
            self._watch_again()
        found = self._top.best_first(count)
        if not self._are_best(found):
            self._watch_again()
            found = self._top.best_first(count)
        return found

    def weighed_host(self, node: tuple[str, str], position: int) -> WeighedHost:
        """Return the host at a position, a node, with the share of each weigher in its total."""
        return self._top.weighed_host(node, position)

    def candidate(self, hosts: HostTable, position: int) -> Candidate:
        """Return the host at a position, with its limits and its weight."""
        return self._top.candidate(hosts, position)

    def _watch(self, ranking: Ranking) -> None:
        """Watch the best of the hosts of a ranking."""
        self._all = ranking
        watched = picker.highest(ranking.totals, self._most)
        self._positions, outside = np.flatnonzero(watched), np.flatnonzero(~watched)
        self._outside = ranking.extremes(outside)
        self._top = ranking.part(self._positions, self._outside)
        self._first_ranges = [*self._top.ranges]  # A copy: those of the ranking move.
        self._best_outside, self._first_outside = -np.inf, len(ranking.rows)
        if len(outside):
            best = int(outside[ranking.totals[outside].argmax()])
            self._best_outside, self._first_outside = float(ranking.totals[best]), best

    def _watch_again(self) -> None:
        """Weigh all remaining hosts; a single one is not weighed at all."""
        left = np.flatnonzero(self._left)
        rows, self._left = self._all.rows[left], self._left[left]
        self._watch(Ranking(rows) if len(left) < 2 else self._all.part(left))

    def _drop(self, position: int, at: int) -> None:
        """Remove a host."""
        self._left[position] = False
        others = np.arange(len(self._positions)) != at
        if np.count_nonzero(self._left) < 2 or not others.any():
            self._watch_again()
            return
        self._positions = self._positions[others]
        self._top = self._top.part(np.flatnonzero(others), self._outside)

    def _are_best(self, found: Sequence[int]) -> bool:
        """Return whether no host that is not watched can be better, or as good and earlier."""
        if self._best_outside == -np.inf:
            return True
        if not found:
            return False
        most, total = self._best_outside, float(self._top.totals[found[-1]])
        if self._top.ranges == self._first_ranges:
            earlier = int(self._positions[found[-1]]) < self._first_outside
            return total > most or (total == most and earlier)
        drift, largest = 0.0, 0.0
        for at, each in enumerate(self._top.weighed):
            share, growth = self._growth(at, each)
            drift, largest = drift + growth, largest + share
        return total > most + drift + _ROUNDING * largest

    def _growth(self, at: int, weighed: Weighed) -> tuple[float, float]:
        """Return the largest share that a weigher gives, and by how much one outside has grown.

        Since the hosts were watched the range may have moved: shares of the extremes bound others.
        """
        factor = float(np.max(np.abs(weighed.multiplier)))
        if not weighed.weigher.scales:
            return factor * float(np.abs(self._all.raw[at]).max()), 0.0
        ends = np.array(self._outside[at])
        plain = Weighed(weighed.weigher, 1.0)
        found = [plain.shares(ends, each[at]) for each in (self._top.ranges, self._first_ranges)]
        now, before = (0.0 if each is None else each for each in found)
        return factor, factor * float(np.max(np.abs(now - before)))

    def _after(self, row: int) -> _After:
        """Return the host of a row as it is now, asked ahead where it is the first time."""
        ahead = self._ahead.get(row)
        if not ahead:
            ahead = self._ahead[row] = self._ask_ahead(row)
        return ahead.pop(0)

    def _ask_ahead(self, row: int) -> list[_After]:
        """Ask about a host as it is now and after further instances.

        Hosts that are likely to be next are asked about after one instance, in the same go.
        """
        count = min(2 ** self._calls[row], _AHEAD)
        self._calls[row] += 1
        likely = self._top.rows[
            np.flatnonzero(picker.highest(self._top.totals, self._others))
        ].tolist()
        others = [each for each in likely if each != row and not self._ahead.get(each)]
        rows, times = [row] * count + others, [*range(count), *[1] * len(others)]
        part = self._hosts.part(np.array(rows), self.consumed.changes, np.array(times))
        refused: list[BaseHostFilter | None] = [None] * len(rows)
        for rule in self._filters:
            mask = ask_filter(rule, part, self._spec)
            if mask is not None and not mask.all():
                for at in np.flatnonzero(~mask).tolist():
                    refused[at] = refused[at] or rule
        weights = [weights_of(each, part, self._spec) for each in self._weighers]
        raw = np.array(weights, float).reshape(-1, len(rows)).T.tolist()
        limits = {name: column.tolist() for name, column in part.limits.columns.items()}
        found = [
            _After(rule, {name: each[at] for name, each in limits.items()}, raw[at])
            for at, rule in enumerate(refused)
        ]
        self._ahead.update(zip(others, ([each] for each in found[count:]), strict=True))
        return found[:count]

    def _steps_without(self, left: int, refusing: BaseHostFilter | None) -> tuple[Step, ...]:
        """Return the steps of the next instance, for which this filter refuses one more host."""
        steps = []
        for rule in self._filters:
            before, left = left, left - (rule is refusing)
            steps.append(Step(rule.name, before, left))
            if not left:
                break
        return tuple(steps)
