# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts: normalize the raw weights of each weigher, multiply and sum them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decision import picker
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, multipliers_of, raw_weights
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.host_state import Candidate, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

# The number of hosts that are summed at a time, so that they fit into the caches of a processor.
_BLOCK = 8192
# The ends of a range without hosts.
_EMPTY = (math.inf, -math.inf)
_ALL = slice(None)


def scale(raw: Weights, low: float, high: float) -> Weights:
    """Return (raw - low) / (high - low) for numbers from low to high, 0 where that is no range."""
    if high <= low:
        # All are equal, or below minval and so equal once they are clamped.
        return np.zeros(len(raw))
    if not math.isfinite(high - low):
        # The difference of two huge numbers is infinite; that of their halves is not.
        raw, low, high = raw / 2, low / 2, high / 2
    # Most ranges begin at 0, and a step less saves a sixth of the cost.
    return (raw - low if low else raw) / (high - low)


def scale_one(value: float, low: float, high: float) -> float:
    """Return scale() of a single number, clamped to the range first, equal to the last bit."""
    if high <= low:
        return 0.0
    value = min(max(value, low), high)
    if not math.isfinite(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low)


class WeigherScores:
    """The raw weights of some hosts by one weigher, and the range to which they are scaled.

    It begins at minval and ends at maxval, where they are given, else at the extremes of the raw
    weights, which are clamped to it. raw has an element for each host, as has multipliers unless
    there is one for all of them. Of hosts that are left out only the extremes are known: see
    leave_out().
    """

    def __init__(
        self, weigher: BaseHostWeigher, multipliers: float | Weights, raw: Weights
    ) -> None:
        self.weigher = weigher
        self.multipliers = multipliers
        self.raw = raw
        self.range = (0.0, 0.0)
        self.drift = 0.0
        self._clips = False
        self._outside = self._first = _EMPTY
        self._fixed: Weights | None = None
        if not self.measure(raw):
            self._fixed = self._shares_of_not_finite()

    @property
    def is_finite(self) -> bool:
        """Whether all raw weights are finite; only then they can be changed."""
        return self._fixed is None

    @property
    def is_zero(self) -> bool:
        """Whether the share of each host is 0, since all raw weights are equal."""
        return self.weigher.scales and self.is_finite and self.range[1] <= self.range[0]

    @property
    def max_share(self) -> float:
        """The largest absolute share that a host may have."""
        raw = 1.0 if self.weigher.scales else float(np.abs(self.raw).max())
        return raw * self._max_multiplier

    @property
    def _max_multiplier(self) -> float:
        if isinstance(self.multipliers, float):
            return abs(self.multipliers)
        return float(np.abs(self.multipliers).max())

    @property
    def is_unchanged(self) -> bool:
        """Whether the range is that of when hosts were left out."""
        return self.range == self._first

    def measure(self, raw: Weights) -> bool:
        """Set the range by these raw weights and those left out; return False if not finite."""
        # ndarray.min() and max() take longer.
        least, most = float(np.minimum.reduce(raw)), float(np.maximum.reduce(raw))
        if not math.isfinite(least) or not math.isfinite(most):
            return False
        least, most = min(least, self._outside[0]), max(most, self._outside[1])
        low, high = self.weigher.minval, self.weigher.maxval
        self.range = (least if low is None else low, most if high is None else high)
        self._clips = least < self.range[0] or most > self.range[1]
        if self._outside != _EMPTY:
            self.drift = self._max_growth()
        return True

    def keeps_range(self, before: float, after: float) -> bool:
        """Return whether the range surely stays when the weight of a host changes so."""
        low, high = self.range
        return low < before < high and low < after < high

    def shares(self, at: Rows | slice) -> Weights:
        """Return the shares of these hosts in their totals."""
        if self._fixed is not None:
            return self._fixed[at]
        return self.shares_of(self.raw[at], at)

    def shares_of(self, raw: Weights, at: Rows | slice) -> Weights:
        """Return the shares of these hosts for other raw weights."""
        multipliers = self.multipliers
        if not isinstance(multipliers, float):
            multipliers = multipliers[at]
        if not self.weigher.scales:
            return np.asarray(multipliers * raw)
        if self._clips:
            raw = np.minimum(np.maximum(raw, self.range[0]), self.range[1])
        shares = scale(raw, *self.range)
        if not isinstance(multipliers, float) or multipliers != 1.0:
            shares *= multipliers
        return shares

    def share_of(self, raw: float, at: int) -> float:
        """Return shares_of() of a single host."""
        multipliers = self.multipliers
        multiplier = multipliers if isinstance(multipliers, float) else float(multipliers[at])
        if not self.weigher.scales:
            return multiplier * raw
        return scale_one(raw, *self.range) * multiplier

    def change(self, at: Rows, raw: Weights) -> None:
        """Set the raw weights of some hosts."""
        if not self.raw.flags.writeable:
            self.raw = self.raw.copy()
        self.raw[at] = raw

    def select(self, at: Rows) -> None:
        """Drop all hosts but these."""
        self.raw = self.raw[at]
        if not isinstance(self.multipliers, float):
            self.multipliers = self.multipliers[at]

    def leave_out(self, raw: Weights) -> None:
        """Leave out hosts with these raw weights from now on, in place of any before."""
        self._outside = (float(raw.min()), float(raw.max())) if len(raw) else _EMPTY
        self._first, self.drift = self.range, 0.0

    def _max_growth(self) -> float:
        """Return by how much the share of a host left out may have grown since it was."""
        if self.range == self._first or not self.weigher.scales:
            return 0.0
        moved = (
            abs(scale_one(end, *self.range) - scale_one(end, *self._first)) for end in self._outside
        )
        return max(moved) * self._max_multiplier

    def _shares_of_not_finite(self) -> Weights:
        """Return the shares where some raw weights are not finite: these get the least share."""
        finite = np.isfinite(self.raw)
        if finite.any():
            self.measure(self.raw[finite])
        shares = self.shares_of(np.where(finite, self.raw, 0.0), _ALL)
        if self.weigher.scales:
            return np.where(finite, shares, np.minimum(self.multipliers, 0.0))
        return np.where(finite, shares, np.min(shares, where=finite, initial=0.0))


