# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What one weigher adds to the total weights of hosts: its raw weights, scaled and multiplied."""

import math
from collections.abc import Sequence

import numpy as np

from scheduler.decision.interfaces import Rows, Weigher
from scheduler.decision.scaling import Weights, between, place_between, scaled

# So many hosts are added up at a time: what they take fits into the caches of a processor.
_BLOCK = 8192
# The ends of a range without hosts.
_NOBODY = (math.inf, -math.inf)


class Scale:
    """The raw weights of some hosts by one weigher, and the range to which they are scaled.

    raw has an element for each host, and multipliers as well unless there is one for all of them.
    The hosts that are outside, if any, are known by their ends alone: see leave_out().
    """

    __slots__ = (
        "_clips",
        "_first",
        "_given",
        "_outside",
        "drift",
        "multipliers",
        "range",
        "raw",
        "weigher",
    )

    def __init__(self, weigher: Weigher, multipliers: float | Weights, raw: Weights) -> None:
        self.weigher = weigher
        self.multipliers = multipliers
        self.raw = raw
        self.range = (0.0, 0.0)
        self.drift = 0.0
        self._clips = False
        self._outside = self._first = _NOBODY
        self._given: Weights | None = None
        if not self.measure(raw):
            self._given = _odd_shares(weigher, raw, multipliers)

    @property
    def is_known(self) -> bool:
        """Whether all raw weights are numbers; only then they can be changed."""
        return self._given is None

    @property
    def most(self) -> float:
        """The largest share that a host may have, sign aside."""
        raw = 1.0 if self.weigher.scales else float(np.abs(self.raw).max())
        return raw * self._spread

    @property
    def _spread(self) -> float:
        """The highest multiplier, sign aside."""
        if isinstance(self.multipliers, float):
            return abs(self.multipliers)
        return float(np.abs(self.multipliers).max())

    @property
    def is_as_it_was(self) -> bool:
        """Whether the range is that of when the hosts outside were left out."""
        return self.range == self._first

    def measure(self, raw: Weights) -> bool:
        """Scale to the range of these raw weights and those outside; False without a range."""
        # Their methods go a longer way to the same.
        least, most = float(np.minimum.reduce(raw)), float(np.maximum.reduce(raw))
        if not math.isfinite(least) or not math.isfinite(most):
            return False
        least, most = min(least, self._outside[0]), max(most, self._outside[1])
        low, high = self.weigher.minval, self.weigher.maxval
        self.range = (least if low is None else low, most if high is None else high)
        self._clips = least < self.range[0] or most > self.range[1]
        if self._outside != _NOBODY:
            self.drift = self._drifted()
        return True

    def holds(self, before: float, after: float) -> bool:
        """Return whether it is plain that the range stays when a host gets another weight."""
        low, high = self.range
        return low < before < high and low < after < high

    def shares(self, at: Rows | slice) -> Weights:
        """Return the shares of these hosts in their totals."""
        if self._given is not None:
            return self._given[at]
        return self.shares_of(self.raw[at], at)

    def shares_of(self, raw: Weights, at: Rows | slice) -> Weights:
        """Return the shares of these hosts if these are their raw weights."""
        multipliers = self.multipliers
        if not isinstance(multipliers, float):
            multipliers = multipliers[at]
        if not self.weigher.scales:
            return np.asarray(multipliers * raw)
        if self._clips:
            raw = np.minimum(np.maximum(raw, self.range[0]), self.range[1])
        shares = between(raw, *self.range)
        if not isinstance(multipliers, float) or multipliers != 1.0:
            shares *= multipliers
        return shares

    def share_of(self, raw: float, at: int) -> float:
        """Return the share of a host if this is its raw weight, as shares_of() does."""
        multipliers = self.multipliers
        multiplier = multipliers if isinstance(multipliers, float) else float(multipliers[at])
        if not self.weigher.scales:
            return multiplier * raw
        return place_between(raw, *self.range) * multiplier

    def change(self, at: Rows, raw: Weights) -> None:
        """Give some hosts other raw weights."""
        if not self.raw.flags.writeable:
            self.raw = self.raw.copy()
        self.raw[at] = raw

    def keep(self, at: Rows) -> None:
        """Forget all hosts but these, and that any were outside."""
        self.raw = self.raw[at]
        if not isinstance(self.multipliers, float):
            self.multipliers = self.multipliers[at]

    def leave_out(self, raw: Weights) -> None:
        """Take these for the raw weights of the hosts that are outside from now on."""
        self._outside = (float(raw.min()), float(raw.max())) if len(raw) else _NOBODY
        self._first, self.drift = self.range, 0.0

    def take_in(self) -> None:
        """Have no hosts outside any more."""
        self._outside = _NOBODY

    def _drifted(self) -> float:
        """Return by how much the share of a host outside may have grown since the first range."""
        if self.range == self._first or not self.weigher.scales:
            return 0.0
        moved = (
            abs(place_between(end, *self.range) - place_between(end, *self._first))
            for end in self._outside
        )
        return max(moved) * self._spread


def added_up(scales: Sequence[Scale], count: int) -> Weights:
    """Return the total weights of so many hosts."""
    totals = np.zeros(count)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        for each in scales:
            totals[block] += each.shares(block)
    return totals


def _odd_shares(weigher: Weigher, raw: Weights, multipliers: float | Weights) -> Weights:
    """Return the shares where some weights are no numbers: these get the least there is."""
    known = np.isfinite(raw)
    weights = scaled(raw, weigher.minval, weigher.maxval) if weigher.scales else raw
    share = np.asarray(multipliers * weights)
    if weigher.scales:
        return np.where(known, share, np.minimum(multipliers, 0.0))
    return np.where(known, share, np.min(share, where=known, initial=0.0))
