# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts: scale the raw weights of each weigher, multiply and sum them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.base_plugin import error_text
from scheduler.decision import picker
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, multipliers_of, weights_of
from scheduler.decision.types import WeighedHost
from scheduler.hosts.aggregate_metadata import keys_in_use
from scheduler.hosts.columns import Rows, Weights, total
from scheduler.hosts.host_state import Candidate, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


@dataclass(slots=True)
class Range:
    """The range that becomes 0 to 1: minval to maxval of the weigher, else the extremes.

    is_finite is set where all raw weights are finite, is_plain where all are also in the range, and
    the range itself is finite: nearly always.
    """

    low: float
    high: float
    is_finite: bool
    is_plain: bool


@dataclass(slots=True)
class Weighed:
    """A weigher with its multiplier for all hosts of a ranking, or one for each of them."""

    weigher: BaseHostWeigher
    multiplier: float | Weights

    def at(self, positions: Rows) -> "Weighed":
        """Return the same for the hosts at these positions."""
        if isinstance(self.multiplier, float):
            return self
        return Weighed(self.weigher, self.multiplier[positions])

    def range_of(self, raw: Weights, outside: Sequence[float] = ()) -> Range:
        """Return the range of raw weights, and of the least and the greatest of other hosts."""
        # For a hundred hosts min() and max() take ten times as long.
        least, most = raw.item(raw.argmin()), raw.item(raw.argmax())
        if outside:
            least, most = min(least, outside[0]), max(most, outside[1])
        minval, maxval = self.weigher.minval, self.weigher.maxval
        is_finite = -math.inf < least and most < math.inf
        if not is_finite:
            known = raw[np.isfinite(raw)]
            least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        low = least if minval is None else minval
        high = most if maxval is None else maxval
        is_plain = is_finite and low <= least and most <= high and high - low < math.inf
        return Range(low, high, is_finite, is_plain)

    def shares(self, raw: Weights, scale_range: Range) -> Weights | None:
        """Return the shares of hosts in their totals, None where all are 0."""
        low, high = scale_range.low, scale_range.high
        if not scale_range.is_plain or not self.weigher.scales:
            return self._unusual_shares(raw, scale_range)
        if high <= low:
            return None
        shares: Weights = _scaled(raw, low, high)
        if not isinstance(self.multiplier, float) or self.multiplier != 1.0:
            shares *= self.multiplier
        return shares

    def share(self, raw: float, position: int, scale_range: Range) -> float:
        """Return shares() of a single host, at this position, equal to the last bit.

        All raw weights have to be finite, and the range not empty.
        """
        multiplier = self.multiplier
        if not isinstance(multiplier, float):
            multiplier = float(multiplier[position])
        if not self.weigher.scales:
            return multiplier * raw
        low, high = scale_range.low, scale_range.high
        share: float = _scaled(min(max(raw, low), high), low, high)
        return share * multiplier

    def _unusual_shares(self, raw: Weights, scale_range: Range) -> Weights | None:
        """Return the shares; a raw weight that is not finite gets the least share."""
        low, high, is_finite = scale_range.low, scale_range.high, scale_range.is_finite
        finite = np.isfinite(raw)
        raw = raw if is_finite else np.where(finite, raw, 0.0)
        lowest: float | Weights = np.minimum(self.multiplier, 0.0)
        if not self.weigher.scales:
            shares = np.asarray(self.multiplier * raw)
            lowest = float(np.min(shares, where=finite, initial=0.0))
        elif high > low:
            clamped = np.minimum(np.maximum(raw, low), high)
            shares = _scaled(clamped, low, high) * self.multiplier
        elif is_finite:
            # All are equal, or below minval and so equal once they are clamped.
            return None
        else:
            shares = np.zeros(len(raw))
        return shares if is_finite else np.where(finite, shares, lowest)


def _scaled(raw: Any, low: float, high: float) -> Any:
    """Return (raw - low) / (high - low) for numbers from low to high, which is above low."""
    if high - low == math.inf:
        # The difference of two huge numbers is infinite; that of their halves is not.
        raw, low, high = raw / 2, low / 2, high / 2
    # Most ranges begin at 0, and a step less saves a sixth of the cost.
    return (raw - low if low else raw) / (high - low)


