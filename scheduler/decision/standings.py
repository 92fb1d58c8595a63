# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The total weights of hosts while one after the other takes an instance and changes.

Only the weights of that host change, and with them perhaps the range to which all weights of a
weigher are scaled. Of many hosts only the best are weighed anew each time, as long as none of the
others can have become better: how much their totals may have grown follows from the ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.decision.interfaces import Rows, Weigher
from scheduler.decision.scaling import Weights, between

# How many of the best are weighed anew each time.
FEW = 256
_NOBODY = (np.inf, -np.inf)
# What rounding may make of a total, as a part of all that it is added up from.
_ROUNDING = 1e-12


@dataclass(slots=True)
class Scale:
    """The raw weights of one weigher and the range to which they are scaled.

    raw and multipliers have an element for each host. outside are the least and the highest raw
    weight of those that are not looked at; spread is the highest multiplier, sign aside.
    """

    weigher: Weigher
    multipliers: float | Weights
    raw: Weights
    spread: float = 0.0
    outside: tuple[float, float] = _NOBODY
    range: tuple[float, float] = (0.0, 0.0)
    first: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.spread = float(np.max(np.abs(self.multipliers)))

    def measure(self, raw: Weights, outside: tuple[float, float]) -> tuple[float, float]:
        """Return the range for these raw weights and those that lie outside."""
        low, high = self.weigher.minval, self.weigher.maxval
        if low is None:
            low = min(float(raw.min()), outside[0])
        if high is None:
            high = max(float(raw.max()), outside[1])
        return low, high

    def shares(self, raw: Weights, multipliers: float | Weights) -> Weights:
        """Return the shares of these raw weights in the totals."""
        if not self.weigher.scales:
            return np.asarray(multipliers * raw)
        low, high = self.range
        if self.weigher.minval is not None or self.weigher.maxval is not None:
            raw = np.minimum(np.maximum(raw, low), high)
        return np.asarray(multipliers * between(raw, low, high))

    def multiplied(self, positions: Rows) -> float | Weights:
        """Return the multipliers of some hosts, or the one of all."""
        if isinstance(self.multipliers, float):
            return self.multipliers
        return self.multipliers[positions]

    def note_outside(self, raw: Weights) -> None:
        """Take these for the raw weights of the hosts that are not looked at from now on."""
        self.outside = (float(raw.min()), float(raw.max())) if len(raw) else _NOBODY
        self.first = self.range

    def drift(self) -> float:
        """Return by how much the share of a host outside may have grown since the first range."""
        if self.range == self.first or not self.weigher.scales or self.outside == _NOBODY:
            return 0.0
        ends = np.array(self.outside)
        before, now = (between(np.clip(ends, *each), *each) for each in (self.first, self.range))
        return self.spread * float(np.abs(now - before).max())


