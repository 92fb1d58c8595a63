# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The total weights of hosts while one after the other takes an instance and changes.

Only the weights of that host change, and perhaps the range to which the weights of a weigher are
scaled. Of many hosts only the best are watched, that is weighed again each time, as long as no
other host can have become better: the ranges bound how much their totals may have grown.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from scheduler.decision import picker
from scheduler.decision.picker import Choice
from scheduler.decision.weighing import Ranking, sum_scores
from scheduler.hosts.columns import Mask, Rows, Weights
from scheduler.hosts.host_state import Candidate, candidate
from scheduler.hosts.table import HostTable

# How many of the best hosts are watched.
FEW = 256
# The largest rounding error of a total, as a part of all its summands.
_ROUNDING = 1e-12


class IncrementalRanking:
    """Totals of the hosts of some rows, as weigh_hosts() gives them, with every change of one host.

    few is how many hosts are watched, None for all of them. The host of the row `also` is watched
    until all are weighed again. rows and totals are those of the watched hosts, in the order of the
    table; indices are positions among them.
    """

    rows: Rows
    totals: Weights
    _positions: Rows
    _raw: Weights
    _shares: Weights

    def __init__(self, ranking: Ranking, few: int | None, also: int | None = None) -> None:
        self._all_rows = rows = ranking.rows
        self._scores = ranking.scores
        self._few = few
        self._left = np.ones(len(rows), np.bool_)
        self._count = len(rows)
        self._watch(ranking.totals, None if also is None else int(np.searchsorted(rows, also)))

    def __len__(self) -> int:
        """Return the number of remaining hosts."""
        return self._count

    def left(self) -> Rows:
        """Return the rows of all remaining hosts."""
        return self._all_rows[self._left]

    def best(self) -> int:
        """Return the index of the best host, the first of equal ones."""
        at = int(self.totals.argmax())
        if not self._is_best(at):
            self._weigh_all()
            at = int(self.totals.argmax())
        return at

    def choose(self, choice: Choice) -> int:
        """Return the index of the chosen host."""
        return self.best() if choice.takes_best else choice.among(self.totals)

    def best_first(self, count: int) -> list[int]:
        """Return the indices of the count best hosts, the first of equal ones first."""
        if self._few is not None and count > self._few:
            self._few = None
            self._weigh_all()
        found = picker.best_first(self.totals, count)
        if found and not self._is_best(found[-1]):
            self._weigh_all()
            found = picker.best_first(self.totals, count)
        return found

    def candidate(self, hosts: HostTable, at: int) -> Candidate:
        """Return the host at an index, with its limits and its weight."""
        row = int(self.rows[at])
        return candidate(hosts, row, hosts.limits.on(row), float(self.totals[at]))

    def shares(self, at: Rows) -> dict[str, Weights]:
        """Return the share of each weigher in the totals at these indices."""
        return dict(zip(self._names, self._shares[:, at], strict=True))

    def shares_of(self, at: int) -> dict[str, float]:
        """Return the share of each weigher in the total of a host."""
        return dict(zip(self._names, self._shares[:, at].tolist(), strict=True))

    def change_rows(self, rows: Rows, raw: Weights) -> None:
        """Set the raw weights of the hosts of some rows, a column of raw for each of them."""
        others = []
        for row, values in zip(rows.tolist(), raw.T.tolist(), strict=True):
            at = int(np.searchsorted(self.rows, row))
            if at < len(self.rows) and self.rows[at] == row:
                self.change(at, values)
            else:
                others.append((int(np.searchsorted(self._all_rows, row)), values))
        moved = [each for each in others if self._is_changed(*each)]
        for position, values in moved:
            for scores, value in zip(self._scores, values, strict=True):
                scores.change(np.array([position]), np.array([value]))
        if moved:
            self._weigh_all()

    def change(self, at: int, raw: Sequence[float]) -> None:
        """Set the raw weights of a host; those of a single host do not count."""
        if not self._scores:
            return
        moved, position = False, int(self._positions[at])
        before = self._raw[:, at].tolist()
        for index, scores in enumerate(self._scores):
            if before[index] == raw[index]:
                continue
            self._raw[index, at] = raw[index]
            if scores.keeps_range(before[index], raw[index]) or not self._measure(index):
                self._shares[index, at] = scores.share_of(raw[index], position)
            else:
                moved = True
        if moved:
            self._add_up()
        else:
            self.totals[at] = reduce(add, self._shares[:, at].tolist(), 0.0)

    def drop(self, at: int) -> None:
        """Remove a host."""
        self._left[self._positions[at]] = False
        self._count -= 1
        # A single column would be summed in another order than several.
        if self._count < 2 or len(self.rows) <= 2:
            self._weigh_all()
            return
        gone = self._raw[:, at].tolist()
        others = np.arange(len(self.rows)) != at
        self._positions, self.rows = self._positions[others], self.rows[others]
        self._raw, self._shares = self._raw[:, others], self._shares[:, others]
        self.totals = self.totals[others]
        # The host may have been an end of the range.
        moved = [
            self._measure(index)
            for index, scores in enumerate(self._scores)
            if not scores.keeps_range(gone[index], gone[index])
        ]
        if any(moved):
            self._add_up()

    def _is_changed(self, position: int, raw: Sequence[float]) -> bool:
        """Return whether other raw weights than these are known of a host that is not watched."""
        pairs = zip(self._scores, raw, strict=True)
        return any(float(scores.raw[position]) != value for scores, value in pairs)

    def _measure(self, index: int) -> bool:
        """Weigh the watched hosts by one weigher again if its range has changed; return that."""
        scores = self._scores[index]
        before = scores.range
        scores.measure(self._raw[index])
        if scores.range == before:
            return False
        self._shares[index] = scores.shares_of(self._raw[index], self._positions)
        return True

    def _add_up(self) -> None:
        # In this memory order sums are made weigher by weigher, as in sum_scores().
        self.totals = np.add.reduce(np.ascontiguousarray(self._shares), axis=0, initial=0.0)

    def _weigh_all(self) -> None:
        """Weigh all remaining hosts and watch the best of them."""
        for scores, raw in zip(self._scores, self._raw, strict=True):
            scores.change(self._positions, raw)
        if self._count < len(self._all_rows):
            left = np.flatnonzero(self._left)
            self._all_rows, self._left = self._all_rows[left], self._left[left]
            for scores in self._scores:
                scores.select(left)
        if self._count < 2:
            # A single host is not weighed at all.
            self._scores = ()
        for scores in self._scores:
            scores.leave_out(scores.raw[:0])
            scores.measure(scores.raw)
        self._watch(sum_scores(self._scores, self._count))

    def _watch(self, totals: Weights, also: int | None = None) -> None:
        """Watch the best hosts by these totals of all of them."""
        watched = _highest(totals, self._few)
        if also is not None:
            watched[also] = True
        self._positions, outside = np.flatnonzero(watched), np.flatnonzero(~watched)
        self.rows, self.totals = self._all_rows[self._positions], totals[self._positions]
        shape = len(self._scores), len(self._positions)
        raw = [each.raw[self._positions] for each in self._scores]
        shares = [each.shares(self._positions) for each in self._scores]
        self._raw, self._shares = np.reshape(raw, shape), np.reshape(shares, shape)
        for scores in self._scores:
            scores.leave_out(scores.raw[outside])
        self._best_outside, self._first_outside = -np.inf, len(self._all_rows)
        if len(outside):
            best = int(totals[outside].argmax())
            self._best_outside = float(totals[outside[best]])
            self._first_outside = int(outside[best])
        self._names = [each.weigher.name for each in self._scores]
        self._rounding = _ROUNDING * sum(each.max_share for each in self._scores)

    def _is_best(self, at: int) -> bool:
        """Return whether no host that is not watched can be better, or as good and earlier."""
        most, total = self._best_outside, float(self.totals[at])
        drift = sum(each.drift for each in self._scores)
        if total > most + drift + self._rounding:
            return True
        earlier = int(self._positions[at]) < self._first_outside
        return total == most and earlier and all(each.is_unchanged for each in self._scores)


def _highest(totals: Weights, few: int | None) -> Mask:
    """Return where the highest totals are, the first of equal ones; all where they are not many."""
    if few is None or len(totals) <= 2 * few:
        return np.ones(len(totals), np.bool_)
    least = np.partition(totals, len(totals) - few)[len(totals) - few]
    found = np.asarray(totals > least)
    equal = np.flatnonzero(totals == least)
    found[equal[: few - int(np.count_nonzero(found))]] = True
    return found