class Ranking:
    """Hosts with their total weights: the sum of the shares of all weighers.

    rows has the rows of the hosts, raw an array of raw weights for each weigher. outside has the
    least and the greatest raw weight of each weigher among hosts that are no part of the ranking,
    but of the range to which weights are scaled. A ranking that changes has to keep() its weights.
    """

    def __init__(
        self,
        rows: Rows,
        weighed: Sequence[Weighed] = (),
        raw: Any = None,
        outside: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.rows = rows
        self.weighed = weighed
        self.raw = np.zeros((0, len(rows))) if raw is None else raw
        self._outside: Sequence[Sequence[float]] = outside or [()] * len(weighed)
        self._names = [each.weigher.name for each in weighed]
        self.totals = np.zeros(len(rows))
        self.ranges: list[Range] = []
        self._shares: list[Weights | None] = []
        # One weigher after the other, while the processor has kept what was just computed.
        for at, each in enumerate(weighed):
            self.ranges.append(each.range_of(raw[at], self._outside[at]))
            self._shares.append(shares := each.shares(raw[at], self.ranges[at]))
            if shares is not None:
                self.totals += shares

    @property
    def is_finite(self) -> bool:
        """Whether all raw weights are finite."""
        return all(each.is_finite for each in self.ranges)

    def change(self, position: int, raw: Sequence[float]) -> None:
        """Set the raw weights of one host."""
        is_moved = False
        for at, (before, now) in enumerate(zip(self.raw[:, position].tolist(), raw, strict=True)):
            if before == now:
                continue
            self.raw[at, position] = now
            each, known = self.weighed[at], self.ranges[at]
            # Only a weight at one of its ends can move the range.
            if not (known.low < before < known.high and known.low < now < known.high):
                self.ranges[at] = each.range_of(self.raw[at], self._outside[at])
            if self.ranges[at] != known:
                self._shares[at], is_moved = each.shares(self.raw[at], self.ranges[at]), True
            elif (shares := self._shares[at]) is not None:
                shares[position] = each.share(now, position, known)
        added = [each for each in self._shares if each is not None]
        if is_moved:
            self.totals = sum(added, np.zeros(len(self.rows)))
        else:
            self.totals[position] = total([each.item(position) for each in added])

    def keep(self) -> None:
        """Copy the raw weights, which may be columns of the table, so that they can change."""
        self.raw = np.array(self.raw).reshape(len(self.weighed), len(self.rows))

    def extremes(self, positions: Rows) -> list[tuple[float, float]]:
        """Return the least and the greatest raw weight of each weigher among these hosts."""
        # For a column of indexes this takes a tenth of the time of raw[:, positions].
        raw = self.raw.take(positions, axis=1)
        least, most = raw.min(axis=1, initial=np.inf), raw.max(axis=1, initial=-np.inf)
        return [*zip(least.tolist(), most.tolist(), strict=True)]

    def part(self, positions: Rows, outside: Any = ()) -> "Ranking":
        """Return a ranking of the hosts at these positions."""
        weighed = [each.at(positions) for each in self.weighed]
        raw = self.raw.take(positions, axis=1)
        return Ranking(self.rows[positions], weighed, raw, outside)

    def shares(self) -> dict[str, Weights]:
        """Return the share of each weigher in the total of each host."""
        shares = [np.zeros(len(self.rows)) if each is None else each for each in self._shares]
        return dict(zip(self._names, shares, strict=True))

    def weighed_host(self, node: tuple[str, str], position: int) -> WeighedHost:
        """Return the host at a position, a node, with the share of each weigher in its total."""
        shares = [0.0 if each is None else each.item(position) for each in self._shares]
        by_name = dict(zip(self._names, shares, strict=True))
        return WeighedHost(*node, self.totals.item(position), by_name)

    def weighed_hosts(self, hosts: HostTable, positions: Sequence[int]) -> tuple[WeighedHost, ...]:
        """Return the same of the hosts at these positions, in less time than one by one."""
        at, nothing = np.array(positions), [0.0] * len(positions)
        shares = [nothing if each is None else each[at].tolist() for each in self._shares]
        names, found = self._names, []
        for number, node in enumerate(hosts.nodes(self.rows[at])):
            own = dict(zip(names, [each[number] for each in shares], strict=True))
            found.append(WeighedHost(*node, self.totals.item(positions[number]), own))
        return tuple(found)

    def remaining(self) -> Rows:
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
        row = self.rows.item(position)
        return candidate(hosts, row, hosts.limits.on(row), self.totals.item(position))


def weigh_hosts(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[BaseHostWeigher], rows: Rows
) -> Ranking:
    """Return the weights of these rows. A single host is not weighed at all.

    A weigher that fails is left out, with a warning that names it.
    """
    if len(rows) < 2:
        return Ranking(rows)
    is_all = len(rows) == hosts.size
    if is_all:
        hosts.candidates = hosts.present
    else:
        hosts.candidates = np.zeros(hosts.size, np.bool_)
        hosts.candidates[rows] = True
    in_use = keys_in_use(hosts, tuple([each.aggregate_key for each in weighers]))
    weighed: list[Weighed] = []
    raw: list[Weights] = []
    for each, is_used in zip(weighers, in_use, strict=True):
        try:
            own = float(each.sign * each.multiplier)
            is_plain = each.has_plain_multiplier and not is_used
            if (is_plain and not own) or not (each.always_applies or applies(each, spec)):
                continue
            multiplier: float | Weights | None = own
            if not (is_plain and math.isfinite(own)):
                multiplier = multipliers_of(each, hosts, rows)
            if multiplier is None:
                continue
            weights = weights_of(each, hosts, spec)
            raw.append(weights if is_all else weights.take(rows))
        except Exception as error:
            hosts.warn(f"{each.name} is left out since it failed: {error_text(error)}")
        else:
            weighed.append(Weighed(each, multiplier))
    return Ranking(rows, weighed, raw)
