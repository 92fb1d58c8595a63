# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Choose a host by the weights."""

from functools import cached_property
from random import Random

import numpy as np
import numpy.typing as npt

from scheduler.hosts.columns import Mask, Weights

# Up to this number of the best are found one by one, which is quicker than sorting all.
_FEW = 8
# The largest difference of totals that count as nearly equal, as a part of their range.
NEARLY = 0.01


class Choice:
    """How one of the subset_size best hosts is chosen, each with the same probability.

    With shuffle, hosts that share the best total change places at random first. With more choices
    than subset_size, those that are nearly as good as the best may be drawn as well. takes_best is
    set where it is always the best host, the first of equal ones.
    """

    def __init__(
        self, seed: int = 0, subset_size: int = 1, shuffle: bool = False, choices: int = 1
    ) -> None:
        self.subset_size, self.shuffle, self.choices = subset_size, shuffle, choices
        self.takes_best = subset_size == 1 and not shuffle and choices <= 1
        self._seed = seed

    @cached_property
    def chance(self) -> Random:
        """What draws. Most decisions do not, and it takes a while to seed."""
        return Random(self._seed)

    def among(self, totals: Weights) -> int:
        """Return the position of the chosen host."""
        if self.takes_best:
            return int(totals.argmax())
        if self.choices > self.subset_size:
            return self.chance.choice(self._nearly_best(totals))
        if self.subset_size == 1:
            return int(self.chance.choice(_equal_best(totals).tolist()))
        order = best_first(totals, self.subset_size)
        if self.shuffle:
            best = _equal_best(totals)
            if len(best) > 1:
                shuffled = self.chance.sample(best.tolist(), len(best))
                order = [*shuffled, *(position for position in order if position not in best)]
        return self.chance.choice(order[: self.subset_size])

    def drawn_from(self, totals: Weights) -> int:
        """Return how many hosts may be chosen."""
        if self.choices > self.subset_size:
            return len(self._nearly_best(totals))
        equal = len(_equal_best(totals)) if self.shuffle else 1
        return min(len(totals), max(self.subset_size, equal))

    def _nearly_best(self, totals: Weights) -> list[int]:
        """Return the positions of the best, and of nearly as good ones up to choices."""
        order = best_first(totals, self.choices)
        least = totals[order[0]] - NEARLY * (totals[order[0]] - totals.min())
        good = [each for each in order[self.subset_size :] if totals[each] >= least]
        return [*order[: self.subset_size], *good]


def best_first(totals: Weights, count: int) -> list[int]:
    """Return the positions of the count highest totals, the first of equal ones first."""
    count = min(count, len(totals))
    if count > _FEW:
        least = np.partition(totals, len(totals) - count)[len(totals) - count]
        good = np.flatnonzero(totals >= least)
        return list(good[np.argsort(-totals[good], kind="stable")][:count].tolist())
    order: list[int] = []
    found: list[float] = []
    for _ in range(count):
        order.append(int(totals.argmax()))
        found.append(totals.item(order[-1]))
        totals[order[-1]] = -np.inf
    # In place and back, since a copy costs more than the search.
    totals[order] = found
    return order


def _equal_best(totals: Weights) -> npt.NDArray[np.int64]:
    return np.flatnonzero(totals == totals.max())


def highest(totals: Weights, most: int | None) -> Mask:
    """Return where the highest totals are, the first of equal ones; all where they are not many."""
    if most is None or len(totals) <= 2 * most:
        return np.ones(len(totals), np.bool_)
    least = np.partition(totals, len(totals) - most)[len(totals) - most]
    found = np.asarray(totals > least)
    equal = np.flatnonzero(totals == least)
    found[equal[: most - int(np.count_nonzero(found))]] = True
    return found
