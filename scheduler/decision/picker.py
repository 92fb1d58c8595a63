# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From weights to a choice."""

from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from scheduler.decision.scaling import Weights

# Up to this many of the best are found one by one, which is quicker than sorting all.
_FEW = 8
# By what part of the range of all totals two that count as equally good may differ.
NEARLY = 0.01


@dataclass(frozen=True, slots=True)
class Choice:
    """How one of the best is chosen; see pick()."""

    chance: Random
    subset_size: int = 1
    shuffle: bool = False
    choices: int = 1

    @property
    def takes_best(self) -> bool:
        """Whether it is always the best, of equal ones the first."""
        return self.subset_size == 1 and not self.shuffle and self.choices <= 1

    def among(self, totals: Weights) -> int:
        """Return the position of the one that is chosen."""
        return pick(totals, self.subset_size, self.shuffle, self.chance, self.choices)

    def drawn_from(self, totals: Weights) -> int:
        """Return how many of the best may be chosen."""
        if self.choices > self.subset_size:
            return len(_good(totals, self.subset_size, self.choices))
        equal = len(_equal_best(totals)) if self.shuffle else 1
        return min(len(totals), max(self.subset_size, equal))


def best_first(totals: Weights, count: int) -> list[int]:
    """Return the positions of the count highest totals; of equal ones the earlier comes first."""
    count = min(count, len(totals))
    if count > _FEW:
        least = np.partition(totals, len(totals) - count)[len(totals) - count]
        good = np.flatnonzero(totals >= least)
        return list(good[np.argsort(-totals[good], kind="stable")][:count].tolist())
    order: list[int] = []
    found: list[float] = []
    for _ in range(count):
        order.append(int(totals.argmax()))
        found.append(float(totals[order[-1]]))
        totals[order[-1]] = -np.inf
    # In place and back, since a copy costs more than the search.
    totals[order] = found
    return order


def pick(totals: Weights, subset_size: int, shuffle: bool, chance: Random, choices: int = 1) -> int:
    """Return the position that is chosen.

    With shuffle, hosts that share the best total change places at random first; then one of the
    subset_size best is drawn, each with the same probability. With more choices than that, those
    that are nearly as good as the best are drawn from as well.
    """
    if choices > subset_size:
        return chance.choice(_good(totals, subset_size, choices))
    if subset_size == 1:
        if not shuffle:
            return int(np.argmax(totals))
        return int(chance.choice(_equal_best(totals).tolist()))
    order = best_first(totals, subset_size)
    if shuffle:
        best = _equal_best(totals)
        if len(best) > 1:
            shuffled = chance.sample(best.tolist(), len(best))
            order = [*shuffled, *(position for position in order if position not in best)]
    return chance.choice(order[:subset_size])


def _good(totals: Weights, subset_size: int, choices: int) -> list[int]:
    """Return the positions of the best, and of those among more of them that are nearly as good."""
    order = best_first(totals, choices)
    least = totals[order[0]] - NEARLY * (totals[order[0]] - totals.min())
    good = [position for position in order[subset_size:] if totals[position] >= least]
    return [*order[:subset_size], *good]


def _equal_best(totals: Weights) -> npt.NDArray[np.int64]:
    return np.flatnonzero(totals == totals.max())