class Standings:
    """Totals of the hosts of some rows, as weighed() gives them, with every change of one host.

    few is how many are weighed anew each time; None for all of them. The host of the row also is
    looked at in any case, until all are weighed again. rows and totals are those of the hosts that
    are looked at, in the order of the table; indices are places among them.
    """

    rows: Rows
    totals: Weights
    _positions: Rows
    _raw: Weights
    _shares: Weights

    def __init__(
        self, rows: Rows, scales: Sequence[Scale], few: int | None = FEW, also: int | None = None
    ) -> None:
        self._all_rows = rows
        self._scales = scales
        self._few = few
        self._left = np.ones(len(rows), np.bool_)
        self._count = len(rows)
        self._rank(None if also is None else int(np.searchsorted(rows, also)))

    def __len__(self) -> int:
        """Return how many hosts are left."""
        return self._count

    def left(self) -> Rows:
        """Return the rows of all hosts that are left."""
        return self._all_rows[self._left]

    def best(self) -> int:
        """Return the index of the best host, the first of equal ones."""
        at = int(self.totals.argmax())
        if not self._is_best(at):
            self._rank()
            at = int(self.totals.argmax())
        return at

    def shares(self, at: int) -> dict[str, float]:
        """Return the share of each weigher in the total of a host."""
        if not len(self._shares):
            return {}
        column = self._shares[:, at].tolist()
        return {each.weigher.name: share for each, share in zip(self._scales, column, strict=True)}

    def change(self, at: int, raw: Sequence[float]) -> None:
        """Give a host other raw weights."""
        position = self._positions[at]
        for index, (scale, value) in enumerate(zip(self._scales, raw, strict=True)):
            scale.raw[position] = value
            if not len(self._shares) or self._raw[index, at] == value:
                continue
            self._raw[index, at] = value
            self._measure(index, scale)
        if len(self._shares):
            self.totals = self._shares.sum(axis=0)

    def _measure(self, index: int, scale: Scale) -> None:
        """Weigh the hosts that are looked at anew by one weigher."""
        scale.range = scale.measure(self._raw[index], scale.outside)
        self._shares[index] = scale.shares(self._raw[index], scale.multiplied(self._positions))

    def drop(self, at: int) -> None:
        """Leave out a host."""
        self._left[self._positions[at]] = False
        self._count -= 1
        if self._count < 2 or len(self.rows) == 1:
            if self._count:
                self._rank()
            return
        others = np.arange(len(self.rows)) != at
        self._positions, self.rows = self._positions[others], self.rows[others]
        self._raw = np.ascontiguousarray(self._raw[:, others])
        self._shares = np.ascontiguousarray(self._shares[:, others])
        for index, scale in enumerate(self._scales):
            # The host that is gone may have been an end of the range.
            if scale.measure(self._raw[index], scale.outside) != scale.range:
                self._measure(index, scale)
        self.totals = self._shares.sum(axis=0)

    def _rank(self, also: int | None = None) -> None:
        """Weigh all that are left, and find the best of them."""
        left = np.flatnonzero(self._left)
        # A single host is not weighed at all.
        scales = self._scales if len(left) > 1 else ()
        raw = np.array([each.raw[left] for each in scales]).reshape(len(scales), len(left))
        shares = np.empty_like(raw)
        for index, scale in enumerate(scales):
            scale.range = scale.measure(raw[index], _NOBODY)
            shares[index] = scale.shares(raw[index], scale.multiplied(left))
        totals = shares.sum(axis=0)
        looked_at = _highest(totals, self._few)
        if also is not None:
            looked_at[also] = True
        outside = ~looked_at
        self._positions = left[looked_at]
        self.rows, self.totals = self._all_rows[self._positions], totals[looked_at]
        # In this order sums are made weigher by weigher, as those of all hosts are.
        self._raw = np.ascontiguousarray(raw[:, looked_at])
        self._shares = np.ascontiguousarray(shares[:, looked_at])
        self._most_outside, self._first_outside = -np.inf, len(self._all_rows)
        for index, scale in enumerate(scales):
            scale.note_outside(raw[index][outside])
        if outside.any():
            self._most_outside = float(totals[outside].max())
            self._first_outside = int(left[outside][totals[outside].argmax()])
        self._size = float(np.abs(shares).max(axis=1).sum()) if len(scales) else 0.0

    def _is_best(self, at: int) -> bool:
        """Return whether no host that is not looked at can be better, or as good and earlier."""
        most, total = self._most_outside, float(self.totals[at])
        if total > most + sum(each.drift() for each in self._scales) + _ROUNDING * self._size:
            return True
        unmoved = all(each.range == each.first for each in self._scales)
        return unmoved and total == most and int(self._positions[at]) < self._first_outside


def _highest(totals: Weights, few: int | None) -> npt.NDArray[np.bool_]:
    """Return where the highest totals are, of equal ones the first; all where they are not many."""
    if few is None or len(totals) <= 2 * few:
        return np.ones(len(totals), np.bool_)
    least = np.partition(totals, len(totals) - few)[len(totals) - few]
    found = np.asarray(totals > least)
    equal = np.flatnonzero(totals == least)
    found[equal[: few - int(np.count_nonzero(found))]] = True
    return found
