# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The total weights of hosts while one after the other takes an instance and changes.

Only the weights of that host change, and with them perhaps the range to which all weights of a
weigher are scaled. Of many hosts only the best are weighed anew each time, as long as none of the
others can have become better: how much their totals may have grown follows from the ranges.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from scheduler.decision.interfaces import Rows
from scheduler.decision.scale import added_up
from scheduler.decision.scaling import Weights
from scheduler.decision.weighing import Weighed

# How many of the best are weighed anew each time.
FEW = 256
# What rounding may make of a total, as a part of all that it is added up from.
_ROUNDING = 1e-12


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
        self, rows: Rows, first: Weighed, few: int | None = FEW, also: int | None = None
    ) -> None:
        self._all_rows = rows
        self._scales = first.scales
        self._few = few
        self._left = np.ones(len(rows), np.bool_)
        self._count = len(rows)
        self._look(first.totals, None if also is None else int(np.searchsorted(rows, also)))

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
            self._weigh_all()
            at = int(self.totals.argmax())
        return at

    def shares(self, at: int) -> dict[str, float]:
        """Return the share of each weigher in the total of a host."""
        return dict(zip(self._names, self._shares[:, at].tolist(), strict=True))

    def change(self, at: int, raw: Sequence[float]) -> None:
        """Give a host other raw weights; those of a single one do not count."""
        if not self._scales:
            return
        moved, position = False, int(self._positions[at])
        before = self._raw[:, at].tolist()
        for index, scale in enumerate(self._scales):
            if before[index] == raw[index]:
                continue
            self._raw[index, at] = raw[index]
            if scale.holds(before[index], raw[index]) or not self._measure(index):
                self._shares[index, at] = scale.share_of(raw[index], position)
            else:
                moved = True
        if moved:
            self._add_up()
        else:
            self.totals[at] = reduce(add, self._shares[:, at].tolist(), 0.0)

    def drop(self, at: int) -> None:
        """Leave out a host."""
        self._left[self._positions[at]] = False
        self._count -= 1
        # A single column would be added up in another order than several.
        if self._count < 2 or len(self.rows) <= 2:
            self._weigh_all()
            return
        gone = self._raw[:, at].tolist()
        others = np.arange(len(self.rows)) != at
        self._positions, self.rows = self._positions[others], self.rows[others]
        self._raw, self._shares = self._raw[:, others], self._shares[:, others]
        self.totals = self.totals[others]
        # The host that is gone may have been an end of the range.
        moved = [
            self._measure(index)
            for index, scale in enumerate(self._scales)
            if not scale.holds(gone[index], gone[index])
        ]
        if any(moved):
            self._add_up()

    def _measure(self, index: int) -> bool:
        """Weigh the hosts that are looked at anew by one weigher if its range has changed."""
        scale = self._scales[index]
        before = scale.range
        scale.measure(self._raw[index])
        if scale.range == before:
            return False
        self._shares[index] = scale.shares_of(self._raw[index], self._positions)
        return True

    def _add_up(self) -> None:
        # In this order sums are made weigher by weigher, as those of all hosts are.
        self.totals = np.add.reduce(np.ascontiguousarray(self._shares), axis=0, initial=0.0)

    def _weigh_all(self) -> None:
        """Weigh all that are left, and find the best of them."""
        for scale, raw in zip(self._scales, self._raw, strict=True):
            scale.change(self._positions, raw)
        if self._count < len(self._all_rows):
            left = np.flatnonzero(self._left)
            self._all_rows, self._left = self._all_rows[left], self._left[left]
            for scale in self._scales:
                scale.keep(left)
        if self._count < 2:
            # A single host is not weighed at all.
            self._scales = ()
        for scale in self._scales:
            scale.take_in()
            scale.measure(scale.raw)
        self._look(added_up(self._scales, self._count))

    def _look(self, totals: Weights, also: int | None = None) -> None:
        """Look at the best by these totals of all from now on."""
        looked_at = _highest(totals, self._few)
        if also is not None:
            looked_at[also] = True
        self._positions, outside = np.flatnonzero(looked_at), np.flatnonzero(~looked_at)
        self.rows, self.totals = self._all_rows[self._positions], totals[self._positions]
        shape = len(self._scales), len(self._positions)
        raw = [each.raw[self._positions] for each in self._scales]
        shares = [each.shares(self._positions) for each in self._scales]
        self._raw, self._shares = np.reshape(raw, shape), np.reshape(shares, shape)
        for scale in self._scales:
            scale.leave_out(scale.raw[outside])
        self._most_outside, self._first_outside = -np.inf, len(self._all_rows)
        if len(outside):
            best = int(totals[outside].argmax())
            self._most_outside = float(totals[outside[best]])
            self._first_outside = int(outside[best])
        self._names = [each.weigher.name for each in self._scales]
        self._rounding = _ROUNDING * sum(each.most for each in self._scales)

    def _is_best(self, at: int) -> bool:
        """Return whether no host that is not looked at can be better, or as good and earlier."""
        most, total = self._most_outside, float(self.totals[at])
        drift = sum(each.drift for each in self._scales)
        if total > most + drift + self._rounding:
            return True
        earlier = int(self._positions[at]) < self._first_outside
        return total == most and earlier and all(each.is_as_it_was for each in self._scales)


def _highest(totals: Weights, few: int | None) -> npt.NDArray[np.bool_]:
    """Return where the highest totals are, of equal ones the first; all where they are not many."""
    if few is None or len(totals) <= 2 * few:
        return np.ones(len(totals), np.bool_)
    least = np.partition(totals, len(totals) - few)[len(totals) - few]
    found = np.asarray(totals > least)
    equal = np.flatnonzero(totals == least)
    found[equal[: few - int(np.count_nonzero(found))]] = True
    return found