class Ranking(NamedTuple):
    """The total weight of each of these rows, and the scores of which it is the sum."""

    rows: Rows
    totals: Weights
    scores: Sequence[WeigherScores]

    def shares(self, positions: Rows | slice = _ALL) -> dict[str, Weights]:
        """Return the share of each weigher in the totals at these positions."""
        return {each.weigher.name: each.shares(positions) for each in self.scores}

    def left(self) -> Rows:
        """Return the rows of all hosts."""
        return self.rows

    def choose(self, choice: Choice) -> int:
        """Return the position of the chosen host."""
        return choice.among(self.totals)

    def best_first(self, count: int) -> list[int]:
        """Return the positions of the count best hosts, the first of equal ones first."""
        return picker.best_first(self.totals, count)

    def candidate(self, hosts: HostTable, position: int) -> Candidate:
        """Return the host at a position, with its limits and its weight."""
        row = int(self.rows[position])
        return candidate(hosts, row, hosts.limits.on(row), float(self.totals[position]))


def sum_scores(scores: Sequence[WeigherScores], count: int) -> Weights:
    """Return the total weights of so many hosts."""
    totals = np.zeros(count)
    scores = [each for each in scores if not each.is_zero]
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        for each in scores:
            totals[block] += each.shares(block)
    return totals


def weigh_hosts(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[BaseHostWeigher], rows: Rows
) -> Ranking:
    """Return the weights of these rows. A single host is not weighed at all."""
    if len(rows) < 2:
        return Ranking(rows, np.zeros(len(rows)), ())
    hosts.candidates = np.zeros(hosts.size, np.bool_)
    hosts.candidates[rows] = True
    scores: list[WeigherScores] = []
    for weigher in weighers:
        if not applies(weigher, spec):
            continue
        multipliers = multipliers_of(weigher, hosts, rows)
        if not (multipliers if isinstance(multipliers, float) else multipliers.any()):
            continue
        raw = raw_weights(hosts, weigher, spec)
        if raw is not None:
            raw = raw if len(rows) == len(raw) else raw.take(rows)
            scores.append(WeigherScores(weigher, multipliers, raw))
    return Ranking(rows, sum_scores(scores, len(rows)), scores)
